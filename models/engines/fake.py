"""A deterministic engine without a model, for tests of everything above the engine; numpy only.

It passes the same contract suite as the real ones. `slow`, `failing` and `dying` wrap any engine.
"""

import asyncio
import hashlib
import math
import re
from collections.abc import Awaitable, Callable
from collections.abc import Sequence as SequenceOf
from typing import Any, Self

import numpy as np

from models.engines.protocol import EngineConfig, OnStep, check_hidden_layers
from models.engines.texts import cut_at_stop, without_reasoning
from models.errors import ChatTemplateError, NotReady, PromptTooLong
from models.records import (
    ANSWER_STATISTICS,
    SAMPLE_STATISTICS,
    Array,
    FinishReason,
    Generation,
    GenerationRequest,
    OnToken,
    SamplingParams,
    Sequence,
)

_ANSWERS = (" Paris", " It is Paris.", " The capital is Paris.", " Lyon", " I do not know.", "")


class FakeEngine:
    """Answers from a fixed list, chosen by a hash of the prompt.

    A token is a word with its leading blank.
    """

    statistics = ANSWER_STATISTICS | SAMPLE_STATISTICS | {"p_true_logprob", "answer_hidden_mean"}
    dtype, num_layers, hidden_size = "float64", 4, 8
    num_waiting = 0
    busy_since: float | None = None

    def __init__(self, *, max_context_tokens: int = 512, on_step: OnStep | None = None) -> None:
        self.model_id = "fake"
        self.revision: str | None = "1"
        self.max_context_tokens = max_context_tokens
        self.num_calls = 0
        self.num_sequences = 0
        self._on_step = on_step
        self._ended: asyncio.Future[None] | None = None
        self._closed = False
        self._running: set[asyncio.Task[Any]] = set()

    @classmethod
    def load(cls, config: EngineConfig, on_step: OnStep | None = None) -> Self:
        """The fake has nothing to load."""
        return cls(on_step=on_step)

    async def run(self) -> None:
        """Wait for `close` or `die`."""
        self._ended = asyncio.get_running_loop().create_future()
        try:
            await self._ended
        finally:
            self._closed = True

    def die(self) -> None:
        """End `run` with an exception, as a lost device would."""
        self._closed = True
        if self._ended is not None and not self._ended.done():
            self._ended.set_exception(RuntimeError("device lost"))

    async def generate(
        self, request: GenerationRequest, on_token: OnToken | None = None
    ) -> Generation:
        """See `Engine.generate`."""
        self._check_open()
        check_hidden_layers(request, self.num_layers)
        prompt = self._prompt(request)
        prompt_tokens = self._check_length(prompt, request)
        self.num_calls += 1
        self.num_sequences += 1 + request.num_samples
        if self._on_step is not None:
            self._on_step(1 + request.num_samples)
        await asyncio.sleep(0)
        digest = int.from_bytes(hashlib.sha256(prompt.encode()).digest()[:8])
        seed = request.sampling.seed if request.sampling.seed is not None else digest % 2**53
        rng = np.random.Generator(np.random.Philox([seed, digest]))
        if request.answer_ids is not None:
            answer = _given(request)
        else:
            answer = _sequence(_ANSWERS[digest % 4], request, "answer")
        samples = tuple(
            _sequence(_ANSWERS[int(rng.integers(len(_ANSWERS)))], request, "sample")
            for _ in range(request.num_samples)
        )
        if on_token is not None:
            for piece in re.findall(r"\s*\S+|\s+", answer.text):
                on_token(piece)
        return Generation(
            answer,
            samples,
            prompt_tokens,
            seed,
            self.model_id,
            self.revision,
            answer_hidden_mean=_hidden(digest, request.hidden_layers, self.hidden_size),
        )

    async def first_token_logprobs(
        self, request: GenerationRequest, groups: SequenceOf[SequenceOf[str]]
    ) -> list[float | None]:
        """See `Engine.first_token_logprobs`; the spellings share the mass by a hash."""
        self._check_open()
        self._check_length(self._prompt(request), request)
        self.num_calls += 1
        masses = [sum(1 + _token_id(text) for text in set(group)) for group in groups]
        return [math.log(mass / sum(masses)) if mass else None for mass in masses]

    async def encode_answer(self, text: str, *, append_eos: bool) -> tuple[int, ...]:
        """See `Engine.encode_answer`."""
        self._check_open()
        return tuple(map(_token_id, [*re.findall(r"\s*\S+", text), *([""] if append_eos else [])]))

    async def close(self) -> None:
        """End `run`."""
        self._closed = True
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    def _check_open(self) -> None:
        if self._closed:
            raise NotReady("the language model has stopped")

    def _prompt(self, request: GenerationRequest) -> str:
        if request.prompt is not None:
            return request.prompt
        messages = request.messages or ()
        if any(message["role"] == "tool" for message in messages):
            raise ChatTemplateError(
                "the model's chat template refused the messages", field="messages"
            )
        return "".join(f"[{message['role']}]{message['content']}" for message in messages)

    def _check_length(self, prompt: str, request: GenerationRequest) -> int:
        num_prompt, num_new = len(prompt.split()) + 1, request.sampling.max_new_tokens
        if num_prompt + num_new > self.max_context_tokens:
            raise PromptTooLong(
                f"the prompt has {num_prompt} tokens and max_new_tokens is {num_new}; "
                f"the model's context holds {self.max_context_tokens}",
                field="prompt" if num_prompt >= self.max_context_tokens else "max_new_tokens",
            )
        return num_prompt


def slow(engine: Any, delay_s: float) -> Any:
    """`engine`, each generation of which takes `delay_s` longer."""
    return _Wrapper(engine, lambda: asyncio.sleep(delay_s))


def failing(engine: Any, error: Exception) -> Any:
    """`engine`, each generation of which raises `error`."""

    async def fail() -> None:
        raise error

    return _Wrapper(engine, fail)


def dying(engine: FakeEngine) -> Any:
    """`engine`, whose loop dies at the first generation, which fails with it."""

    async def die() -> None:
        engine.die()

    return _Wrapper(engine, die)


class _Wrapper:
    def __init__(self, engine: Any, before: Callable[[], Awaitable[None]]) -> None:
        self._engine = engine
        self._before = before

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    async def generate(
        self, request: GenerationRequest, on_token: OnToken | None = None
    ) -> Generation:
        await self._before()
        generation: Generation = await self._engine.generate(request, on_token)
        return generation


def _sequence(text: str, request: GenerationRequest, role: str) -> Sequence:
    tokens, finish_reason = _truncate(
        [*re.findall(r"\s*\S+", text), ""], request.sampling
    )  # "" stands for EOS
    text = "".join(tokens)
    stopped = cut_at_stop(text, request.sampling.stop)
    return Sequence(
        text=text if stopped is None else stopped,
        compared_text=without_reasoning(text if stopped is None else stopped).strip(),
        token_ids=tuple(_token_id(token) for token in tokens),
        finish_reason=finish_reason,
        token_logprobs=_pseudo(tokens, -1.0)
        if f"{role}_token_logprobs" in request.statistics
        else None,
        token_entropies=_pseudo(tokens, 2.0)
        if f"{role}_token_entropies" in request.statistics
        else None,
        token_texts=tuple(tokens) if f"{role}_token_texts" in request.statistics else None,
    )


def _truncate(tokens: list[str], sampling: SamplingParams) -> tuple[list[str], FinishReason]:
    for end in range(1, min(len(tokens), sampling.max_new_tokens) + 1):
        if cut_at_stop("".join(tokens[:end]), sampling.stop) is not None:
            return tokens[:end], "stop"
    if len(tokens) > sampling.max_new_tokens:
        return tokens[: sampling.max_new_tokens], "length"
    return tokens, "stop"


def _given(request: GenerationRequest) -> Sequence:
    tokens = [f" token{token}" for token in request.answer_ids or ()]
    wanted = request.statistics
    return Sequence(
        text="".join(tokens),
        compared_text="".join(tokens).strip(),
        token_ids=request.answer_ids or (),
        finish_reason="given",
        token_logprobs=_pseudo(tokens, -1.0) if "answer_token_logprobs" in wanted else None,
        token_entropies=_pseudo(tokens, 2.0) if "answer_token_entropies" in wanted else None,
        token_texts=tuple(tokens) if "answer_token_texts" in wanted else None,
    )


def _hidden(digest: int, layers: tuple[int, ...], size: int) -> Array | None:
    """(layers, d) float32, the same for the same prompt."""
    if not layers:
        return None
    rows = [
        np.random.Generator(np.random.Philox([digest, layer])).standard_normal(size)
        for layer in layers
    ]
    return np.array(rows, dtype=np.float32)


def _token_id(token: str) -> int:
    return hashlib.sha256(token.encode()).digest()[0]


def _pseudo(tokens: list[str], scale: float) -> Array:
    """One value a token in (0, scale], the same for the same token."""
    return np.array([scale * (1 + _token_id(token)) / 256 for token in tokens], dtype=np.float64)
