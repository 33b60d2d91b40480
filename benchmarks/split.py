"""What processes of their own cost: one process against a gateway and two workers, side by side.

Both serve the embedded models on the same cores. The figures are those of `side_by_side.py`:
"before" is the one process, "after" the gateway with its workers.
"""

import os
from contextlib import ExitStack
from typing import Annotated

import typer
from service import running_cocoa
from side_by_side import compared


def main(
    blocks: Annotated[int, typer.Option(min=2, help="Blocks of requests to each.")] = 12,
    size: Annotated[int, typer.Option(min=1, help="Requests in a block.")] = 20,
) -> None:
    """Print, for each mode, both medians in ms and their ratio with its interval."""
    # A worker has the cores for itself by default; here both share them, as in the one process.
    threads = max(1, len(os.sched_getaffinity(0)) // 2)
    with ExitStack() as stack:

        def run(*arguments: str, **settings: object) -> str:
            return stack.enter_context(running_cocoa(*arguments, **settings))

        embedded = run("serve")
        generation = run("worker", "generation", GENERATION__THREADS=threads)
        similarity = run("worker", "similarity", SIMILARITY__THREADS=threads)
        split = run("serve", GENERATION__URL=generation, SIMILARITY__URL=similarity)
        for line in compared(embedded, split, blocks, size):
            typer.echo(line)


if __name__ == "__main__":
    typer.run(main)
