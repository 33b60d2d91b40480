"""Pure: what the likeliest tokens tell of an entropy. Bounds feed no estimator."""

import math
from collections.abc import Sequence

import numpy as np

from models.records import Array


def entropy_bounds(logprobs: Array, vocabulary_size: int) -> tuple[float, float]:
    """Least and greatest entropy in nats of a distribution of which the K likeliest are known.

    -Σ p ln p - r ln min(p_K, r) and -Σ p ln p - r ln(r / (V - K)), with r the mass that is missing:
    its tokens have at most p_K each, and at most an even share each is the most uncertain.

    Args:
        logprobs: (K,) of the likeliest tokens.
        vocabulary_size: V, or more.

    >>> uniform = np.log(np.full(2, 0.25))
    >>> [round(bound, 4) for bound in entropy_bounds(uniform, vocabulary_size=4)]
    [1.3863, 1.3863]
    """
    known = np.asarray(logprobs, dtype=np.float64)
    entropy = float(-(np.exp(known) * known).sum())
    missing = 1.0 - float(np.exp(known).sum())
    num_missing = vocabulary_size - len(known)
    if missing <= 0.0 or num_missing <= 0:
        return entropy, entropy
    largest = min(float(np.exp(known.min())), missing)
    lower = entropy - missing * math.log(max(largest, 1e-300))
    upper = entropy - missing * math.log(missing / num_missing)
    return min(lower, upper), upper


def mean_bounds(logprobs: Sequence[Array], vocabulary_size: int) -> tuple[float, float] | None:
    """Bounds of `mte`, the mean entropy of an answer's T tokens; None where it has none.

    Args:
        logprobs: T times the likeliest tokens' (K_t,).
        vocabulary_size: see `entropy_bounds`.
    """
    if not logprobs:
        return None
    bounds = np.array([entropy_bounds(one, vocabulary_size) for one in logprobs])
    lower, upper = bounds.mean(axis=0)
    return float(lower), float(upper)
