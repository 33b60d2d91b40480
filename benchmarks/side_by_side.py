"""Two running services against each other, request by request: what did a change cost?

Blocks of requests to one, a rest, the same block to the other, and so on; both serve the same
models and the same prompts. The figure is the ratio of medians, with a bootstrap interval over the
blocks, since what else a machine does comes and goes in minutes.
"""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import httpx
import numpy as np
import typer

from cocoa_lab.embedded import TASKS, held_out_path

REST_S = 0.3
WARM_UP = 10
MODES = {"full": {"num_samples": 10}, "light": {"mode": "light"}}


def main(
    before: Annotated[str, typer.Argument(help="URL of the service as it was.")],
    after: Annotated[str, typer.Argument(help="URL of the service as it is.")],
    blocks: Annotated[int, typer.Option(min=2, help="Blocks of requests to each.")] = 16,
    size: Annotated[int, typer.Option(min=1, help="Requests in a block.")] = 20,
) -> None:
    """Print, for each mode, both medians in ms and the ratio after / before with its interval."""
    for line in compared(before, after, blocks, size):
        typer.echo(line)


def compared(before: str, after: str, blocks: int, size: int) -> Iterator[str]:
    """For each mode one line with both medians in ms and their ratio; arguments as of `main`."""
    prompts = testbed_prompts(blocks * size)
    for mode, body in MODES.items():
        times: dict[str, list[list[float]]] = {before: [], after: []}
        with httpx.Client(timeout=60) as client:
            for url in (before, after):
                _block(client, url, prompts[:WARM_UP], body)
            for block in range(blocks):
                asked = prompts[block * size : (block + 1) * size]
                # Who goes first takes turns, so that neither always follows the other's rest.
                for url in (before, after)[:: 1 if block % 2 else -1]:
                    time.sleep(REST_S)
                    times[url].append(_block(client, url, asked, body))
        old, new = np.array(times[before]), np.array(times[after])
        low, ratio, high = ratio_of(old, new)
        yield (
            f"{mode}: {np.median(old):.2f} ms before, {np.median(new):.2f} ms after, "
            f"after / before {ratio:.3f} [{low:.3f}, {high:.3f}], {old.size} requests each"
        )


def testbed_prompts(count: int) -> list[str]:
    """Testbed prompts of all tasks in turn."""
    texts = []
    for task in TASKS:
        lines = Path(held_out_path(task)).read_text(encoding="utf-8").splitlines()
        texts.append([json.loads(line)["prompt"] for line in lines])
    shortest = min(map(len, texts))
    return [texts[i % len(texts)][i // len(texts) % shortest] for i in range(count)]


def _block(
    client: httpx.Client, url: str, prompts: list[str], body: dict[str, object]
) -> list[float]:
    """Milliseconds of each request, never from the cache."""
    elapsed = []
    for seed, prompt in enumerate(prompts):
        asked = {"prompt": prompt, "max_new_tokens": 64, "seed": seed, "cache": False} | body
        began = time.perf_counter()
        response = client.post(f"{url}/generate-with-uncertainty", json=asked)
        elapsed.append(1000 * (time.perf_counter() - began))
        response.raise_for_status()
    return elapsed


def ratio_of(old: np.ndarray, new: np.ndarray) -> tuple[float, float, float]:
    """Ratio of medians with its 95 % bootstrap interval over blocks: low, value, high.

    old, new: (blocks, size) ms.
    """
    rng = np.random.default_rng(0)
    ratios = []
    for _ in range(2000):
        rows = rng.integers(len(old), size=len(old))
        ratios.append(np.median(new[rows]) / np.median(old[rows]))
    low, high = np.percentile(ratios, [2.5, 97.5])
    return float(low), float(np.median(new) / np.median(old)), float(high)


if __name__ == "__main__":
    typer.run(main)
