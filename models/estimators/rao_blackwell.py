"""Rao-Blackwellised CoCoA: texts that were found weigh by probability, the rest by consistency.

The model knows the probability of each sequence that it drew. A is the answer y* and the distinct
sample texts, p(y) = exp(sum_t l_t) of a text's first occurrence in sample order, P = sum_A p. A
sample that equals y* adds nothing. Where P is 0, these are consistency and CoCoA. Ours, over
Vashurin et al. 2025.
"""

from collections.abc import Sequence

import numpy as np

from models.estimators.cocoa import consistency
from models.estimators.information import mte, ppl, sp
from models.estimators.values import nonempty, plain, with_tokens
from models.records import Array


def rb_consistency(
    answer_token_logprobs: Array,
    sample_token_logprobs: Sequence[Array],
    sample_texts: Sequence[str],
    similarity: Array,
    exact_match: Array,
) -> float:
    """Dissimilarity by probability: sum_A p(y) (1 - s(y, y*)) + (1 - P) * consistency, in [0, 1].

    Ours: Rao-Blackwell over Vashurin et al. 2025.

    A: the answer y* and the distinct sample texts; p(y) = exp(sum_t l_t) of a text's first
    occurrence in sample order; P = sum_A p. A sample that equals y* adds nothing. Where P > 1, the
    sum is divided by P and stands alone.

    answer_token_logprobs: (T,). sample_token_logprobs: M arrays (T_i,). sample_texts: M.
    similarity: (M,), or (M - 1,) without y* where that is one of the samples. exact_match: (M,).

    Use: as consistency, where log-probs are known: what was found counts by its probability, and
    only what was not found is estimated from the samples.
    """
    found = _first_occurrences(sample_texts, exact_match)
    probabilities = _probabilities(answer_token_logprobs, sample_token_logprobs, found)
    unseen = consistency(similarity)
    of_each = _of_each_sample(similarity, answer_token_logprobs, sample_token_logprobs, exact_match)
    dissimilarity = np.array([0.0, *(1.0 - of_each[found])])  # y* is wholly similar to itself
    mass, seen = probabilities.sum(), probabilities @ dissimilarity
    return plain(seen / mass if mass > 1 else seen + (1.0 - mass) * unseen)


def rb_cocoa_sp(
    answer_token_logprobs: Array,
    sample_token_logprobs: Sequence[Array],
    sample_texts: Sequence[str],
    similarity: Array,
    exact_match: Array,
) -> float:
    """Rao-Blackwellised CoCoA over sequence probability, the default: sp * rb_consistency, in nats.

    Ours: Rao-Blackwell over Vashurin et al. 2025.

    Use: as cocoa_sp, where the samples' log-probs are known; of most use for short answers, of
    whose probability ten samples find a large part.
    """
    return sp(answer_token_logprobs) * rb_consistency(
        answer_token_logprobs, sample_token_logprobs, sample_texts, similarity, exact_match
    )


def rb_cocoa_ppl(
    answer_token_logprobs: Array,
    sample_token_logprobs: Sequence[Array],
    sample_texts: Sequence[str],
    similarity: Array,
    exact_match: Array,
) -> float:
    """Rao-Blackwellised CoCoA over perplexity: ppl * rb_consistency, in nats.

    Ours: Rao-Blackwell over Vashurin et al. 2025.

    Use: as cocoa_ppl, where the samples' log-probs are known.
    """
    return ppl(answer_token_logprobs) * rb_consistency(
        answer_token_logprobs, sample_token_logprobs, sample_texts, similarity, exact_match
    )


def rb_cocoa_mte(
    answer_token_logprobs: Array,
    answer_token_entropies: Array,
    sample_token_logprobs: Sequence[Array],
    sample_texts: Sequence[str],
    similarity: Array,
    exact_match: Array,
) -> float:
    """Rao-Blackwellised CoCoA over mean token entropy: mte * rb_consistency, in nats.

    Ours: Rao-Blackwell over Vashurin et al. 2025.

    Use: as cocoa_mte, where the samples' log-probs are known.
    """
    return mte(answer_token_entropies) * rb_consistency(
        answer_token_logprobs, sample_token_logprobs, sample_texts, similarity, exact_match
    )


def found_mass(
    answer_token_logprobs: Array,
    sample_token_logprobs: Sequence[Array],
    sample_texts: Sequence[str],
    exact_match: Array,
) -> float:
    """Probability of all that was found, min(P, 1) of `rb_consistency`: in [0, 1].

    No estimator of uncertainty: it says how much of `rb_consistency` is weighed exactly.

    answer_token_logprobs: (T,). sample_token_logprobs: M arrays (T_i,). sample_texts: M.
    exact_match: (M,).

    Raises:
        Undefined: no samples, or an answer or a sample without tokens.
    """
    found = _first_occurrences(sample_texts, exact_match)
    probabilities = _probabilities(answer_token_logprobs, sample_token_logprobs, found)
    return plain(min(1.0, probabilities.sum()))


def _first_occurrences(sample_texts: Sequence[str], exact_match: Array) -> list[int]:
    """Index of the first sample of each distinct text that is not the answer's."""
    first_index = {text: i for i, text in reversed(list(enumerate(sample_texts)))}
    return sorted(i for i in first_index.values() if not exact_match[i])


def _probabilities(
    answer_token_logprobs: Array, sample_token_logprobs: Sequence[Array], found: Sequence[int]
) -> Array:
    """Probabilities of the answer and of the found samples: (1 + len(found),).

    The exponential is taken of sums only. What underflows was as good as not found: it weighs
    nothing, and consistency stands for it.
    """
    answer, samples = nonempty(answer_token_logprobs), with_tokens(sample_token_logprobs)
    sums: Array = np.array([answer.sum(), *(samples[i].sum() for i in found)])
    return np.exp(sums)


def _of_each_sample(
    similarity: Array,
    answer_token_logprobs: Array,
    sample_token_logprobs: Sequence[Array],
    exact_match: Array,
) -> Array:
    """Similarity (M,) of every sample, with 1 for y* where it is one of them and left out.

    It is the first that has the answer's text and log-probs: of equal ones the lowest is chosen.
    """
    if len(similarity) == len(exact_match):
        return similarity
    is_answer = []
    for matches, logprobs in zip(exact_match, sample_token_logprobs, strict=True):
        is_answer.append(bool(matches) and np.array_equal(logprobs, answer_token_logprobs))
    return np.insert(similarity, is_answer.index(True), 1.0)
