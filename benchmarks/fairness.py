"""Two keys, one of which floods: what does the other one's request cost, of its cost alone?

Blocks of single requests, in turn while the other key rests and while it floods, so that what
else the machine does falls on both. The figure is the ratio of medians with a bootstrap interval
over the blocks; beside it the same where nobody waits for their turn, which it would be without.
"""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import httpx
import numpy as np
import typer
from service import PATH, running_cocoa
from side_by_side import ratio_of, testbed_prompts

from app.keys.records import digest_of, new_key

WARM_UP = 10
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
) -> None:
    """Print medians in ms and their ratio, with turns and without."""
    models = {
        "GENERATION__MODEL": model,
        "GENERATION__DEVICE": device,
        "SIMILARITY__MODEL": similarity_model,
        "SIMILARITY__DEVICE": device,
    }
    for name, rows in (("with turns", shared_rows), ("without", UNBOUNDED)):
        with ExitStack() as stack:
            folder = Path(stack.enter_context(TemporaryDirectory()))
            file, single, flood = keys_in(folder)
            keys = {"KEYS__FILE": file, "KEYS__SHARED_ROWS": rows}
            url = stack.enter_context(running(models, keys, remote=remote))
            alone, beside, flooded = measured(url, single, flood, clients, blocks, size)
        low, ratio, high = ratio_of(alone, beside)
        verdict = "" if rows == UNBOUNDED else f", at most {MAX_RATIO:g}: {ratio <= MAX_RATIO}"
        typer.echo(
            f"{name}: {np.median(alone):.1f} ms alone, {np.median(beside):.1f} ms beside the "
            f"flood, ratio {ratio:.2f} [{low:.2f}, {high:.2f}]{verdict}; the flood had "
            f"{flooded:.1f} requests a second"
        )


@contextmanager
def running(models: dict[str, Any], keys: dict[str, Any], *, remote: bool) -> Iterator[str]:
    """URL of a service, in one process or in three that share the cores."""
    if not remote:
        with running_cocoa("serve", **models, **keys) as url:
            yield url
        return
    threads = max(1, len(os.sched_getaffinity(0)) // 2)
    with ExitStack() as stack:
        for role in ("generation", "similarity"):
            group = role.upper()
            own = {name: value for name, value in models.items() if name.startswith(group)}
            own[f"{group}__THREADS"] = threads
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


def measured(
    url: str, single: str, flood: str, clients: int, blocks: int, size: int
) -> tuple[np.ndarray, np.ndarray, float]:
    """Milliseconds (blocks, size) alone and beside the flood, and the flood's requests a second."""
    prompts = testbed_prompts(2 * blocks * size + WARM_UP)
    times: dict[bool, list[list[float]]] = {False: [], True: []}
    num_flooded, flooded_s = 0, 0.0
    with connected(url, single) as client:
        block_of(client, prompts[:WARM_UP])
        for number in range(2 * blocks):
            # Which kind comes first takes turns.
            is_flooded = (number + number // 2) % 2 == 1
            asked = prompts[WARM_UP + number * size :][:size]
            if not is_flooded:
                times[False].append(block_of(client, asked))
                continue
            with flooding(url, flood, clients, prompts) as count:
                time.sleep(RAMP_S)
                before, began = count(), time.perf_counter()
                times[True].append(block_of(client, asked))
                num_flooded += count() - before
                flooded_s += time.perf_counter() - began
    return np.array(times[False]), np.array(times[True]), num_flooded / flooded_s


@contextmanager
def flooding(url: str, key: str, clients: int, prompts: list[str]) -> Iterator[Any]:
    """Clients that ask one request after another; how many were answered so far."""
    stop = threading.Event()
    answered = [0] * clients

    def ask(number: int) -> None:
        with connected(url, key) as client:
            for seed, prompt in enumerate(prompts[number:] * 1000):
                if stop.is_set():
                    return
                client.post(PATH, json=body_of(prompt, 1_000 * number + seed)).raise_for_status()
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


def connected(url: str, key: str) -> httpx.Client:
    """A client with a key."""
    return httpx.Client(base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=120)


def block_of(client: httpx.Client, prompts: list[str]) -> list[float]:
    """Milliseconds of each request."""
    elapsed = []
    for seed, prompt in enumerate(prompts):
        began = time.perf_counter()
        response = client.post(PATH, json=body_of(prompt, seed))
        elapsed.append(1000 * (time.perf_counter() - began))
        response.raise_for_status()
    return elapsed


def body_of(prompt: str, seed: int) -> dict[str, Any]:
    """A request of ten samples, never from the cache."""
    return {"prompt": prompt, "max_new_tokens": 64, "seed": seed, "cache": False}


if __name__ == "__main__":
    typer.run(main)
