"""LM-Polygraph's three CoCoA estimators and the service, on the same models and prompts.

    python -m venv ../peers
    ../peers/bin/pip install lm-polygraph==0.7.0 transformers==5.23.0 torch==2.13.0
    python benchmarks/peers.py ../peers/bin/python

LM-Polygraph has an environment and a process of its own, with a thread for every core. Its
calculators run as it registers them: greedy answer with all log-probs, entropies, samples,
cross-encoder; one prompt at a time, and 20 together. The service answers one request, or 20 at
once, over connections that are kept, never from the cache; its default request scores eight
estimators, these three among them. Blocks of each side in turn, with a rest between.
"""

import asyncio
import json
import os
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any

import httpx
import typer
from latency import testbed_prompts
from report import Figure, figure_records, figures_table, machine, publish
from service import PATH, running_service

from models.embedded import CROSS_ENCODER_DIR, LANGUAGE_MODEL_DIR, TESTBED_DIR

M = 10
BATCH = 20
_LIMITS = {1: 8.0, BATCH: 3.0}
_REST_S = 1.0
_RESULTS = Path(__file__).parent / "results" / "peers.json"


def main(
    python: Annotated[str, typer.Argument(help="Interpreter of an environment with LM-Polygraph.")],
    cores: Annotated[int, typer.Option(min=1, help="Cores for everything.")] = 2,
    max_new_tokens: Annotated[int, typer.Option(min=1)] = 64,
    rounds: Annotated[int, typer.Option(min=1, help="Blocks of each side.")] = 4,
    size: Annotated[int, typer.Option(min=1, help="Calls in a block at batch 1.")] = 20,
    json_path: Annotated[Path, typer.Option("--json", help="Where the report goes.")] = _RESULTS,
) -> None:
    """Measure, print a table, write JSON; the exit code is 0 whatever the figures."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    prompts = testbed_prompts(TESTBED_DIR, BATCH * max(2, size // BATCH))
    ratios: dict[int, list[float]] = {}
    medians: dict[tuple[str, int], list[float]] = {}
    with ExitStack() as stack:
        theirs = stack.enter_context(polygraph(python, max_new_tokens, cores))
        url = stack.enter_context(running_service("embedded", "embedded"))
        sides = {
            "LM-Polygraph": theirs,
            "service": stack.enter_context(_service(url, max_new_tokens)),
        }
        for number in range(rounds + 1):
            for batch in (1, BATCH):
                found = {}
                for name, side in sides.items():
                    time.sleep(_REST_S)
                    starts = range(0, max(size, BATCH) if batch == 1 else len(prompts), batch)
                    side(prompts[:batch])
                    block = [side(prompts[start : start + batch]) for start in starts]
                    found[name] = statistics.median(block)
                if number:  # the first round warms up
                    ratios.setdefault(batch, []).append(found["LM-Polygraph"] / found["service"])
                    for name, value in found.items():
                        medians.setdefault((name, batch), []).append(value)
    figures = []
    for batch, values in ratios.items():
        name = f"LM-Polygraph / service, {batch} at a time"
        ratio, limit = statistics.median(values), _LIMITS[batch]
        figures.append(Figure(name, ratio, "x", limit, at_least=True))
        for side in ("LM-Polygraph", "service"):
            figures.append(
                Figure(f"{side}: {batch}", statistics.median(medians[side, batch]), "ms")
            )
    report = {"machine": machine(cores), "figures": figure_records(figures), "ratios": ratios}
    title = f"{cores} cores of {machine(cores)['cpu']}"
    publish([figures_table(title, figures)], report, json_path)


@contextmanager
def polygraph(
    python: str, max_new_tokens: int, threads: int
) -> Iterator[Callable[[Sequence[str]], float]]:
    """A function from prompts, taken together, to milliseconds."""
    command = [python, str(Path(__file__).with_name("polygraph.py"))]
    command += [str(LANGUAGE_MODEL_DIR), str(CROSS_ENCODER_DIR), str(max_new_tokens)]
    command += [str(M), str(threads)]
    variables = os.environ | {"HF_HUB_OFFLINE": "1"}
    variables.pop("PYTHONPATH", None)
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=variables
    )
    assert process.stdin is not None
    assert process.stdout is not None
    stdin, stdout = process.stdin, process.stdout

    def answer() -> dict[str, Any]:
        for line in stdout:
            if line.startswith("{"):  # the libraries print, too
                found: dict[str, Any] = json.loads(line)
                return found
        raise RuntimeError("LM-Polygraph ended")

    def together(prompts: Sequence[str]) -> float:
        stdin.write(json.dumps({"prompts": list(prompts)}) + "\n")
        stdin.flush()
        return float(answer()["ms"])

    try:
        answer()
        yield together
    finally:
        process.terminate()
        process.wait()


@contextmanager
def _service(url: str, max_new_tokens: int) -> Iterator[Callable[[Sequence[str]], float]]:
    """A function from prompts, sent at once, to milliseconds until all are answered."""
    client = httpx.AsyncClient(base_url=url, timeout=120)

    async def answered(prompts: Sequence[str]) -> float:
        bodies = []
        for seed, prompt in enumerate(prompts):
            bodies.append({"prompt": prompt, "max_new_tokens": max_new_tokens, "seed": seed})
        began_at = time.perf_counter()
        asked = [client.post(PATH, json=body | {"cache": False}) for body in bodies]
        for response in await asyncio.gather(*asked):
            response.raise_for_status()
        return 1000 * (time.perf_counter() - began_at)

    with asyncio.Runner() as runner:
        yield lambda prompts: runner.run(answered(prompts))
        runner.run(client.aclose())


if __name__ == "__main__":
    typer.run(main)
