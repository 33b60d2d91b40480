"""The prompts of a text that is to be continued: their tokens, and the results of several."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import starmap
from typing import Any

from app.http.openai.responses import Wanted, completion
from app.http.service import Service
from app.scoring.ask import Ask
from models.engines.protocol import fitted
from models.errors import CocoaError, InvalidRequest
from models.records import GenerationRequest, RawPrompt
from workers.calling import gather, in_time
from workers.protocol import NO_TOKENS, Generator

# Prompts of a request that are under way together, between which those of others come in.
_AT_ONCE = 16


async def asks_of(
    generator: Generator, ask: Ask, prompts: Mapping[str, RawPrompt]
) -> dict[str, Ask]:
    """The ask of each prompt, by its place in the body; all are read before any work.

    Raises:
        InvalidRequest: names the place of a prompt that does not fit the model, or `echo`, where
            the model's tokens are not known.
    """
    if ask.echo and not generator.info.tokenizer:
        raise InvalidRequest(NO_TOKENS, field="echo")
    is_read = bool(generator.info.tokenizer) and len(prompts) > 1

    async def asked(place: str, prompt: RawPrompt) -> Ask:
        if isinstance(prompt, str) and not is_read:
            return replace(ask, prompt=prompt)
        with _named(place):
            text, ids = await generator.tokenize(prompt)
            limits = {"the model's context": generator.info.max_context_tokens}
            fitted(len(ids), 0, GenerationRequest(text, sampling=ask.sampling), limits)
        if isinstance(prompt, str):
            ids = ()
        return replace(ask, prompt=text, prompt_ids=ids)

    return dict(zip(prompts, await gather(*starmap(asked, prompts.items())), strict=True))


async def completions_of(
    service: Service, asks: Mapping[str, Ask], wanted: Wanted
) -> dict[str, Any]:
    """A `Completion` of several prompts, choices in their order; they hold one place together.

    Each can be labelled under the id of the request, a hyphen and the prompt's number from 0 on.
    """
    admission, ask = service.ready_scorer().admission, next(iter(asks.values()))
    ask.caller.charge(requests=len(asks) - 1)
    together, admit = asyncio.Semaphore(_AT_ONCE), admission.admit
    if ask.in_background:
        admit = admission.admit_item

    async def completed(number: int, place: str) -> dict[str, Any]:
        async with together:
            with _named(place):
                admitted = replace(asks[place], is_admitted=True)
                return completion(await service.run(admitted, f"{wanted.id}-{number}"), wanted)

    deadline_s = service.deadline_s(ask.timeout_s)
    async with in_time(deadline_s), admit(ask.caller.name, len(asks)):
        whole, *others = await gather(*starmap(completed, enumerate(asks)))
    usage, details = whole["usage"], "completion_tokens_details"
    for other in others:
        for choice in other["choices"]:
            whole["choices"].append(choice | {"index": len(whole["choices"])})
        for name in ("prompt_tokens", "completion_tokens", "total_tokens"):
            usage[name] += other["usage"][name]
        usage[details]["reasoning_tokens"] += other["usage"][details]["reasoning_tokens"]
    return dict(whole)


@contextmanager
def _named(place: str) -> Iterator[None]:
    """Have errors of a prompt name its place."""
    try:
        yield
    except CocoaError as error:
        if error.field == "prompt":
            error.field = place
        raise
