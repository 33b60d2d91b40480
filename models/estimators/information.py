"""Estimators of the model's own confidence: likelihood and entropy of answer and samples.

Also what all estimators share: when a value is undefined, and how a number is returned.
"""

import math
from collections.abc import Sequence, Sized
from typing import Any, TypeVar

from models.records import Array

T = TypeVar("T", bound=Sized)


class Undefined(Exception):
    """An estimator has no value for these statistics.

    The message is the reason that the response carries.
    """


def nonempty(values: Array) -> Array:
    """The statistics (T,) of an answer's tokens.

    Raises:
        Undefined: T = 0.
    """
    if len(values) == 0:
        raise Undefined("empty answer")
    return values


def at_least(count: int, samples: T) -> T:
    """Statistics of M samples, M >= `count`.

    Raises:
        Undefined: there are fewer.
    """
    if len(samples) == 0:
        raise Undefined("no samples")
    if len(samples) < count:
        raise Undefined(f"fewer than {count} samples")
    return samples


def with_tokens(arrays: Sequence[Array]) -> Sequence[Array]:
    """M >= 1 arrays (T_i,), none of them empty.

    Raises:
        Undefined: no samples, or one without tokens.
    """
    if not all(map(len, at_least(1, arrays))):
        raise Undefined("a sample without tokens")
    return arrays


def plain(value: Any) -> float:
    """A Python float; adding 0.0 turns the -0.0 of a certain answer into 0.0."""
    return float(value) + 0.0


def sp(answer_token_logprobs: Array) -> float:
    """Sequence probability: -sum_t l_t, in nats. Vashurin et al. 2025 (SP), LM-Polygraph MSP.

    answer_token_logprobs: (T,), the terminating token included.

    Use: short answers of similar length; it grows with length, so it ranks long answers last.
    """
    return plain(-nonempty(answer_token_logprobs).sum())


def root_sp(answer_token_logprobs: Array) -> float:
    """Sequence probability over the root of the length: sp / sqrt(T), in nats. Ours, 2026.

    answer_token_logprobs: (T,), the terminating token included.

    Use: as sp, where answers differ in length.
    """
    return sp(answer_token_logprobs) / math.sqrt(len(nonempty(answer_token_logprobs)))


def ppl(answer_token_logprobs: Array) -> float:
    """Perplexity, as a logarithm: -(1/T) sum_t l_t, in nats, never exponentiated.

    Fomicheva et al. 2020.

    answer_token_logprobs: (T,), the terminating token included.

    Use: answers of differing length; misses confident mistakes, as all likelihoods do.
    """
    return plain(-nonempty(answer_token_logprobs).mean())


def mte(answer_token_entropies: Array) -> float:
    """Mean token entropy: (1/T) sum_t H_t over the full vocabulary, in nats. Fomicheva et al. 2020.

    answer_token_entropies: (T,).

    Use: where the choice among many continuations matters more than the token chosen.
    """
    return plain(nonempty(answer_token_entropies).mean())


def reasoning_length(reasoning_tokens: float) -> float:
    """Length of the reasoning: tokens before the answer, its tags included. Devic et al. 2025.

    reasoning_tokens: at least 1; there is none for an answer without a reasoning.

    Use: large models that reason, where no samples can be had; to be tried on one's own prompts
    first, since it says nothing where a model thinks as long about everything
    (docs/results.md).
    """
    return plain(reasoning_tokens)


def mcse(sample_token_logprobs: Sequence[Array]) -> float:
    """Monte Carlo sequence entropy: -(1/M) sum_i sum_t l_t^(i), in nats. Malinin & Gales 2021.

    sample_token_logprobs: M arrays (T_i,).

    Use: the model's spread over whole answers, without any similarity model; grows with length.
    """
    samples = with_tokens(sample_token_logprobs)
    return plain(-sum(float(logprobs.sum()) for logprobs in samples) / len(samples))


def mcnse(sample_token_logprobs: Sequence[Array]) -> float:
    """Length-normalised Monte Carlo sequence entropy: -(1/M) sum_i (1/T_i) sum_t l_t^(i), in nats.

    Kuhn et al. 2023.

    sample_token_logprobs: M arrays (T_i,), the terminating token counted in sum and T_i.

    Use: as mcse, for samples of differing length.
    """
    samples = with_tokens(sample_token_logprobs)
    return plain(-sum(float(logprobs.mean()) for logprobs in samples) / len(samples))
