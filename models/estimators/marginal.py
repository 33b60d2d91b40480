"""CoCoA of a reasoned answer: its probability averaged over the samples' reasonings.

Behind one reasoning r the answer's probability is p(a | x, r), which is not p(a | x). Averaged over
the reasonings r_i of the N finished samples other than y*: p(a) ≈ (1/N) sum_i p(a | x, r_i). Ours,
over Vashurin et al. 2025.
"""

import numpy as np

from models.estimators.cocoa import consistency
from models.estimators.information import Undefined, plain
from models.records import Array


def marginal_sp(reasoned_logprobs: Array) -> float:
    """Sequence probability over all reasonings: -ln (1/N) sum_i p(y* | x, r_i), in nats.

    Ours, over Vashurin et al. 2025.

    reasoned_logprobs: (A, N), ln p(a | x, r_i) of the answer y* and of the other distinct final
    answers, y* first, behind the reasoning of each finished sample other than y*.

    Use: to be tried on models whose answers do not repeat what their reasoning has found; where
    they do, it ranks as consistency does, which costs less.
    """
    return plain(-_log_means(reasoned_logprobs)[0])


def marginal_rb_consistency(
    reasoned_logprobs: Array, reasoned_similarity: Array, similarity: Array
) -> float:
    """Dissimilarity by probability: sum_A p(a) (1 - s(a, y*)) + (1 - P) * consistency.

    Ours, over Vashurin et al. 2025.

    A: y* and the other distinct final answers; p(a) = (1/N) sum_i p(a | x, r_i); P = sum_A p,
    which rounding alone takes above 1.

    reasoned_logprobs: (A, N), as of marginal_sp. reasoned_similarity: (A,), s(a, y*), 1 for y*
    itself. similarity: (M,).

    Use: as rb_consistency, for models that reason; see marginal_sp.
    """
    probabilities = np.exp(_log_means(reasoned_logprobs))
    unseen = max(0.0, 1.0 - float(probabilities.sum()))
    return plain(probabilities @ (1.0 - reasoned_similarity) + unseen * consistency(similarity))


def marginal_cocoa_sp(
    reasoned_logprobs: Array, reasoned_similarity: Array, similarity: Array
) -> float:
    """CoCoA over all reasonings: marginal_sp * marginal_rb_consistency, in nats.

    Ours, over Vashurin et al. 2025.

    Use: as rb_cocoa_sp, for models that reason; see marginal_sp.
    """
    return marginal_sp(reasoned_logprobs) * marginal_rb_consistency(
        reasoned_logprobs, reasoned_similarity, similarity
    )


def _log_means(logprobs: Array) -> Array:
    """Log of the mean probability of each row of (A, N); sums of -2,000 do not underflow."""
    if not logprobs.shape[1]:
        raise Undefined("no other sample finished its reasoning")
    greatest = logprobs.max(axis=1, keepdims=True)
    means: Array = greatest[:, 0] + np.log(np.exp(logprobs - greatest).mean(axis=1))
    return means
