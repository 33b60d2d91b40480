"""Two keys, one of which floods: what does the other one's request cost, of its cost alone?

Blocks of single requests, in turn while the other key rests and while it floods, so that what
else the machine does falls on both; beside it the same where nobody waits for their turn, which it
would be without.
"""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer
from report import Figure, Round, Values, figure, in_turn, ratio, reporting
from service import body_of, connect, post, running_cocoa, testbed_prompts
from side_by_side import REST_S, WARM_UP, block_ms

from app.keys.records import digest_of, new_key

# Until the flood has as much under way as it ever will.
RAMP_S = 1.0
UNBOUNDED = 1_000_000
MAX_RATIO = 2.0


def main(
    model: Annotated[str, typer.Option(help="As in COCOA_GENERATION__MODEL.")] = "embedded",
    similarity_model: Annotated[
        str, typer.Option(help="As in COCOA_SIMILARITY__MODEL.")
    ] = "embedded",
    device: Annotated[str, typer.Option(help="As in COCOA_GENERATION__DEVICE.")] = "auto",
    shared_rows: Annotated[int, typer.Option(help="As in COCOA_KEYS__SHARED_ROWS.")] = 32,
    remote: Annotated[bool, typer.Option(help="Both models in processes of their own.")] = False,
    clients: Annotated[int, typer.Option(min=1, help="Of the key that floods.")] = 16,
    blocks: Annotated[int, typer.Option(min=2, help="Blocks of each kind.")] = 12,
    size: Annotated[int, typer.Option(min=1, help="Requests in a block.")] = 8,
    minutes: Annotated[float, typer.Option(help="It ends after these.")] = 10.0,
) -> None:
    """Print and store medians in ms and their ratio, with turns and without."""
    models = {
        "GENERATION__MODEL": model,
        "GENERATION__DEVICE": device,
        "SIMILARITY__MODEL": similarity_model,
        "SIMILARITY__DEVICE": device,
    }
    settings = models | {"rows": shared_rows, "remote": remote, "clients": clients, "size": size}
    with reporting("fairness", minutes, **settings) as report:
        for part, rows in (("with turns", shared_rows), ("without", UNBOUNDED)):
            start = partial(_blocks, models, rows, remote, clients, size)
            report.measure(part, blocks, start, partial(_figures, part))


@contextmanager
def _blocks(
    models: dict[str, Any], rows: int, remote: bool, clients: int, size: int
) -> Iterator[Round]:
    with ExitStack() as stack:
        file, single, flood = keys_in(Path(stack.enter_context(TemporaryDirectory())))
        keys = {"KEYS__FILE": file, "KEYS__SHARED_ROWS": rows}
        url = stack.enter_context(running(models, keys, remote=remote))
        client = stack.enter_context(connect(url, single))
        prompts = testbed_prompts(200)
        block_ms(client, prompts[:WARM_UP])

        def alone(asked: Sequence[str]) -> tuple[float, float]:
            return block_ms(client, asked), 0.0

        def beside(asked: Sequence[str]) -> tuple[float, float]:
            with flooding(url, flood, clients, prompts) as count:
                time.sleep(RAMP_S)
                before, began = count(), time.perf_counter()
                ms = block_ms(client, asked)
                return ms, (count() - before) / (time.perf_counter() - began)

        def measure(number: int) -> Values:
            asked = [prompts[(number * size + i) % len(prompts)] for i in range(size)]
            sides = {
                "alone": lambda: (block_ms(client, asked), 0.0),
                "beside": partial(beside, asked),
            }
            found = in_turn(sides, number, REST_S)
            return {name: ms for name, (ms, _) in found.items()} | {"flood": found["beside"][1]}

        yield measure


def _figures(part: str, rounds: Sequence[Values]) -> list[Figure]:
    limit = MAX_RATIO if part == "with turns" else None
    figures = [ratio(rounds, "beside", "alone", limit, name=f"{part}: beside the flood / alone")]
    for name, unit in (("alone", "ms"), ("beside", "ms"), ("flood", "1/s")):
        figures.append(figure(f"{part}: {name}", [one[name] for one in rounds], unit))
    return figures


@contextmanager
def running(models: dict[str, Any], keys: dict[str, Any], *, remote: bool) -> Iterator[str]:
    """URL of a service, in one process or in three that share the cores."""
    if not remote:
        with running_cocoa("serve", **models, **keys) as url:
            yield url
        return
    with ExitStack() as stack:
        for role in ("generation", "similarity"):
            group = role.upper()
            own = {name: value for name, value in models.items() if name.startswith(group)}
            worker = stack.enter_context(running_cocoa("worker", role, **own))
            keys = {**keys, f"{group}__URL": worker}
        yield stack.enter_context(running_cocoa("serve", **keys))


def keys_in(folder: Path) -> tuple[Path, str, str]:
    """A file of two keys, and the keys."""
    keys = {"single": new_key(), "flood": new_key()}
    entries = [
        f'[[keys]]\nname = "{name}"\nsha256 = "{digest_of(key)}"\n' for name, key in keys.items()
    ]
    file = folder / "keys.toml"
    file.write_text("\n".join(entries))
    return file, keys["single"], keys["flood"]


@contextmanager
def flooding(url: str, key: str, clients: int, prompts: list[str]) -> Iterator[Any]:
    """Clients that ask one request after another; how many were answered so far."""
    stop = threading.Event()
    answered = [0] * clients

    def ask(number: int) -> None:
        with connect(url, key) as client:
            for seed, prompt in enumerate(prompts[number:] * 1000):
                if stop.is_set():
                    return
                post(client, body_of(prompt, 1_000 * number + seed))
                answered[number] += 1

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield lambda: sum(answered)
    finally:
        stop.set()
        for thread in threads:
            thread.join()


if __name__ == "__main__":
    typer.run(main)
