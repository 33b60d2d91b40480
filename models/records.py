"""Frozen records that travel between gateway, workers and models. No I/O, no formulas."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]
FinishReason = Literal["stop", "length", "given"]
Pair = tuple[str, str]
OnToken = Callable[[str], None]

# Statistics that an engine supplies; the names are those of the estimators' parameters.
ANSWER_STATISTICS = frozenset(
    {"answer_token_logprobs", "answer_token_entropies", "answer_token_texts"}
)
SAMPLE_STATISTICS = frozenset(
    {"sample_texts", "sample_token_logprobs", "sample_token_entropies", "sample_token_texts"}
)
# What probes predict from the hidden states of the greedy answer.
PROBE_STATISTICS = frozenset({"predicted_dissimilarity", "predicted_high_semantic_entropy"})


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How the samples are drawn; the greedy answer heeds `max_new_tokens` and `stop` only.

    Attributes:
        num_samples: M, drawn only when a wanted statistic reads samples.
        max_new_tokens: upper bound of T, for the answer and for each sample.
        top_k: 0 keeps the whole vocabulary.
        seed: None lets the engine draw one, which the generation carries.
    """

    num_samples: int = 10
    max_new_tokens: int = 256
    temperature: float = 1.0
    top_k: int = 50
    top_p: float = 1.0
    stop: tuple[str, ...] = ()
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One prompt and the statistics wanted of it.

    Attributes:
        prompt: raw text, continued as it stands; exclusive with `messages`.
        messages: chat messages {"role", "content"}, put into the model's own template.
        statistics: names of `ANSWER_STATISTICS | SAMPLE_STATISTICS`; nothing else is computed.
        answer_ids: token ids of an answer that exists already (`Engine.encode_answer`); no greedy
            one is decoded then.
        hidden_layers: blocks whose hidden states are averaged over the greedy answer:
            `hidden_states[k]` of Hugging Face, 0 < k < L. Needs the engine's statistic
            `answer_hidden_mean`.
    """

    prompt: str | None = None
    messages: tuple[Mapping[str, str], ...] | None = None
    chat_template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    sampling: SamplingParams = SamplingParams()
    statistics: frozenset[str] = frozenset()
    answer_ids: tuple[int, ...] | None = None
    hidden_layers: tuple[int, ...] = ()

    @property
    def num_samples(self) -> int:
        """M where a wanted statistic reads samples, else 0."""
        return self.sampling.num_samples if self.statistics & SAMPLE_STATISTICS else 0


@dataclass(frozen=True, slots=True)
class Sequence:
    """One generated (or given) token sequence of length T, its terminating token included.

    Attributes:
        text: decoded text without special tokens and without the stop string that ended it.
        compared_text: what similarity reads: stripped, without a `<think>…</think>` prefix.
        token_ids: (T,).
        token_logprobs: (T,) nats, from the raw distribution; None where not wanted.
        token_entropies: (T,) nats, over the full vocabulary; None where not wanted.
        token_texts: (T,) the text that each token adds; they join to the decoded text. None where
            not wanted.
    """

    text: str
    compared_text: str
    token_ids: tuple[int, ...]
    finish_reason: FinishReason
    token_logprobs: Array | None = None
    token_entropies: Array | None = None
    token_texts: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class ProbeReading:
    """What a probe says of one answer.

    Attributes:
        value: in [0, 1].
        distance_percentile: where the features' distance from the training set lies among held-out
            rows, in [0, 100].
        out_of_domain: whether the probe has no ground to be trusted on this answer.
    """

    value: float
    distance_percentile: float
    out_of_domain: bool


@dataclass(frozen=True, slots=True)
class Generation:
    """What an engine returns: the answer, its M samples, and what they cost.

    Attributes:
        answer_hidden_mean: (layers, d) of `GenerationRequest.hidden_layers`; never leaves the
            generation worker.
        probe_readings: by name of the statistic that each probe predicts.
        seed: the seed that repeats this generation.
        queue_s: seconds between the call and the first prefill.
        generate_s: seconds from there to the last token.
        warnings: codes, e.g. `reasoning_excluded`.
    """

    answer: Sequence
    samples: tuple[Sequence, ...]
    prompt_tokens: int
    seed: int
    model_id: str
    revision: str | None = None
    queue_s: float = 0.0
    generate_s: float = 0.0
    warnings: tuple[str, ...] = ()
    answer_hidden_mean: Array | None = None
    probe_readings: Mapping[str, ProbeReading] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PairScores:
    """Scores of N ordered text pairs by one pair model with K labels.

    Attributes:
        values: (N, K) probabilities in [0, 1].
        truncated: (N,) True where the pair exceeded the model's input length and was cut.
    """

    values: Array
    truncated: NDArray[np.bool_]
