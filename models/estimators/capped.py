"""Sequence probability that stops growing with length, and CoCoA over it. Ours.

A sum over tokens measures length where lengths differ, a mean forgets that a longer answer has more
to get wrong. Up to 16 tokens these are the sum, and beyond 16 times the mean: answers count as if
they were at most 16 tokens long.
"""

from collections.abc import Sequence

from models.estimators.cocoa import consistency, rb_consistency
from models.estimators.information import nonempty, sp
from models.records import Array

CAP = 16  # tokens; the short answers of docs/results-in-detail.md have fewer


def capped_sp(answer_token_logprobs: Array) -> float:
    """Sequence probability of at most 16 tokens: sp * min(1, 16 / T), in nats. Ours, 2026.

    answer_token_logprobs: (T,), the terminating token included.

    Use: as sp, where lengths are mixed and an answer is worth the share of it that is right.
    """
    num_tokens = len(nonempty(answer_token_logprobs))
    return sp(answer_token_logprobs) * min(1.0, CAP / num_tokens)


def capped_cocoa_sp(answer_token_logprobs: Array, similarity: Array) -> float:
    """CoCoA over sequence probability of at most 16 tokens: capped_sp * consistency, in nats.

    Ours, over Vashurin et al. 2025.

    Use: as cocoa_sp, where lengths are mixed and an answer is worth the share of it that is right;
    where all of it must be right, cocoa_sp.
    """
    return capped_sp(answer_token_logprobs) * consistency(similarity)


def capped_rb_cocoa_sp(
    answer_token_logprobs: Array,
    sample_token_logprobs: Sequence[Array],
    sample_texts: Sequence[str],
    similarity: Array,
    exact_match: Array,
) -> float:
    """Rao-Blackwellised CoCoA over at most 16 tokens: capped_sp * rb_consistency, in nats.

    Ours: Rao-Blackwell over Vashurin et al. 2025.

    Use: as rb_cocoa_sp, the default, which it equals up to 16 tokens, where lengths are mixed and
    an answer is worth the share of it that is right.
    """
    return capped_sp(answer_token_logprobs) * rb_consistency(
        answer_token_logprobs, sample_token_logprobs, sample_texts, similarity, exact_match
    )
