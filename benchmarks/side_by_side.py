"""Two running services against each other, request by request: what did a change cost?

Blocks of requests to one, a rest, the same block to the other, and so on; both serve the same
models and the same prompts. Nothing is stored: the two URLs do not say what they serve.

    python benchmarks/side_by_side.py http://localhost:8401 http://localhost:8402
    python benchmarks/side_by_side.py --split   # one process, and a gateway with two workers
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from statistics import median
from typing import Annotated, Any

import httpx
import typer
from report import Figure, figure, in_turn, ratio
from service import body_of, connect, post, running_cocoa, testbed_prompts

REST_S = 0.3
WARM_UP = 10
MODES: dict[str, dict[str, Any]] = {
    "full": {"num_samples": 10},
    "sp": {"estimators": ["sp"]},
    "light": {"mode": "light"},
}


def main(
    urls: Annotated[list[str] | None, typer.Argument(help="The service before, and after.")] = None,
    blocks: Annotated[int, typer.Option(min=2, help="Blocks of requests to each.")] = 16,
    size: Annotated[int, typer.Option(min=1, help="Requests in a block.")] = 20,
    modes: Annotated[str, typer.Option(help="Among full, sp and light.")] = "full light",
    tokens: Annotated[int, typer.Option(min=1, help="Most new tokens.")] = 64,
    split: Annotated[bool, typer.Option("--split", help="What workers of their own cost.")] = False,
) -> None:
    """Print, for each mode, both medians in ms and the ratio after / before with its interval."""
    with ExitStack() as stack:
        if split:
            urls = _split(stack)
        if urls is None or len(urls) != 2:
            raise typer.BadParameter("two URLs, or --split")
        for mode in modes.split():
            fields = {"max_new_tokens": tokens, **MODES[mode]}
            for one in compared(*urls, mode, fields, blocks, size):
                typer.echo(one)


def _split(stack: ExitStack) -> list[str]:
    """One process, and a gateway with two workers, on the embedded models and the same cores."""

    def run(*arguments: str, **settings: object) -> str:
        return stack.enter_context(running_cocoa(*arguments, **settings))

    generation = run("worker", "generation")
    similarity = run("worker", "similarity")
    gateway = run("serve", GENERATION__URL=generation, SIMILARITY__URL=similarity)
    return [run("serve"), gateway]


def compared(
    before: str, after: str, mode: str, fields: dict[str, Any], blocks: int, size: int
) -> Iterator[Figure]:
    """Both medians in ms of requests with these fields, and their ratio."""
    prompts = testbed_prompts(blocks * size)
    with connect(before) as old, connect(after) as new:
        clients = {f"{mode}, before": old, f"{mode}, after": new}
        for client in clients.values():
            block_ms(client, prompts[: min(WARM_UP, size)], **fields)
        rounds = []
        for number in range(blocks):
            asked = prompts[number * size : (number + 1) * size]
            sides = {
                name: partial(block_ms, client, asked, **fields) for name, client in clients.items()
            }
            rounds.append(in_turn(sides, number, REST_S))
        for name in clients:
            yield figure(name, [values[name] for values in rounds], "ms")
        yield ratio(rounds, f"{mode}, after", f"{mode}, before")


def block_ms(client: httpx.Client, prompts: Sequence[str], **fields: Any) -> float:
    """Median milliseconds of requests, never from the cache."""
    bodies = [body_of(prompt, seed, **fields) for seed, prompt in enumerate(prompts)]
    return median(post(client, body).elapsed_ms for body in bodies)


if __name__ == "__main__":
    typer.run(main)
