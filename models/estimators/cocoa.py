"""CoCoA, the model's lack of confidence u times its samples' lack of consistency c, and variants.

u is `sp`, `ppl` or `mte`, c is `consistency`. Vashurin et al. 2025.
"""

import math

from models.estimators.information import mte, ppl, sp
from models.estimators.values import at_least, plain
from models.records import Array


def consistency(similarity: Array) -> float:
    """Mean dissimilarity of the answer to its M samples: (1/M) sum_i (1 - s_i).

    Vashurin et al. 2025, eq. 8.

    similarity: (M,), s(y*, y_i) in [0, 1].

    Use: where only texts are available, without log-probs; many wordings of one meaning count as
    consistent.
    """
    return plain((1.0 - at_least(1, similarity)).mean())


def cocoa_sp(answer_token_logprobs: Array, similarity: Array) -> float:
    """CoCoA over sequence probability: sp * consistency, in nats.

    Vashurin et al. 2025.

    Use: high only where the model is unsure and its samples disagree. Measured on
    short answers; as sp it grows with length.
    """
    return sp(answer_token_logprobs) * consistency(similarity)


def cocoa_ppl(answer_token_logprobs: Array, similarity: Array) -> float:
    """CoCoA over perplexity: ppl * consistency, in nats. Vashurin et al. 2025.

    Use: as cocoa_sp, for answers of one form and differing length; a mean over tokens can rank the
    wrong way where a model mixes words and sentences.
    """
    return ppl(answer_token_logprobs) * consistency(similarity)


def cocoa_mte(answer_token_entropies: Array, similarity: Array) -> float:
    """CoCoA over mean token entropy: mte * consistency, in nats. Vashurin et al. 2025.

    Use: as cocoa_ppl, where entropies are available and answers are free text.
    """
    return mte(answer_token_entropies) * consistency(similarity)


def prob_cocoa_sp(answer_token_logprobs: Array, similarity: Array) -> float:
    """CoCoA with a probability as its base: (1 - exp(sum_t l_t)) * consistency, in [0, 1].

    Vashurin et al. 2025.

    Use: as cocoa_sp, bounded; flat for long answers, whose probability is near 0.
    """
    return -math.expm1(-sp(answer_token_logprobs)) * consistency(similarity)


def prob_cocoa_ppl(answer_token_logprobs: Array, similarity: Array) -> float:
    """CoCoA with a token's probability as its base: (1 - exp(mean_t l_t)) * consistency.

    Vashurin et al. 2025.

    Use: as cocoa_ppl, bounded.
    """
    return -math.expm1(-ppl(answer_token_logprobs)) * consistency(similarity)


def additive_cocoa_sp(answer_token_logprobs: Array, similarity: Array) -> float:
    """Sum in place of the product: sp + consistency. Vashurin et al. 2025.

    Use: the paper's ablation; the part with the larger scale decides.
    """
    return sp(answer_token_logprobs) + consistency(similarity)


def additive_cocoa_ppl(answer_token_logprobs: Array, similarity: Array) -> float:
    """Sum in place of the product: ppl + consistency. Vashurin et al. 2025.

    Use: the paper's ablation; closer to the product than the other sums, as its parts are of
    similar size.
    """
    return ppl(answer_token_logprobs) + consistency(similarity)


def additive_cocoa_mte(answer_token_entropies: Array, similarity: Array) -> float:
    """Sum in place of the product: mte + consistency. Vashurin et al. 2025.

    Use: the paper's ablation.
    """
    return mte(answer_token_entropies) + consistency(similarity)


def full_sample_cocoa_sp(answer_token_logprobs: Array, similarity_matrix: Array) -> float:
    """Samples against each other in place of the answer: sp * mean_{i != j} (1 - S_ij).

    Vashurin et al. 2025.

    Use: the paper's ablation on whether the answer itself must be compared. Costs D(D - 1) pairs.
    """
    return sp(answer_token_logprobs) * _mean_dissimilarity(similarity_matrix)


def full_sample_cocoa_ppl(answer_token_logprobs: Array, similarity_matrix: Array) -> float:
    """Samples against each other in place of the answer: ppl * mean_{i != j} (1 - S_ij).

    Vashurin et al. 2025.

    Use: the paper's ablation on whether the answer itself must be compared. Costs D(D - 1) pairs.
    """
    return ppl(answer_token_logprobs) * _mean_dissimilarity(similarity_matrix)


def full_sample_cocoa_mte(answer_token_entropies: Array, similarity_matrix: Array) -> float:
    """Samples against each other in place of the answer: mte * mean_{i != j} (1 - S_ij).

    Vashurin et al. 2025.

    Use: the paper's ablation on whether the answer itself must be compared. Costs D(D - 1) pairs.
    """
    return mte(answer_token_entropies) * _mean_dissimilarity(similarity_matrix)


def consistency_std_error(similarity: Array) -> float | None:
    """Standard error of `consistency`: sd(1 - s_i, ddof 1) / sqrt(M); None for M < 2.

    similarity: (M,).
    """
    if len(similarity) < 2:
        return None
    return float(similarity.std(ddof=1)) / math.sqrt(len(similarity))


def _mean_dissimilarity(matrix: Array) -> float:
    num_samples = len(at_least(2, matrix))
    dissimilarity = 1.0 - matrix
    return plain((dissimilarity.sum() - dissimilarity.trace()) / (num_samples * (num_samples - 1)))
