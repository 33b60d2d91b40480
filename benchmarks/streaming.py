"""Time to the first token over HTTP against the engine's own, side by side in one run.

The service runs in a process of its own and streams over a kept connection; the same engine in this
process is asked by its worker, with as many threads. Blocks of requests to one, a rest, the same
block to the other. The figure is the ratio of medians, with a bootstrap interval over the blocks.
"""

import asyncio
import json
import os
import time
from http.client import HTTPConnection
from typing import Annotated

import numpy as np
import torch
import typer
from service import running_service
from side_by_side import ratio_of, testbed_prompts

from models.engines.protocol import EngineConfig
from models.engines.transformers import TransformersEngine
from models.records import GenerationRequest, SamplingParams, Token
from models.statistics import supplied_by
from workers.generation import GenerationWorker

M = 10
MAX_NEW_TOKENS = 64
PATH = "/generate-with-uncertainty"
REST_S = 0.3
WARM_UP = 10
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
) -> None:
    """Print both medians in ms, their ratio with its interval, and those of the fastest tenth."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    threads = max(1, cores // 2)  # as the service divides them
    torch.set_num_threads(threads)
    engine = TransformersEngine.load(EngineConfig(model=model, threads=threads))
    prompts = testbed_prompts(blocks * size)
    with running_service(model, "embedded") as url:
        # The plainest client there is: what a heavier one takes is not the service's.
        client = HTTPConnection(url.removeprefix("http://"))
        over_http, alone = asyncio.run(_measure(engine, client, prompts, blocks, size))
    low, ratio, high = ratio_of(alone, over_http)
    typer.echo(
        f"first token: {np.median(over_http):.2f} ms over HTTP, {np.median(alone):.2f} ms by the "
        f"engine, ratio {ratio:.3f} [{low:.3f}, {high:.3f}], {alone.size} requests each"
    )
    # Other work on the machine only ever adds to a time.
    fast_http, fast_alone = np.percentile(over_http, 10), np.percentile(alone, 10)
    typer.echo(
        f"fastest tenth: {fast_http:.2f} ms over HTTP, {fast_alone:.2f} ms by the engine, "
        f"ratio {fast_http / fast_alone:.3f}"
    )


async def _measure(
    engine: TransformersEngine, client: HTTPConnection, prompts: list[str], blocks: int, size: int
) -> tuple[np.ndarray, np.ndarray]:
    """Milliseconds to the first token, over HTTP and by the engine: two arrays (blocks, size)."""
    worker = GenerationWorker(engine)
    loop = asyncio.create_task(worker.run())
    over_http, alone = [], []
    for prompt in prompts[:WARM_UP]:
        _over_http(client, prompt, 0)
        await _alone(worker, prompt, 0)
    for block in range(blocks):
        asked = list(enumerate(prompts[block * size : (block + 1) * size]))
        # Who goes first takes turns, so that neither always follows the other's rest.
        for is_http in (True, False)[:: 1 if block % 2 else -1]:
            time.sleep(REST_S)  # noqa: ASYNC251 - nothing else is to run meanwhile
            if is_http:
                client.close()  # the service closes what is idle for long
                client.connect()
                over_http.append([_over_http(client, prompt, seed) for seed, prompt in asked])
            else:
                alone.append([await _alone(worker, prompt, seed) for seed, prompt in asked])
    await worker.close()
    await loop
    return np.array(over_http), np.array(alone)


def _over_http(client: HTTPConnection, prompt: str, seed: int) -> float:
    body = {"prompt": prompt, "max_new_tokens": MAX_NEW_TOKENS, "num_samples": M, "seed": seed}
    content = json.dumps(body | {"stream": True, "cache": False})
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
