"""What a model has written in the place of the model: scored as if it were written anew."""

import asyncio
import uuid
from collections.abc import Mapping
from collections.abc import Sequence as SequenceOf
from dataclasses import replace
from typing import Any

from app.scoring.ask import Ask
from app.scoring.check import check
from app.scoring.plan import Plan
from app.scoring.planning import make_plan
from app.scoring.scorer import Scorer
from cocoa_lab.recordings import RecordingHeader, TrueFalse, recorded_statistics
from models.engines.texts import sample_limit
from models.errors import InvalidRequest, NotReady, PromptTooLong
from models.records import (
    Generation,
    GenerationRequest,
    OnToken,
    RawPrompt,
    Sequence,
    Tokenized,
)
from workers.protocol import FirstTokenReply, Generator, GeneratorInfo, ProbeInfo


class RecordedGenerator:
    """A model that repeats what it wrote for one prompt, and generates nothing more.

    Args:
        info: of the model.
        generation: with all its samples; None where nothing was recorded.
        opinions: by the words of each question about an answer, what the model said.
    """

    busy_since = None
    num_waiting = 0

    def __init__(
        self,
        info: GeneratorInfo,
        generation: Generation | None = None,
        opinions: Mapping[str, TrueFalse] | None = None,
    ) -> None:
        self.info = info
        self._generation = generation
        self._opinions = opinions or {}
        self._closed = asyncio.Event()

    async def run(self) -> None:
        await self._closed.wait()

    async def warm_up(self) -> None:
        pass

    async def close(self) -> None:
        self._closed.set()

    async def generate(
        self, request: GenerationRequest, on_token: OnToken | None = None
    ) -> Generation:
        """As many of the samples as the request would have drawn, read or not, each as far."""
        if self._generation is None:
            raise NotReady(f"{self.info.model_id} is not loaded")
        samples, num_samples = self._generation.samples, request.sampling.num_samples
        if num_samples > len(samples):
            message = f"{len(samples)} samples a prompt were recorded, and more are asked for"
            raise InvalidRequest(message, field="num_samples")
        generation = replace(self._generation, samples=samples[:num_samples])
        if not self.info.bounds_samples:
            return generation
        return bounded(generation, request)

    async def first_token_logprobs(
        self, request: GenerationRequest, groups: SequenceOf[SequenceOf[str]]
    ) -> FirstTokenReply:
        """What was said of an answer of its own."""
        words = words_of(request)
        if words not in self._opinions:
            raise NotReady(f"{self.info.model_id} is not loaded")
        if (opinion := self._opinions[words]) is None:
            raise PromptTooLong("the question about the answer exceeded the context")
        return FirstTokenReply(opinion, self.info.identity)

    async def tokenize(self, prompt: RawPrompt, *, special: bool = True) -> Tokenized:
        """Nothing was recorded of tokens."""
        raise NotReady(f"{self.info.model_id} is not loaded")


_: type[Generator] = RecordedGenerator  # mypy holds the class to its protocol


def recorded_generator(header: RecordingHeader) -> RecordedGenerator:
    """The model that recorded, without the model."""
    info = GeneratorInfo(
        identity="",
        model_id=header.model,
        revision=header.revision or "",
        dtype="",
        statistics=recorded_statistics(header),
        max_context_tokens=0,
        probes={name: ProbeInfo(**fields) for name, fields in header.probes.items()},
        no_grammar="",  # what was held to a schema can be scored
        bounds_samples=header.bounds_samples,
    )
    return RecordedGenerator(info)


def bounded(generation: Generation, request: GenerationRequest) -> Generation:
    """What an engine would have written that heeds `limits_samples`, of samples that are whole."""
    if not (request.limits_samples and generation.samples):
        return generation
    limit, samples = sample_limit(generation.answer.num_tokens), list(generation.samples)
    for place in range(request.num_shown - 1, len(samples)):
        samples[place] = _cut(samples[place], limit)
    return replace(generation, samples=tuple(samples), sample_limit=limit)


def _cut(sample: Sequence, limit: int) -> Sequence:
    """The beginning of a sample; the whole one where it is no longer, or its tokens are unknown."""
    if sample.num_tokens <= limit or sample.token_texts is None:
        return sample
    known: dict[str, Any] = {"num_tokens": limit, "finish_reason": "sample_limit"}
    for name in ("token_ids", "token_logprobs", "token_entropies", "token_texts", "token_tops"):
        if (values := getattr(sample, name)) is not None:
            known[name] = values[:limit]
    text = "".join(known["token_texts"])
    return replace(sample, text=text, compared_text=text.strip(), **known)


def words_of(question: GenerationRequest) -> str:
    """The text of a question about an answer."""
    if question.messages is None:
        return question.prompt or ""
    return str(question.messages[0]["content"])


def replaying(
    scorer: Scorer,
    statistics: frozenset[str],
    generation: Generation | None = None,
    opinions: Mapping[str, TrueFalse] | None = None,
) -> Scorer:
    """The scorer with a recording in its generator's place; `RecordedGenerator` has the last two.

    What the model could do no longer matters, but which statistics it was asked for. Each recording
    has an identity of its own, as what is computed of it stands for no other.
    """
    info = replace(
        scorer.workers.generator.info,
        identity=uuid.uuid4().hex,
        statistics=statistics,
        absent={},
        no_greedy="",
        no_given="",
        no_grammar_logprobs="",
        parts_calls=False,
    )
    recorded = RecordedGenerator(info, generation, opinions)
    return replace(scorer, workers=replace(scorer.workers, generator=recorded))


def checked_plan(scorer: Scorer, ask: Ask) -> Plan:
    """The plan of an ask.

    Raises:
        InvalidRequest: it cannot be done by these models.
    """
    deployment = scorer.deployment()
    plan = make_plan(ask, deployment)
    check(plan, deployment)
    return plan
