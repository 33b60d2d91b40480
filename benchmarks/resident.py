"""Resident memory of the service over many mixed requests, with and without MALLOC_ARENA_MAX=2.

glibc gives threads arenas of their own, which keep what is freed in them. The embedded models,
16 clients, in turn: answers with samples, light answers, given answers with samples of the
client's and of the model's, calls of four items, and requests that are refused.
"""

import asyncio
import os
from pathlib import Path
from random import Random
from typing import Annotated, Any

import httpx
import typer
from rich.console import Console
from rich.table import Table
from service import PATH, running_service

NUM_CLIENTS = 16
_WORDS = ("Paris", "London", "river", "mountain", "the", "of", "is", "a", "capital", "history")
_KIB_PER_MB = 1024


def main(
    requests: Annotated[int, typer.Option(help="Sent to each process.")] = 3000,
    runs: Annotated[int, typer.Option(help="Processes of each kind, in turn.")] = 2,
) -> None:
    """Print the resident memory of each process, ready and after its requests."""
    table = Table("MALLOC_ARENA_MAX", "ready, MB", "after, MB", "peak, MB")
    for arenas in [None, "2"] * runs:
        os.environ.pop("MALLOC_ARENA_MAX", None)
        if arenas is not None:
            os.environ["MALLOC_ARENA_MAX"] = arenas
        with running_service("embedded", "embedded") as url:
            ready = _memory_mb("VmRSS")
            asyncio.run(_send(url, requests))
            after, peak = _memory_mb("VmRSS"), _memory_mb("VmHWM")
        table.add_row(arenas or "not set", *map(str, (ready, after, peak)))
    Console().print(table)


async def _send(url: str, num_requests: int) -> None:
    random = Random(0)
    bodies = iter([_body(random, number) for number in range(num_requests)])
    async with httpx.AsyncClient(base_url=url, timeout=120) as client:

        async def ask() -> None:
            for path, body in bodies:
                await client.post(path, json=body)

        await asyncio.gather(*(ask() for _ in range(NUM_CLIENTS)))


def _body(random: Random, number: int) -> tuple[str, dict[str, Any]]:
    def text(num_words: int) -> str:
        return " ".join(random.choices(_WORDS, k=num_words))

    samples = [{"text": text(random.randint(1, 20))} for _ in range(4)]
    few = {"max_new_tokens": 8, "num_samples": 4, "seed": number}
    kinds: list[tuple[str, dict[str, Any]]] = [
        (PATH, {"prompt": text(random.randint(3, 60)), **few}),
        (PATH, {"prompt": text(10), "mode": "light", "max_new_tokens": 8}),
        ("/score", {"answer": text(5), "samples": samples}),
        ("/score", {"prompt": text(8), "answer": text(3), **few}),
        ("/score", {"items": [{"answer": text(3), "samples": samples[:2]} for _ in range(4)]}),
        ("/score", {"answer": 1}),
    ]
    return kinds[number % len(kinds)]


def _memory_mb(field: str) -> int:
    """A field of /proc/PID/status of the service, this process's only child."""
    (child,) = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    for line in Path(f"/proc/{child}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) // _KIB_PER_MB
    raise ValueError(f"no {field} in the status of a process")


if __name__ == "__main__":
    typer.run(main)
