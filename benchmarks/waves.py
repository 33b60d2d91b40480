"""`num_samples: "auto"` beside M = 10, in one run of one service: latency and requests per second.

Blocks of requests of one kind, a rest, the same prompts as the other kind, and so on; never from
the cache. Ratios are auto / ten, with a bootstrap interval over the blocks.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import httpx
import numpy as np
import typer
from report import Figure, figure_records, figures_table, machine, publish
from service import connect, post, requests_per_second, running_service
from side_by_side import REST_S, WARM_UP, ratio_of, testbed_prompts

KINDS: dict[str, dict[str, Any]] = {"ten": {"num_samples": 10}, "auto": {"num_samples": "auto"}}
NUM_CLIENTS = 16
_RESULTS = Path(__file__).parent / "results" / "waves.json"


@dataclass(frozen=True, slots=True)
class Measured:
    """One kind of request: blocks of ms, rates of blocks, and samples drawn."""

    latency_ms: list[list[float]] = field(default_factory=list)
    requests_per_s: list[float] = field(default_factory=list)
    num_samples: list[int] = field(default_factory=list)


def main(
    model: Annotated[str, typer.Option(help="As in COCOA_GENERATION__MODEL.")] = "embedded",
    similarity_model: Annotated[str, typer.Option(help="COCOA_SIMILARITY__MODEL.")] = "embedded",
    blocks: Annotated[int, typer.Option(min=2, help="Blocks of requests of each kind.")] = 12,
    size: Annotated[int, typer.Option(min=1, help="Requests in a block of one client.")] = 20,
    out: Annotated[Path, typer.Option(help="JSON with all figures.")] = _RESULTS,
) -> None:
    """Print medians at one client, requests per second at 16, and the ratios of both."""
    prompts = testbed_prompts(blocks * size * 3)
    with running_service(model, similarity_model) as url, connect(url) as client:
        found = {kind: Measured() for kind in KINDS}
        for kind in KINDS:
            _one_client(client, kind, prompts[:WARM_UP], Measured())

        def single(kind: str, asked: list[str]) -> None:
            _one_client(client, kind, asked, found[kind])

        def many(kind: str, asked: list[str]) -> None:
            rate = requests_per_second(url, _bodies(kind, asked), NUM_CLIENTS)
            found[kind].requests_per_s.append(rate)

        _in_turn(single, prompts, blocks, size)
        _in_turn(many, prompts, blocks, size * 3)
    figures = _figures(found["ten"], found["auto"])
    title = f"Waves against M = 10, {blocks} blocks"
    report = {"machine": machine(2), "model": model, "figures": figure_records(figures)}
    publish([figures_table(title, figures)], report, out)


def _in_turn(
    measure: Callable[[str, list[str]], None], prompts: list[str], blocks: int, size: int
) -> None:
    """Each block of prompts as both kinds; who goes first takes turns."""
    for block in range(blocks):
        asked = prompts[block * size : (block + 1) * size]
        for kind in list(KINDS)[:: 1 if block % 2 else -1]:
            time.sleep(REST_S)
            measure(kind, asked)


def _one_client(client: httpx.Client, kind: str, prompts: list[str], found: Measured) -> None:
    replies = [post(client, body) for body in _bodies(kind, prompts)]
    found.latency_ms.append([reply.elapsed_ms for reply in replies])
    found.num_samples.extend(reply.body["provenance"]["num_samples"] for reply in replies)


def _bodies(kind: str, prompts: list[str]) -> list[dict[str, Any]]:
    bodies = []
    for seed, prompt in enumerate(prompts):
        body = {"prompt": prompt, "max_new_tokens": 64, "seed": seed, "cache": False}
        bodies.append(body | KINDS[kind])
    return bodies


def _figures(ten: Measured, auto: Measured) -> list[Figure]:
    low, latency, high = ratio_of(np.array(ten.latency_ms), np.array(auto.latency_ms))
    rates = np.array(ten.requests_per_s)[:, None], np.array(auto.requests_per_s)[:, None]
    low_rate, rate, high_rate = ratio_of(*rates)
    return [
        Figure("samples a request, auto", float(np.mean(auto.num_samples)), ""),
        Figure("median latency, M = 10", float(np.median(ten.latency_ms)), "ms"),
        Figure("median latency, auto", float(np.median(auto.latency_ms)), "ms"),
        Figure(f"latency, auto / ten [{low:.2f}, {high:.2f}]", latency, ""),
        Figure(f"{NUM_CLIENTS} clients, M = 10", float(np.median(rates[0])), "requests/s"),
        Figure(f"{NUM_CLIENTS} clients, auto", float(np.median(rates[1])), "requests/s"),
        Figure(f"requests/s, auto / ten [{low_rate:.2f}, {high_rate:.2f}]", rate, ""),
    ]


if __name__ == "__main__":
    typer.run(main)
