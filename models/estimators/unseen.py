"""Texts that were not found count as agreeing only in part. Ours, over `rb_inconsistency`.

`rb_inconsistency` takes the dissimilarity of what was not found for that of the samples, c. But a
sample that equals the answer, or another one that was found, says little of what was not: the more
was found, the less like the answer is the rest. So it is biased low, by (1 - P)(r - c) with r the
mean dissimilarity of the rest.
"""

from collections.abc import Sequence

from models.estimators.cocoa import found_mass, inconsistency, rb_inconsistency
from models.records import Array

# Least squares of (1 - P)(r - c) on (1 - P) P (1 - c), r by 400 draws: .40 to .67 for 3 to 10
# samples of two models.
SHARE = 0.5


def unseen_rb_inconsistency(
    answer_token_logprobs: Array,
    sample_token_logprobs: Sequence[Array],
    sample_texts: Sequence[str],
    similarity: Array,
    exact_match: Array,
) -> float:
    """Inconsistency, unseen texts: sum_A p(y) (1 - s(y, y*)) + (1 - P) [c + P (1 - c) / 2].

    Ours, 2026, over rb_inconsistency.

    A, p(y) and P: as in rb_inconsistency; c: inconsistency. In [0, 1], and nowhere below
    rb_inconsistency, which it equals where P is 0 or 1.

    Use: as rb_inconsistency, whose bias it takes away; answers that all samples repeat are told
    apart by their probability.
    """
    mass = found_mass(answer_token_logprobs, sample_token_logprobs, sample_texts, exact_match)
    disagreeing = mass * (1.0 - inconsistency(similarity)) * SHARE
    biased = rb_inconsistency(
        answer_token_logprobs, sample_token_logprobs, sample_texts, similarity, exact_match
    )
    return biased + (1.0 - mass) * disagreeing
