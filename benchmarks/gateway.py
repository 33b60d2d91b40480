"""A gateway on one core before a server that answers at once: requests a second, beside its floor.

    python benchmarks/gateway.py
    python -m venv ../litellm && ../litellm/bin/pip install 'litellm[proxy]==1.108.7'
    python benchmarks/gateway.py --litellm ../litellm/bin/python

The server (`fixed_server.py`) and the clients have the other cores. The floor is a route that does
nothing but what must be: read a body, make one call of the server, read its eleven choices, answer.
LiteLLM's proxy, in an environment of its own, has the same core and server, and is asked for eleven
choices with log-probs. p50 and p99 are of requests with M = 10 at even intervals, half as many as
the gateway has just answered.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import httpx
import numpy as np
import typer
from gateway_floor import SAMPLING
from report import Figure, Round, Values, bounded, figure, in_turn, reporting
from service import free_port, measure_rate, request_bytes, running_cocoa, waits

_FULL, _PLAIN, _FLOOR, _LITELLM = "M = 10", "sp alone", "the floor", "LiteLLM's proxy"
_P50, _P99 = "p50 at half of it", "p99 at half of it"
_NUM_ROUNDS, _SECONDS, _NUM_REQUESTS, _START_S = 6, 4.0, 2000, 120.0
_HERE = Path(__file__).parent
_PORT = "PORT"
_OF_LITELLM = """\
model_list:
  - model_name: fixed
    litellm_params: {model: openai/fixed, api_base: "%s/v1", api_key: none}
"""
# Prices of models come with it, from no other host; and it is asked without a key.
_SETTINGS = (
    "LITELLM_LOCAL_MODEL_COST_MAP=True",
    "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY=true",
    "LITELLM_LOG=ERROR",
)


def main(
    litellm: Annotated[str | None, typer.Option(help="Interpreter with LiteLLM.")] = None,
) -> None:
    """Measure, print and store; the exit code is 1 where a ratio misses its bound."""
    with reporting("gateway", peer=litellm is not None) as report:
        report.measure("gateway", _NUM_ROUNDS, partial(_started, litellm), _figures)
    raise typer.Exit(report.exit_code)


@contextmanager
def _started(litellm: str | None) -> Iterator[Round]:
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise typer.BadParameter("needs two cores: one for the gateway, another for the rest")
    with ExitStack() as stack:
        os.sched_setaffinity(0, cores[1:])
        stack.callback(os.sched_setaffinity, 0, cores)
        server = stack.enter_context(_program(sys.executable, _HERE / "fixed_server.py", _PORT))
        os.sched_setaffinity(0, cores[:1])
        command = sys.executable, _HERE / "gateway_floor.py", _PORT, server
        floor = stack.enter_context(_program(*command))
        settings = {"GENERATION__API": "openai", "GENERATION__URL": server}
        gateway = stack.enter_context(running_cocoa("serve", **settings))
        full = _requests(num_samples=10)
        sides = {
            _FULL: partial(measure_rate, gateway, full, _SECONDS),
            _PLAIN: partial(measure_rate, gateway, _requests(estimators=["sp"]), _SECONDS),
            _FLOOR: partial(measure_rate, floor, _requests(), _SECONDS),
        }
        if litellm is not None:
            proxy = stack.enter_context(_litellm(litellm, server))
            sides[_LITELLM] = partial(measure_rate, proxy, _chats(), _SECONDS)
        os.sched_setaffinity(0, cores[1:])

        def rates(number: int) -> Values:
            found: Values = in_turn(sides, number)
            took = waits(gateway, full, found[_FULL] / 2, _SECONDS)
            found[_P50], found[_P99] = np.percentile(took, (50, 99)).tolist()
            return found

        yield rates


@contextmanager
def _program(*command: str | Path) -> Iterator[str]:
    """URL of a program once it answers; `_PORT` in its command is the port that it listens on."""
    port = free_port()
    process = subprocess.Popen([str(port) if one == _PORT else str(one) for one in command])
    url, ends_at = f"http://127.0.0.1:{port}", time.monotonic() + _START_S
    try:
        while True:
            try:
                httpx.get(f"{url}/v1/models")
                break
            except httpx.TransportError:
                if time.monotonic() > ends_at:
                    raise
                time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        process.wait()


@contextmanager
def _litellm(python: str, server: str) -> Iterator[str]:
    """URL of LiteLLM's proxy before the server; `litellm` stands beside its interpreter."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as config:
        config.write(_OF_LITELLM % server)
        config.flush()
        program = Path(python).with_name("litellm")
        command = "env", *_SETTINGS, program, "--config", config.name, "--port", _PORT
        with _program(*command) as url:
            yield url


def _requests(**fields: Any) -> list[bytes]:
    """Different ones, of which none is answered from the cache."""
    requests = []
    for number in range(_NUM_REQUESTS):
        prompt = f"What is the capital of Bulgaria? ({number})"
        body = {"prompt": prompt, "seed": number, "cache": False, **fields}
        requests.append(request_bytes(body))
    return requests


def _chats() -> list[bytes]:
    """The same prompts for a proxy: eleven choices with log-probs."""
    chats = []
    for number in range(_NUM_REQUESTS):
        content = f"What is the capital of Bulgaria? ({number})"
        body = {"model": "fixed", "messages": [{"role": "user", "content": content}], **SAMPLING}
        chats.append(request_bytes({**body, "seed": number}, "/v1/chat/completions"))
    return chats


def _figures(rounds: Sequence[Values]) -> list[Figure]:
    figures = []
    for name in rounds[0]:
        unit = "ms" if name in (_P50, _P99) else "requests/s"
        figures.append(figure(name, [values[name] for values in rounds], unit))
    figures.append(bounded("gateway", rounds, _FULL, _FLOOR))
    figures.append(bounded("gateway", rounds, _P99, _P50))
    if _LITELLM in rounds[0]:
        figures.append(bounded("gateway", rounds, _FULL, _LITELLM))
    return figures


if __name__ == "__main__":
    typer.run(main)
