"""Shifting attention to relevance: likelihoods weighted by what each token or sample means.

Duan et al. 2024.
"""

import math
from collections.abc import Sequence

import numpy as np

from models.estimators.information import at_least, nonempty, plain, with_tokens
from models.records import Array

_TEMPERATURE = 0.001


def token_sar(answer_token_logprobs: Array, token_relevance: Array) -> float:
    """Likelihood weighted by token relevance: sum_t R~_t (-l_t), R~ = R / sum R, in nats.

    Duan et al. 2024.

    Where no token is relevant, all weigh the same.

    answer_token_logprobs, token_relevance: (T,).

    Use: long answers in which few words carry the meaning. Costs 2 pairs a token, each with the
    prompt in it.
    """
    logprobs = nonempty(answer_token_logprobs)
    total = token_relevance.sum()
    weights = token_relevance / total if total > 0 else np.full(len(logprobs), 1 / len(logprobs))
    return plain(-(weights * logprobs).sum())


def sentence_sar(sample_token_logprobs: Sequence[Array], similarity_matrix: Array) -> float:
    """Likelihood shared among similar samples: -(1/M) sum_i log(p_i + (1/t) sum_{j!=i} s_ij p_j).

    Duan et al. 2024.

    t = 0.001.

    sample_token_logprobs: M arrays (T_i,). similarity_matrix: (M, M).

    Use: as mcse, with likelihood shared among samples of like meaning.
    """
    logprobs = np.array(list(map(np.sum, with_tokens(sample_token_logprobs))))
    return _shared(logprobs, similarity_matrix)


def sar(
    sample_token_logprobs: Sequence[Array],
    sample_token_relevance: Sequence[Array],
    similarity_matrix: Array,
) -> float:
    """SAR, of tokens and samples: sentence_sar with p_i = exp(-token_sar_i). Duan et al. 2024.

    sample_token_logprobs, sample_token_relevance: M arrays (T_i,). similarity_matrix: (M, M).

    Use: sentence_sar with the weights of token_sar; the most expensive of all.
    """
    samples = zip(with_tokens(sample_token_logprobs), sample_token_relevance, strict=True)
    weighted_logprobs = [-token_sar(logprobs, relevance) for logprobs, relevance in samples]
    return _shared(np.array(weighted_logprobs), similarity_matrix)


def _shared(logprobs: Array, similarity_matrix: Array) -> float:
    """sentence_sar of given log p_i; in log space, since likelihoods of long answers underflow.

    logprobs: (M,). similarity_matrix: (M, M).
    """
    with np.errstate(divide="ignore"):  # a similarity of 0 contributes exp(-inf) = 0
        log_shares: Array = np.log(at_least(1, similarity_matrix)) - math.log(_TEMPERATURE)
    np.fill_diagonal(log_shares, 0.0)
    return plain(-np.logaddexp.reduce(log_shares + logprobs, axis=1).mean())
