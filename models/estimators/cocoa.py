"""CoCoA, the model's lack of confidence u times its samples' lack of consistency c, and variants.

u is `sp`, `ppl` or `mte`, c is `inconsistency`. Vashurin et al. 2025.

Rao-Blackwellised (ours): texts that were found weigh by probability, the rest by inconsistency, as
`rb_inconsistency` has it. Where P is 0, these are inconsistency and CoCoA.
"""

import math
from collections.abc import Sequence

import numpy as np

from models.estimators.information import at_least, nonempty, plain, with_tokens
from models.records import Array

# A text may be written in several rows of tokens, each of a probability of its own. Log-probs of
# the same one differ by so many nats, at most, with what decodes beside it.
NOISE = 0.15


def inconsistency(similarity: Array) -> float:
    """Inconsistency of the answer with its M samples: (1/M) sum_i (1 - s_i).

    Vashurin et al. 2025, eq. 8.

    similarity: (M,), s(y*, y_i) in [0, 1].

    Use: where only texts are available, without log-probs; many wordings of one meaning count as
    consistent.
    """
    return plain((1.0 - at_least(1, similarity)).mean())


def inconsistency_std_error(similarity: Array) -> float | None:
    """Standard error of `inconsistency`: sd(1 - s_i, ddof 1) / sqrt(M); None for M < 2.

    similarity: (M,).
    """
    if len(similarity) < 2:
        return None
    deviations = similarity - similarity.mean()
    return math.sqrt(deviations @ deviations / (len(similarity) * (len(similarity) - 1)))


def sample_inconsistency(similarity_matrix: Array) -> float:
    """Mean over pairs of samples: mean_{i != j} (1 - S_ij). similarity_matrix: (M, M), M > 1."""
    num_samples = len(at_least(2, similarity_matrix))
    dissimilarity = 1.0 - similarity_matrix
    return plain((dissimilarity.sum() - dissimilarity.trace()) / (num_samples * (num_samples - 1)))


def rb_inconsistency(
    answer_token_logprobs: Array,
    sample_token_logprobs: Sequence[Array],
    sample_texts: Sequence[str],
    similarity: Array,
    exact_match: Array,
) -> float:
    """Inconsistency by probability: sum_A p(y) (1 - s(y, y*)) + (1 - P) * inconsistency, in [0, 1].

    Ours: Rao-Blackwell over Vashurin et al. 2025.

    A: the answer y* and the distinct rows of tokens among the samples, which differ by text or by
    log-probs; p(y) = exp(sum_t l_t); P = sum_A p. A sample that equals y* adds nothing. Where
    P > 1, the sum is divided by P and stands alone.

    answer_token_logprobs: (T,). sample_token_logprobs: M arrays (T_i,). sample_texts: M.
    similarity: (M,), or (M - 1,) without y* where that is one of the samples. exact_match: (M,).

    Use: as inconsistency, where log-probs are known: what was found counts by its probability, and
    only what was not found is estimated from the samples.
    """
    distinct = distinct_rows(sample_texts, sample_token_logprobs, exact_match)
    sums, samples = [nonempty(answer_token_logprobs).sum()], with_tokens(sample_token_logprobs)
    for i in distinct:
        sums.append(samples[i].sum())
    # What underflows was as good as not found: it weighs nothing, and inconsistency stands for it.
    probabilities: Array = np.exp(np.array(sums))
    unseen = inconsistency(similarity)
    of_each = _of_each_sample(similarity, answer_token_logprobs, sample_token_logprobs, exact_match)
    dissimilarity = np.array([0.0, *(1.0 - of_each[distinct])])  # y* is wholly similar to itself
    mass, seen = probabilities.sum(), probabilities @ dissimilarity
    if mass > 1:
        return plain(seen / mass)
    return plain(seen + (1.0 - mass) * unseen)


def distinct_rows(
    sample_texts: Sequence[str], sample_token_logprobs: Sequence[Array], exact_match: Array
) -> list[int]:
    """Index of one sample of each row of tokens, by text and log-probs, but for the answer's."""
    found: dict[int, tuple[str, Array]] = {}
    for i in sorted(range(len(sample_texts)), key=lambda i: sample_token_logprobs[i].tolist()):
        text, row = sample_texts[i], sample_token_logprobs[i]
        if not exact_match[i] and not any(
            text == other and row.shape == one.shape and np.allclose(row, one, 0.0, NOISE)
            for other, one in found.values()
        ):
            found[i] = text, row
    return sorted(found)


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
    for i in np.flatnonzero(exact_match).tolist():
        if np.array_equal(sample_token_logprobs[i], answer_token_logprobs):
            return np.insert(similarity, i, 1.0)
    raise ValueError("the answer is none of the samples")
