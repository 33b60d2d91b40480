"""`num_samples: "auto"` beside M = 10, in one run of one service: latency and requests per second.

Blocks of requests of one kind, a rest, the same prompts as the other kind, and so on; never from
the cache.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from statistics import fmean, median
from typing import Annotated, Any

import typer
from report import Figure, Round, Values, figure, in_turn, ratio, reporting
from service import (
    NUM_CLIENTS,
    body_of,
    connect,
    post,
    requests_per_second,
    running_service,
    testbed_prompts,
)

KINDS: dict[str, dict[str, Any]] = {"M = 10": {"num_samples": 10}, "auto": {"num_samples": "auto"}}


def main(
    model: Annotated[str, typer.Option(help="As in COCOA_GENERATION__MODEL.")] = "embedded",
    similarity_model: Annotated[str, typer.Option(help="COCOA_SIMILARITY__MODEL.")] = "embedded",
    blocks: Annotated[int, typer.Option(min=2, help="Blocks of requests of each kind.")] = 12,
    size: Annotated[int, typer.Option(min=1, help="Requests in a block of one client.")] = 20,
    minutes: Annotated[float, typer.Option(help="It ends after these.")] = 10.0,
) -> None:
    """Print and store latency of one client, requests per second of 16, and the ratios of both."""
    with reporting("waves", minutes, models=(model, similarity_model), size=size) as report:
        start = partial(_blocks, model, similarity_model, size)
        report.measure("waves", blocks, start, _figures)


@contextmanager
def _blocks(model: str, similarity_model: str, size: int) -> Iterator[Round]:
    prompts = testbed_prompts(12 * size)
    with running_service(model, similarity_model) as url, connect(url) as client:

        def single(kind: str, asked: Sequence[str]) -> Values:
            replies = [post(client, body) for body in _bodies(kind, asked)]
            drawn = fmean(reply.body["provenance"]["num_samples"] for reply in replies)
            return {"ms": median(reply.elapsed_ms for reply in replies), "samples": drawn}

        def many(kind: str, asked: Sequence[str]) -> Values:
            return {"rate": requests_per_second(url, _bodies(kind, asked), NUM_CLIENTS)}

        def measure(number: int) -> Values:
            found: Values = {}
            for side, count in ((single, size), (many, 3 * size)):
                asked = [prompts[(number * count + i) % len(prompts)] for i in range(count)]
                measured = in_turn({kind: partial(side, kind, asked) for kind in KINDS}, number)
                for kind, values in measured.items():
                    found |= {f"{name}, {kind}": value for name, value in values.items()}
            return found

        measure(0)  # warms up
        yield measure


def _bodies(kind: str, prompts: Sequence[str]) -> list[dict[str, Any]]:
    return [body_of(prompt, seed, **KINDS[kind]) for seed, prompt in enumerate(prompts)]


def _figures(rounds: Sequence[Values]) -> list[Figure]:
    figures = [figure("samples a request, auto", [one["samples, auto"] for one in rounds], "")]
    for what, name, unit in (
        ("ms", "latency", "ms"),
        ("rate", f"requests per second, {NUM_CLIENTS} clients", "1/s"),
    ):
        sides = [f"{what}, {kind}" for kind in KINDS]
        for side, kind in zip(sides, KINDS, strict=True):
            figures.append(figure(f"{name}, {kind}", [one[side] for one in rounds], unit))
        figures.append(ratio(rounds, *reversed(sides), name=f"{name}, auto / M = 10"))
    return figures


if __name__ == "__main__":
    typer.run(main)
