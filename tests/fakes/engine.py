"""A deterministic engine without a model, for tests of everything above the engine; numpy only.

It passes the same contract suite as the real ones.
"""

import hashlib
import json
import math
import re
import time
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from models.engines.protocol import (
    Engine,
    EngineConfig,
    EngineInfo,
    Job,
    StepReport,
    check_hidden_layers,
    fitted,
)
from models.engines.texts import ended, sample_limit
from models.errors import ChatTemplateError
from models.records import (
    Array,
    FinishReason,
    Generation,
    GenerationRequest,
    Sequence,
    Span,
    Token,
    TokenTops,
)
from models.statistics import supplied_by
from models.units.parts import split

_ANSWERS = (" Paris", " It is Paris.", " The capital is Paris.", " Lyon", " I do not know.", "")
_WORD = re.compile(r"\s*\S+")
_EOS = ""


@dataclass(eq=False, slots=True, kw_only=True)
class FakeJob(Job):
    """A job that one step finishes."""

    prompt: str
    num_prompt: int
    groups: SequenceOf[SequenceOf[str]] | None = None


class FakeEngine:
    """Answers from a fixed list, chosen by a hash of the prompt.

    A token is a word with its leading blank.

    Attributes:
        num_calls: jobs that were run.
        num_sequences: answers and samples of them.
    """

    is_idle = True

    def __init__(self, *, max_context_tokens: int = 512) -> None:
        self.num_calls = self.num_sequences = 0
        self.info = EngineInfo(
            model_id="fake",
            revision="1",
            identity="fake",
            dtype="float64",
            statistics=supplied_by("answer", "samples", "question"),
            max_context_tokens=max_context_tokens,
            max_tops=20,
            num_layers=4,
            hidden_size=8,
            bounds_samples=True,  # none of them is that long
        )

    @classmethod
    def load(cls, config: EngineConfig) -> Self:
        """The fake has nothing to load."""
        return cls()

    def prepare(self, request: GenerationRequest, *, streams: bool = False) -> FakeJob:
        check_hidden_layers(request, self.info.num_layers)
        prompt = _prompt(request)
        num_prompt = _prompt_length(prompt)
        request = self._fitted(num_prompt, request)
        return FakeJob(request, streams, prompt=prompt, num_prompt=num_prompt)

    def prepare_first_token(
        self, request: GenerationRequest, groups: SequenceOf[SequenceOf[str]]
    ) -> FakeJob:
        prompt = _prompt(request)
        num_prompt = _prompt_length(prompt)
        request = self._fitted(num_prompt, request)
        return FakeJob(request, prompt=prompt, num_prompt=num_prompt, groups=groups)

    def step(self, incoming: SequenceOf[FakeJob]) -> StepReport:
        """Every job is finished by the step that it comes with."""
        report = StepReport()
        for job in incoming:
            if job.cancelled:
                continue
            job.started_at = time.monotonic()
            self.num_calls += 1
            if job.groups is None:
                report.num_rows += 1 + len(self._written(job).samples)
            if job.streams and job.request.answer is None:
                report.tokens += [(job, token) for token in _told(self._written(job))]
            report.finished.append(job)
        self.num_sequences += report.num_rows
        return report

    def abandon(self) -> None:
        """No job outlasts its step."""

    def generation(self, job: FakeJob) -> Generation:
        return self._written(job)

    def first_token_logprobs(self, job: FakeJob) -> list[float | None]:
        """The spellings share the mass by a hash."""
        masses = [sum(1 + _token_id(text) for text in set(group)) for group in job.groups or ()]
        return [math.log(mass / sum(masses)) if mass else None for mass in masses]

    def _written(self, job: FakeJob) -> Generation:
        request = job.request
        digest = int.from_bytes(hashlib.sha256(job.prompt.encode()).digest()[:8])
        seed = digest % 2**53 if request.sampling.seed is None else request.sampling.seed
        answers = _answers(request)
        if request.answer is not None:
            answer = _given(request)
        else:
            text = answers[digest % min(4, len(answers))]
            if request.sampling.answer_temperature:
                text = answers[np.random.default_rng([seed, digest]).integers(len(answers))]
            answer = _sequence(text, request, "answer")
            answer = replace(answer, token_tops=_tops(answer, request.num_tops_of(0)))

        def draw(i: int) -> Sequence:
            rng = np.random.Generator(np.random.Philox([seed, digest, i]))
            sample = _sequence(answers[rng.integers(len(answers))], request, "sample")
            return replace(sample, token_tops=_tops(sample, request.num_tops_of(i + 1)))

        samples = tuple(map(draw, range(request.num_samples)))
        limit = None
        if request.limits_samples and samples:
            limit = sample_limit(answer.num_tokens)
        return Generation(
            answer=answer,
            samples=samples,
            sample_limit=limit,
            prompt_tokens=job.num_prompt,
            seed=seed,
            model_id=self.info.model_id,
            revision=self.info.revision,
            answer_hidden_mean=_hidden(digest, request.hidden_layers, self.info.hidden_size),
            sentence_hidden_means=_by_sentence(digest, request, answer, self.info.hidden_size),
            prompt_state=_prompt_state(digest, request.prompt_layer, self.info.hidden_size),
        )

    def _fitted(self, num_prompt: int, request: GenerationRequest) -> GenerationRequest:
        limits = {"the model's context": self.info.max_context_tokens}
        return fitted(num_prompt, len(_given_tokens(request)), request, limits)


def _prompt(request: GenerationRequest) -> str:
    if request.prompt is not None:
        return request.prompt
    if request.documents:
        request = request.with_documents_said()
    messages = request.messages or ()
    if any(message["role"] == "tool" for message in messages) and not request.tools:
        raise ChatTemplateError("the model's chat template refused the messages", field="messages")
    chat = "".join(f"[{message['role']}]{message['content']}" for message in messages)
    return chat + json.dumps(request.tools) * bool(request.tools)


def _answers(request: GenerationRequest) -> tuple[str, ...]:
    """What it may say: calls of all tools together where there are any, and no result of one."""
    if not request.tools or (request.messages or ())[-1]["role"] == "tool":
        return _ANSWERS
    said = []
    for text in ("Paris", "Lyon"):
        calls = ""
        for tool in request.tools:
            properties = tool["function"]["parameters"].get("properties", {})
            arguments = dict.fromkeys(properties, text)
            call = {"name": tool["function"]["name"], "arguments": arguments}
            calls += f" <tool_call> {json.dumps(call)} </tool_call>"
        said += [calls, f" Let me look.{calls}"]
    return tuple(said)


def _prompt_length(prompt: str) -> int:
    return len(prompt.split()) + 1


def _told(generation: Generation) -> list[Token]:
    """The answer's tokens, each with the word or the part of one that it shows."""
    sequence = generation.answer
    tokens = sequence.remaining_tokens(0, 0)
    shown = re.findall(r"\s*\S+|\s+", sequence.text)
    words = shown + [""] * (len(tokens) - len(shown))
    return [replace(token, text=word) for token, word in zip(tokens, words, strict=True)]


def _sequence(text: str, request: GenerationRequest, role: str) -> Sequence:
    tokens, text, finish_reason = ended([*_WORD.findall(text), _EOS], request.sampling)
    return _with_statistics(text, tokens, finish_reason, request.statistics, role)


def _tops(text: Sequence, num: int) -> tuple[TokenTops, ...] | None:
    """The token itself, and words that it never writes."""
    if not num:
        return None
    told = []
    for i, token in enumerate([*_WORD.findall(text.text), _EOS][: text.num_tokens]):
        logprob = -1.0
        if text.token_logprobs is not None:
            logprob = float(text.token_logprobs[i])
        others = [(f" other{j}", logprob - j) for j in range(1, num)]
        told.append(((token, logprob), *others))
    return tuple(told)


def _given(request: GenerationRequest) -> Sequence:
    text = request.answer.text if request.answer is not None else ""
    return _with_statistics(text, _given_tokens(request), "given", request.statistics, "answer")


def _given_tokens(request: GenerationRequest) -> list[str]:
    if request.answer is None:
        return []
    return [*_WORD.findall(request.answer.text), *([_EOS] if request.answer.append_eos else [])]


def _with_statistics(
    text: str, tokens: list[str], finish_reason: FinishReason, wanted: frozenset[str], role: str
) -> Sequence:
    return Sequence(
        text=text,
        compared_text=text.strip(),
        num_tokens=len(tokens),
        finish_reason=finish_reason,
        token_ids=tuple(_token_id(token) for token in tokens),
        token_logprobs=_pseudo(tokens, -1.0) if f"{role}_token_logprobs" in wanted else None,
        token_entropies=_pseudo(tokens, 2.0) if f"{role}_token_entropies" in wanted else None,
        token_texts=tuple(tokens) if f"{role}_token_texts" in wanted else None,
    )


def _hidden(digest: int, layers: tuple[int, ...], size: int) -> Array | None:
    """(layers, d) float32, the same for the same prompt."""
    if not layers:
        return None
    rows = []
    for layer in layers:
        rows.append(np.random.Generator(np.random.Philox([digest, layer])).standard_normal(size))
    return np.array(rows, dtype=np.float32)


def _by_sentence(
    digest: int, request: GenerationRequest, answer: Sequence, size: int
) -> tuple[tuple[Span, Array], ...]:
    """(layers, d) float32 of each sentence, the same for the same prompt."""
    means = {}
    for number, unit in enumerate(split(answer, "sentences", tools=request.tools).units):
        found = _hidden(digest + number, request.hidden_layers, size)
        if request.by_sentence and found is not None:
            means[unit.spans[0]] = found
    return tuple(means.items())


def _prompt_state(digest: int, layer: int, size: int) -> Array | None:
    """(d,) float32, the same for the same prompt."""
    found = _hidden(digest, (layer,) * bool(layer), size)
    return None if found is None else found[0]


def _token_id(token: str) -> int:
    return hashlib.sha256(token.encode()).digest()[0]


def _pseudo(tokens: list[str], scale: float) -> Array:
    """One value a token in (0, scale], the same for the same token."""
    return np.array([scale * (1 + _token_id(token)) / 256 for token in tokens], dtype=np.float64)


_: type[Engine[FakeJob]] = FakeEngine  # mypy holds the class to its protocol
