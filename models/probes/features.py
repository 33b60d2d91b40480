"""Features of a probe: the mean hidden state of a layer, and numbers of the answer's tokens."""

import math
from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np

from models.records import Array

TokenFeature = Literal["sp", "mte", "log_length"]
TOKEN_FEATURES: tuple[TokenFeature, ...] = get_args(TokenFeature)

# The statistics that the numbers are computed from.
STATISTICS_READ = frozenset({"answer_token_logprobs", "answer_token_entropies"})


def joined(mean: Array, names: Sequence[str], *, sp: float, mte: float, num_tokens: int) -> Array:
    """One row (d + k,) of what a network reads: the hidden state, then the named numbers.

    Args:
        mean: (d,) mean hidden state.
        names: k of `TOKEN_FEATURES`.
        sp: the answer's summed negative log-likelihood, nats.
        mte: its mean token entropy, nats.
        num_tokens: T, at least 1.
    """
    values = {"sp": sp, "mte": mte, "log_length": math.log(num_tokens)}
    numbers = np.array([values[name] for name in names], dtype=np.float32)
    return np.concatenate([np.asarray(mean, dtype=np.float32), numbers])
