"""LM-Polygraph, UQLM and the service, on the same models and prompts.

    python -m venv ../polygraph
    ../polygraph/bin/pip install lm-polygraph==0.7.0 transformers==5.23.0 torch==2.13.0
    python -m venv ../uqlm
    ../uqlm/bin/pip install uqlm==0.6.7 langchain-openai 'pyarrow<22' torch==2.13.0
    python benchmarks/peers.py --polygraph ../polygraph/bin/python --uqlm ../uqlm/bin/python

Each peer has an environment and a process of its own. LM-Polygraph generates itself, with a thread
for every core. UQLM asks the service's `/v1` for an answer and M samples, and computes its
`consistency_and_confidence`. The service answers one request, or 20 at once, never from the cache;
its default request scores eight estimators, LM-Polygraph's three CoCoA among them.
"""

import asyncio
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import httpx
import typer
from report import Figure, Round, Values, figure, in_turn, ratio, reporting
from service import PATH, body_of, running_service, testbed_prompts

from models.embedded import CROSS_ENCODER_DIR, LANGUAGE_MODEL_DIR

M = 10
BATCH = 20
SERVICE, POLYGRAPH, UQLM = "service", "LM-Polygraph", "UQLM over /v1"
_LIMITS = {(POLYGRAPH, 1): 8.0, (POLYGRAPH, BATCH): 3.0}

# Milliseconds that prompts take together.
Side = Callable[[Sequence[str]], float]


def main(
    polygraph: Annotated[str | None, typer.Option(help="Interpreter with LM-Polygraph.")] = None,
    uqlm: Annotated[str | None, typer.Option(help="Interpreter with UQLM.")] = None,
    cores: Annotated[int, typer.Option(min=1, help="Cores for everything.")] = 2,
    max_new_tokens: Annotated[int, typer.Option(min=1)] = 64,
    rounds: Annotated[int, typer.Option(min=1, help="Blocks of each side.")] = 4,
    size: Annotated[int, typer.Option(min=1, help="Calls in a block of one prompt each.")] = 20,
    minutes: Annotated[float, typer.Option(help="It ends after these.")] = 10.0,
) -> None:
    """Measure, print and store; the exit code is 0 whatever the figures."""
    here = Path(__file__).parent
    numbers = [str(max_new_tokens), str(M)]
    commands = {}
    if polygraph is not None:
        models = [str(LANGUAGE_MODEL_DIR), str(CROSS_ENCODER_DIR)]
        commands[POLYGRAPH] = [polygraph, str(here / "polygraph.py"), *models, *numbers, str(cores)]
    if uqlm is not None:
        commands[UQLM] = [uqlm, str(here / "uqlm_peer.py"), str(CROSS_ENCODER_DIR), *numbers]
    settings = {"peers": list(commands), "max_new_tokens": max_new_tokens, "size": size}
    with reporting("peers", minutes, cores, **settings) as report:
        for batch in (1, BATCH):
            start = partial(_blocks, commands, max_new_tokens, size, batch)
            report.measure(f"{batch} at a time", rounds, start, partial(_figures, batch))


@contextmanager
def _blocks(
    commands: Mapping[str, list[str]], max_new_tokens: int, size: int, batch: int
) -> Iterator[Round]:
    num_calls = max(1, size // batch)
    prompts = testbed_prompts(batch * num_calls)
    with ExitStack() as stack:
        # UQLM asks for the answers and samples of all prompts at once.
        limits = {"GENERATION__ADMISSION_LIMIT": BATCH * (1 + M)}
        url = stack.enter_context(running_service("embedded", "embedded", **limits))
        sides: dict[str, Side] = {SERVICE: stack.enter_context(_service(url, max_new_tokens))}
        for name, command in commands.items():
            own = [*command, url] if name == UQLM else command
            sides[name] = stack.enter_context(_peer(own))

        def block(side: Side) -> float:
            side(prompts[:batch])
            starts = range(0, len(prompts), batch)
            return median(side(prompts[start : start + batch]) for start in starts)

        yield partial(in_turn, {name: partial(block, side) for name, side in sides.items()})


def _figures(batch: int, rounds: Sequence[Values]) -> list[Figure]:
    figures = []
    for name in rounds[0]:
        figures.append(figure(f"{name}, {batch} at a time", [one[name] for one in rounds], "ms"))
        if name != SERVICE:
            limit = _LIMITS.get((name, batch))
            figures.append(ratio(rounds, name, SERVICE, limit, at_least=True))
    return figures


@contextmanager
def _peer(command: Sequence[str]) -> Iterator[Side]:
    """A process that answers lines of prompts with the milliseconds that they took."""
    variables = os.environ | {"HF_HUB_OFFLINE": "1", "PYTHONWARNINGS": "ignore"}
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
        raise RuntimeError(f"{command[1]} ended")

    def ask(prompts: Sequence[str]) -> float:
        stdin.write(json.dumps({"prompts": list(prompts)}) + "\n")
        stdin.flush()
        return float(answer()["ms"])

    try:
        answer()
        yield ask
    finally:
        process.terminate()
        process.wait()


@contextmanager
def _service(url: str, max_new_tokens: int) -> Iterator[Side]:
    """Prompts are sent at once; milliseconds until all are answered."""
    client = httpx.AsyncClient(base_url=url, timeout=120)

    async def answered(prompts: Sequence[str]) -> float:
        bodies = []
        for seed, prompt in enumerate(prompts):
            bodies.append(body_of(prompt, seed, max_new_tokens=max_new_tokens))
        began_at = time.perf_counter()
        for response in await asyncio.gather(*(client.post(PATH, json=body) for body in bodies)):
            response.raise_for_status()
        return 1000 * (time.perf_counter() - began_at)

    with asyncio.Runner() as runner:
        yield lambda prompts: runner.run(answered(prompts))
        runner.run(client.aclose())


if __name__ == "__main__":
    typer.run(main)
