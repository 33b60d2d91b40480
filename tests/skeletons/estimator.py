"""An estimator: a pure function, and its row."""

from collections.abc import Sequence

import numpy as np

from models.estimators import row
from models.estimators.information import plain, with_tokens
from models.records import Array


def spread(sample_token_logprobs: Sequence[Array]) -> float:
    """Standard deviation of the samples' log-probabilities: sd_i(sum_t l_t^(i)), in nats.

    An example, 2026.

    sample_token_logprobs: M >= 1 arrays (T_i,).

    Use: to be copied.
    """
    sums = [logprobs.sum() for logprobs in with_tokens(sample_token_logprobs)]
    return plain(np.std(sums))


ROW = row(spread, "likelihood")
