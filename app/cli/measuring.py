"""What `cocoa size --measure` does: blocks of requests, and the processors' seconds they take."""

import asyncio
import itertools
import json
import os
import platform
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import date
from functools import partial
from itertools import chain
from typing import Any, NamedTuple, get_args

import httpx
from prometheus_client.parser import text_string_to_metric_families

from app.cli.clients import client_of
from app.cli.examining import connected
from app.cli.sizing import UNITS, Part, Traffic, Work, fitted
from app.settings import Settings
from models.errors import ModelNotLoaded
from models.similarity.pairs import PairRules, answer_pairs
from workers.config import Role, variable
from workers.hooks import Hooks

_PATH = "/generate-with-uncertainty"
_PATIENCE_S = 15.0
# Of all blocks in turn, so that what else the machine does falls on all alike.
_ROUNDS = 4
_WORDS = ("river", "seven", "green", "Paris", "walked", "quickly", "under", "letters")


class NotMeasured(Exception):
    """A deployment did not answer, or does not tell what it takes; says what."""


class _Shape(NamedTuple):
    """What the requests of one block ask for."""

    num_samples: int
    prompt_tokens: int
    answer_tokens: int
    cached: bool = False


class _Process(NamedTuple):
    """Processes that do the same work, and clients for their metrics."""

    parts: Sequence[Part]
    clients: Sequence[httpx.AsyncClient]


class _Block(NamedTuple):
    """Work of a block, and what it took in each process."""

    work: Work
    seconds: Sequence[float]


async def measure(
    settings: Settings,
    urls: tuple[str, str],
    key: str | None,
    traffic: Traffic,
    *,
    seconds: float,
    num_clients: int,
) -> str:
    """Rows of costs as a file of TOML, with their error on a block of other requests.

    Args:
        settings: of the gateway: where its workers are.
        urls: where it answers, and where it tells its metrics.
        key: where it wants one.
        traffic: the longest requests that are measured.
        seconds: that a block of requests goes on for.
        num_clients: each of which has one request under way.

    Raises:
        NotMeasured: nobody answers there, or nobody tells seconds.
    """
    async with AsyncExitStack() as stack:
        try:
            service = await stack.enter_async_context(client_of(urls[0], key))
            told = await stack.enter_async_context(client_of(urls[1], key))
            served = (await told.get("/version")).raise_for_status().json()
            processes = await stack.enter_async_context(_processes(settings, told))
            shapes, rounds = _shapes(traffic), []
            for number in range(_ROUNDS):
                load = partial(_load, service, number, seconds / _ROUNDS, num_clients)
                rounds.append([await _measured(processes, load(shape)) for shape in shapes])
            blocks = [_together(alike) for alike in zip(*rounds, strict=True)]
            resident = [await _total(one, "process_resident_memory_bytes") for one in processes]
            return "\n".join(_rows(processes, blocks, resident, served))
        except (httpx.HTTPError, httpx.InvalidURL, KeyError, ValueError) as error:
            raise NotMeasured(f"{urls[0]}: {type(error).__name__}: {error}") from None


def _shapes(traffic: Traffic) -> list[_Shape]:
    """Blocks that differ in one amount of work each; the last one is to be foretold by them."""
    samples, prompt = round(traffic.num_samples), round(traffic.prompt_tokens)
    answer = round(traffic.answer_tokens)
    short, few = max(1, prompt // 8), max(1, answer // 8)
    return [
        _Shape(0, short, 1),
        _Shape(0, prompt, 1),
        _Shape(0, short, answer),
        _Shape(0, prompt, answer),
        _Shape(samples, short, few),
        _Shape(samples, short, answer),
        _Shape(samples, prompt, few),
        _Shape(samples, prompt, answer),
        _Shape(max(1, samples // 4), prompt, answer),
        _Shape(1, short, few, cached=True),
        _Shape(max(1, samples // 2), max(1, prompt // 2), max(1, answer // 2)),
    ]


@asynccontextmanager
async def _processes(
    settings: Settings, gateway: httpx.AsyncClient
) -> AsyncIterator[list[_Process]]:
    """The gateway, and the workers of ours that it calls; the gateway holds the others."""
    own: list[Part] = ["gateway"]
    others, held = [], []
    for role in get_args(Role):
        group = getattr(settings, role)
        if not group.urls:
            own.append(role)
        elif group.api == "cocoa":
            try:
                async with asyncio.timeout(_PATIENCE_S):
                    workers = await connected(role, settings.workers, Hooks())
            except (TimeoutError, ModelNotLoaded) as error:
                words = str(error) or "nobody answers"
                raise NotMeasured(f"{variable(f'{role}.url')}: {words}") from None
            held.append(workers[0])
            others.append(_Process([role], [one.client for one in workers[0].upstream.servers]))
    try:
        yield [_Process(own, [gateway]), *others]
    finally:
        for worker in held:
            await worker.close()


async def _measured(processes: Sequence[_Process], sent: Any) -> _Block:
    before = [await _total(one, "process_cpu_seconds_total") for one in processes]
    work = await sent
    after = [await _total(one, "process_cpu_seconds_total") for one in processes]
    return _Block(work, [b - a for a, b in zip(before, after, strict=True)])


async def _total(process: _Process, metric: str) -> float:
    total = 0.0
    for client in process.clients:
        text = (await client.get("/metrics")).raise_for_status().text
        samples = [one for family in text_string_to_metric_families(text) for one in family.samples]
        total += {one.name: one.value for one in samples}[metric]
    return total


def _together(alike: Sequence[_Block]) -> _Block:
    """One block of all rounds of a shape."""
    work = Counter[str]()
    for block in alike:
        work.update(block.work)
    return _Block(work, [sum(each) for each in zip(*(one.seconds for one in alike), strict=True)])


async def _load(
    client: httpx.AsyncClient, number: int, seconds: float, num_clients: int, shape: _Shape
) -> Work:
    """Ask for so long; the work of all answers together."""
    ends_at, asked, work = time.monotonic() + seconds, itertools.count(), Counter[str]()

    async def ask() -> None:
        while time.monotonic() < ends_at:
            response = await client.post(_PATH, json=_body(shape, number, next(asked)))
            work.update(work_of(response.raise_for_status().json()))

    if shape.cached:
        await client.post(_PATH, json=_body(shape, number, 0))
    await asyncio.gather(*(ask() for _ in range(num_clients)))
    return work


def _body(shape: _Shape, number: int, index: int) -> dict[str, Any]:
    """A request of this shape, like no other unless it is to come from the cache."""
    if shape.cached:
        index = 0
    words = itertools.islice(itertools.cycle(_WORDS), max(1, shape.prompt_tokens - 8))
    body = {
        "prompt": f"{number}.{index} {' '.join(words)}: what is it?",
        "max_new_tokens": shape.answer_tokens,
        "seed": index,
        "cache": shape.cached,
    }
    if shape.num_samples:
        return body | {"num_samples": shape.num_samples, "return_samples": True}
    return body | {"estimators": ["ppl"]}


def work_of(response: Mapping[str, Any]) -> Work:
    """Units of work behind a response with its samples; tokens of a pair are the model's."""
    if response["cached"]:
        return {"cached_request": 1}
    usage, samples = response["usage"], [one["text"] for one in response.get("samples", ())]
    generated = usage["completion_tokens"] + usage["sample_tokens"]
    texts = [response["text"], *samples]
    # Only the answer's own tokens are told one by one; characters share out the others.
    token = max(1, sum(map(len, texts))) / max(1, generated)
    pairs = answer_pairs(response["text"], samples, PairRules())
    return {
        "request": 1,
        "sample": len(samples),
        "prompt_token": usage["prompt_tokens"],
        "step": max(usage["completion_tokens"], max(map(len, texts)) / token),
        "generated_token": generated,
        "pair": len(pairs),
        "pair_token": sum(map(len, chain.from_iterable(pairs))) / token,
    }


def _rows(
    processes: Sequence[_Process],
    blocks: Sequence[_Block],
    resident: Sequence[float],
    served: Mapping[str, Any],
) -> list[str]:
    """Lines of a file of costs."""
    *known, foretold = blocks
    if not all(second > 0 for block in blocks for second in block.seconds):
        raise ValueError("a block took no hundredth of a second: raise --seconds")
    names = {
        "gateway": "gateway",
        "generation": served["model"]["id"],
        "similarity": served["similarity_models"][served["default_similarity"]]["id"],
    }
    lines = []
    for index, process in enumerate(processes):
        units = [unit for part in process.parts for unit in UNITS[part]]
        seconds = fitted([one.work for one in known], [one.seconds[index] for one in known], units)
        cost = sum(foretold.work.get(unit, 0) * each for unit, each in seconds.items())
        error = cost / foretold.seconds[index] - 1
        machine = f"{os.cpu_count()} cores, {platform.machine()}"
        how = f"{date.today()}, {machine}, cocoa size --measure, error {error:+.0%}"
        if len(process.parts) > 1:
            how += ", parts of one process, of which only the sum is certain"
        for part in process.parts:
            each = ", ".join(f"{unit} = {seconds.get(unit, 0):.3g}" for unit in UNITS[part])
            lines += [f"[{part}.{json.dumps(names[part])}]", f'measured = "{how}"']
            if len(process.parts) == 1:
                lines.append(f"resident_mb = {resident[index] / len(process.clients) / 1e6:.0f}")
            lines += [f"seconds = {{ {each} }}", ""]
    for part in sorted(UNITS.keys() - set(chain.from_iterable(one.parts for one in processes))):
        lines.append(f"# {part}: its servers tell no seconds; write its row by hand")
    return lines
