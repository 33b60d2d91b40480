"""A gateway on one core before a server that answers at once: requests a second, beside its floor.

    python benchmarks/gateway.py

The server (`fixed_server.py`) and the clients have the other cores. The floor is a route that does
nothing but what must be: read a body, make one call of the server, read its eleven choices, answer.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import typer
from report import Figure, Report, Round, Values, figure, in_turn, ratio, reporting
from service import free_port, measure_rate, request_bytes, running_cocoa

_FULL, _PLAIN, _FLOOR = "M = 10", "sp alone", "the floor"
_NUM_ROUNDS, _SECONDS, _NUM_REQUESTS, _START_S = 6, 4.0, 2000, 20.0
_HERE = Path(__file__).parent
# At least so much of the floor.
_LEAST_SHARE = 0.6


def main() -> None:
    """Measure, print and store; the exit code is 0 whatever the figures."""
    with reporting("gateway") as report:
        measure_gateway(report)


def measure_gateway(report: Report) -> None:
    report.measure("gateway", _NUM_ROUNDS, _started, _figures)


@contextmanager
def _started() -> Iterator[Round]:
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise typer.BadParameter("needs two cores: one for the gateway, another for the rest")
    with ExitStack() as stack:
        os.sched_setaffinity(0, cores[1:])
        stack.callback(os.sched_setaffinity, 0, cores)
        server = stack.enter_context(_program("fixed_server.py"))
        os.sched_setaffinity(0, cores[:1])
        floor = stack.enter_context(_program("gateway_floor.py", server))
        settings = {"GENERATION__API": "openai", "GENERATION__URL": server}
        gateway = stack.enter_context(running_cocoa("serve", **settings))
        os.sched_setaffinity(0, cores[1:])
        sides = {
            _FULL: partial(measure_rate, gateway, _requests(num_samples=10), _SECONDS),
            _PLAIN: partial(measure_rate, gateway, _requests(estimators=["sp"]), _SECONDS),
            _FLOOR: partial(measure_rate, floor, _requests(), _SECONDS),
        }

        def rates(number: int) -> Values:
            return in_turn(sides, number)

        yield rates


@contextmanager
def _program(name: str, *arguments: str) -> Iterator[str]:
    """URL of a program of this folder, once it answers."""
    port = free_port()
    process = subprocess.Popen([sys.executable, str(_HERE / name), str(port), *arguments])
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


def _requests(**fields: Any) -> list[bytes]:
    """Different ones, of which none is answered from the cache."""
    requests = []
    for number in range(_NUM_REQUESTS):
        prompt = f"What is the capital of Bulgaria? ({number})"
        body = {"prompt": prompt, "seed": number, "cache": False, **fields}
        requests.append(request_bytes(body))
    return requests


def _figures(rounds: Sequence[Values]) -> list[Figure]:
    figures = []
    for name in (_FULL, _PLAIN, _FLOOR):
        figures.append(figure(name, [values[name] for values in rounds], "requests/s"))
    figures.append(ratio(rounds, _FULL, _FLOOR, _LEAST_SHARE, at_least=True))
    return figures


if __name__ == "__main__":
    typer.run(main)
