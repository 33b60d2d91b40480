"""The choice of the answer y*, where it is one of the samples. Ties go to the lowest index."""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from models.records import Array

# What an ask may name; all but "greedy" choose among the samples.
AnswerStrategy = Literal["greedy", "most_probable", "most_probable_normalized", "mbr"]
# "sample": drawn at a temperature of its own, and not greedy. "given": the client sent the answer.
Strategy = Literal[AnswerStrategy, "sample", "given"]


def most_probable(sample_token_logprobs: Sequence[Array]) -> int:
    """argmax_i sum_t l_t^(i): favours short answers, which is why it differs from greedy."""
    return int(np.argmax(list(map(np.sum, sample_token_logprobs))))


def most_probable_normalized(sample_token_logprobs: Sequence[Array]) -> int:
    """argmax_i mean_t l_t^(i)."""
    return int(np.argmax(list(map(np.mean, sample_token_logprobs))))


def mbr(similarity_matrix: Array) -> int:
    """Minimum Bayes risk: argmax_i mean_{j != i} S_ij; with a single sample, that sample.

    similarity_matrix: (M, M).
    """
    others = similarity_matrix - np.diag(np.diagonal(similarity_matrix))
    # Exact sums: rows of equal texts hold the same values in another order, and must tie.
    return int(np.argmax(list(map(math.fsum, others))))
