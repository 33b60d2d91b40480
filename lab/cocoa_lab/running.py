"""Many prompts at once, each with a seed of its own."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from models.records import SamplingParams

# Answers and samples of the prompts under way: a full batch of the language model by its default,
# and half of one more, whose pairs are scored or which waits. More would only delay the first.
_ROWS = 384
_LEAST = 8
MAX_IN_FLIGHT = 64

Item = TypeVar("Item")
Result = TypeVar("Result")


async def each(
    items: Iterable[Item], one: Callable[[Item], Awaitable[Result]], num_samples: int
) -> list[Result]:
    """`one` of every item, in their order.

    Args:
        items: prompts.
        one: makes a prompt's answer and samples, or scores them.
        num_samples: of a prompt; by them as many prompts are under way as make full batches.
    """
    num_prompts = min(max(_ROWS // (1 + num_samples), _LEAST), MAX_IN_FLIGHT)
    results: dict[int, Result] = {}
    waiting = iter(enumerate(items))

    async def take() -> None:
        for position, item in waiting:
            results[position] = await one(item)

    tasks = [asyncio.create_task(take()) for _ in range(num_prompts)]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
    return [results[position] for position in range(len(results))]


def seed_of(seed: int, example_id: str) -> int:
    """A seed of its own for each example, so that neither order nor limit changes a generation."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{example_id}".encode()).digest()[:6])


def sampling_of(
    num_samples: int, temperature: float | None = None, answer_temperature: float | None = None
) -> dict[str, Any]:
    """How all prompts of a run are sampled; the rest of `SamplingParams` is each prompt's own."""
    default = SamplingParams()
    sampling = {
        "num_samples": num_samples,
        "temperature": default.temperature if temperature is None else temperature,
        "top_k": default.top_k,
        "top_p": default.top_p,
    }
    if answer_temperature is not None:  # greedy answers have none
        sampling["answer_temperature"] = answer_temperature
    return sampling
