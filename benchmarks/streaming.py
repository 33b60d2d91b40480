"""Time to the first token over HTTP against the engine's own, side by side in one run.

The service runs in a process of its own and streams over a kept connection; the same engine in this
process is asked by its worker, with as many threads. Blocks of requests to one, a rest, the same
block to the other.
"""

import asyncio
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http.client import HTTPConnection
from typing import Annotated

import numpy as np
import torch
import typer
from report import Figure, Round, Values, figure, in_turn, ratio, reporting
from service import PATH, body_of, running_service, testbed_prompts
from side_by_side import REST_S

from models.engines.protocol import EngineConfig
from models.engines.transformers import TransformersEngine
from models.records import GenerationRequest, SamplingParams, Token
from models.statistics import supplied_by
from workers.generation import GenerationWorker

M = 10
MAX_NEW_TOKENS = 64
_HTTP, _ENGINE = "over HTTP", "by the engine"
# What the default estimators read, so that both sides compute the same.
_STATISTICS = supplied_by("answer", "samples") - {
    "answer_token_texts",
    "sample_token_texts",
    "sample_token_entropies",
}


def main(
    model: Annotated[str, typer.Option(help="Language model: id, path, or embedded.")] = "embedded",
    cores: Annotated[int, typer.Option(min=2, help="Cores for everything.")] = 2,
    blocks: Annotated[int, typer.Option(min=2, help="Blocks of requests to each.")] = 16,
    size: Annotated[int, typer.Option(min=1, help="Requests in a block.")] = 20,
    minutes: Annotated[float, typer.Option(help="It ends after these.")] = 5.0,
) -> None:
    """Print and store both medians in ms, their ratio, and those of the fastest tenth."""
    with reporting("streaming", minutes, cores, model=model, size=size) as report:
        report.measure("streaming", blocks, partial(_blocks, model, cores, size), _figures)


@contextmanager
def _blocks(model: str, cores: int, size: int) -> Iterator[Round]:
    threads = max(1, cores // 2)  # as the service divides them
    torch.set_num_threads(threads)
    worker = GenerationWorker(TransformersEngine.load(EngineConfig(model=model, threads=threads)))
    prompts = testbed_prompts(16 * size)
    with running_service(model, "embedded") as url, asyncio.Runner() as runner:
        # The plainest client there is: what a heavier one takes is not the service's.
        client = HTTPConnection(url.removeprefix("http://"))
        loop = runner.get_loop().create_task(worker.run())

        def over_http(asked: Sequence[tuple[int, str]]) -> list[float]:
            client.close()  # the service closes what is idle for long
            client.connect()
            return [_over_http(client, prompt, seed) for seed, prompt in asked]

        def alone(asked: Sequence[tuple[int, str]]) -> list[float]:
            return [runner.run(_alone(worker, prompt, seed)) for seed, prompt in asked]

        def measure(number: int) -> Values:
            first = number * size % len(prompts)
            asked = list(enumerate(prompts[first : first + size]))
            sides = {_HTTP: partial(over_http, asked), _ENGINE: partial(alone, asked)}
            found: Values = {}
            for name, ms in in_turn(sides, number, REST_S).items():
                # Other work on the machine only ever adds to a time.
                fastest = float(np.percentile(ms, 10))
                found |= {name: float(np.median(ms)), f"fastest tenth, {name}": fastest}
            return found

        measure(0)  # warms up
        yield measure
        runner.run(worker.close())
        runner.run(asyncio.wait_for(loop, None))


def _figures(rounds: Sequence[Values]) -> list[Figure]:
    figures = [
        figure(f"first token {name}", [one[name] for one in rounds], "ms") for name in rounds[0]
    ]
    for kind in ("", "fastest tenth, "):
        figures.append(ratio(rounds, f"{kind}{_HTTP}", f"{kind}{_ENGINE}"))
    return figures


def _over_http(client: HTTPConnection, prompt: str, seed: int) -> float:
    content = json.dumps(body_of(prompt, seed, num_samples=M, stream=True))
    elapsed_ms = 0.0
    began = time.perf_counter()
    client.request("POST", PATH, content, {"Content-Type": "application/json"})
    response = client.getresponse()
    if response.status != 200:
        raise RuntimeError(f"the service answered {response.status}")
    for line in response:
        if line == b"event: token\n" and not elapsed_ms:
            elapsed_ms = 1000 * (time.perf_counter() - began)
    return elapsed_ms


async def _alone(worker: GenerationWorker, prompt: str, seed: int) -> float:
    sampling = SamplingParams(num_samples=M, max_new_tokens=MAX_NEW_TOKENS, seed=seed)
    elapsed_ms = 0.0
    began = time.perf_counter()

    def note(token: Token) -> None:
        nonlocal elapsed_ms
        elapsed_ms = elapsed_ms or 1000 * (time.perf_counter() - began)

    await worker.generate(
        GenerationRequest(prompt, sampling=sampling, statistics=_STATISTICS), note
    )
    return elapsed_ms


if __name__ == "__main__":
    typer.run(main)
