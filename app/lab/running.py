"""A dataset through the workers.

Generations go to the log as they come; each is scored as soon as it is there.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from app.evidence import FALSE, TRUE, question_about
from app.lab.datasets import Example
from app.lab.recordings import Header, Record
from app.lab.scoring import AnswerScores, score_record
from app.planning import Plan
from models.engines.protocol import Engine
from models.errors import InvalidLogits, InvalidRequest, PromptTooLong
from models.records import Generation, GenerationRequest, SamplingParams
from workers.build import Workers

# Enough prompts for full batches of the language model and of pairs at once.
_IN_FLIGHT = 64

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Scored:
    """One example with its record and the scores of its answers, one for each plan.

    There are no scores where the example has no generation.
    """

    example: Example
    record: Record
    answers: Sequence[AnswerScores]


def request_of(example: Example, header: Header) -> GenerationRequest:
    """What the engine is asked for: the same for the same example, seed and settings."""
    sampling = SamplingParams(
        max_new_tokens=example.max_new_tokens,
        stop=tuple(example.stop),
        seed=seed_of(header.seed, example.id),
        **header.sampling,
    )
    return GenerationRequest(
        prompt=example.prompt, sampling=sampling, statistics=frozenset(header.statistics)
    )


async def run(
    examples: Sequence[Example],
    records: Mapping[str, Record],
    put: Callable[[int, Record], None],
    header: Header,
    plans: Sequence[Plan],
    workers: Workers,
    on_scored: Callable[[], None],
) -> list[Scored]:
    """Every example's record and scores, in order; those without a record are generated first.

    Args:
        examples: to be scored.
        records: by example id, those that exist.
        put: told each new record, with its position among the new ones.
        header: what all records have in common.
        plans: what is scored.
        workers: that generate and compare.
        on_scored: called after each example.

    Raises:
        CocoaError: a model failed; what was generated before has been put.
    """
    positions = {
        example.id: i for i, example in enumerate(e for e in examples if e.id not in records)
    }

    async def one(example: Example) -> Scored:
        request = request_of(example, header)
        record = records.get(example.id)
        if record is None:
            record = await generate(example, request, header, workers.generation.engine)
            put(positions[example.id], record)
        answers = await score_record(record, request, plans, workers)
        on_scored()
        return Scored(example, record, answers)

    return await each(examples, one)


async def generate(
    example: Example, request: GenerationRequest, header: Header, engine: Engine
) -> Record:
    """One example's record.

    What the model always refuses is recorded too, so that no later run asks it again.
    """
    try:
        generation = await engine.generate(request)
    except (InvalidRequest, InvalidLogits) as error:
        return Record(example.id, example.prompt, None, error=error.code)
    if not header.asks_p_true:
        return Record(example.id, example.prompt, generation)
    texts = _answers(generation)
    pairs = await asyncio.gather(*(_true_false(text, request, engine) for text in texts))
    return Record(example.id, example.prompt, generation, dict(zip(texts, pairs, strict=True)))


async def _true_false(
    text: str, request: GenerationRequest, engine: Engine
) -> tuple[float | None, float | None] | None:
    try:
        true, false = await engine.first_token_logprobs(
            question_about(text, request), (TRUE, FALSE)
        )
    except PromptTooLong:
        return None
    return true, false


def _answers(generation: Generation) -> list[str]:
    """The distinct texts, as any of them is y* under some strategy and similarity function."""
    return list(
        dict.fromkeys(
            sequence.compared_text for sequence in (generation.answer, *generation.samples)
        )
    )


async def each(items: Iterable[Item], one: Callable[[Item], Awaitable[Result]]) -> list[Result]:
    """`one` of every item, `_IN_FLIGHT` of them at a time, in their order."""
    results: dict[int, Result] = {}
    waiting = iter(enumerate(items))

    async def take() -> None:
        for position, item in waiting:
            results[position] = await one(item)

    tasks = [asyncio.create_task(take()) for _ in range(_IN_FLIGHT)]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
    return [results[position] for position in range(len(results))]


def seed_of(seed: int, example_id: str) -> int:
    """A seed of its own for each example, so that neither order nor limit changes a generation."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{example_id}".encode()).digest()[:6])
