"""Cached answers over HTTP: their latency, and how many of them one core serves, with a real Redis.

The service has one core to itself. Redis and the clients run on the others; a client sends the same
bytes again and again over one connection. For comparison, the same requests are computed anew
(`cache: false`) and a route that does nothing is measured.
"""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from latency import testbed_prompts
from report import Figure, figure_records, figures_table, machine, publish, spread
from rich.table import Table
from service import (
    NUM_CLIENTS,
    connect,
    free_port,
    measure_rate,
    post,
    request_bytes,
    running_service,
)

from models.embedded import TESTBED_DIR

_RESULTS = Path(__file__).parent / "results" / "cache.json"
# What the framework alone costs on this machine, for comparison.
_EMPTY = b"GET /livez HTTP/1.1\r\nHost: cocoa\r\n\r\n"


def main(
    num_prompts: Annotated[int, typer.Option(min=1, help="Different requests.")] = 50,
    rounds: Annotated[int, typer.Option(min=1, help="Times that each request is sent.")] = 10,
    seconds: Annotated[float, typer.Option(min=0.1, help="How long the rate is measured.")] = 10.0,
    json_path: Annotated[Path, typer.Option("--json", help="Where the report goes.")] = _RESULTS,
) -> None:
    """Measure, print a table, write JSON; the exit code is 0 whatever the figures."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise typer.BadParameter("needs two cores: one for the service, another for its clients")
    bodies = [_body(prompt) for prompt in testbed_prompts(TESTBED_DIR, num_prompts)]
    with ExitStack() as stack:
        os.sched_setaffinity(0, cores[1:])
        redis_url = stack.enter_context(running_redis())
        os.sched_setaffinity(0, cores[:1])
        url = stack.enter_context(running_service("embedded", "embedded", CACHE__URL=redis_url))
        os.sched_setaffinity(0, cores[1:])
        computed, cached = measure_latency(url, bodies, rounds)
        rate = measure_rate(url, [request_bytes(body) for body in bodies], seconds)
        empty_rate = measure_rate(url, [_EMPTY], seconds)
    spreads = {"computed, ms": spread(computed), "cached, ms": spread(cached)}
    computed_ms, cached_ms = spreads["computed, ms"].median, spreads["cached, ms"].median
    rate_name = f"cached answers per second on one core, {NUM_CLIENTS} clients"
    figures = [
        Figure("cached answer over HTTP, median", cached_ms, "ms", 3.0),
        Figure(rate_name, rate, "1/s", 1500.0, at_least=True),
        Figure("the same of a route that does nothing", empty_rate, "1/s"),
        Figure("computed / cached", computed_ms / cached_ms, "x"),
    ]
    report = {
        "machine": machine(1),
        "figures": figure_records(figures),
        "measurements": {name: asdict(value) for name, value in spreads.items()},
    }
    table = Table("measured", "median", "quartiles", "count", title="Latency", title_justify="left")
    for name, value in spreads.items():
        quartiles = f"{value.quartile_1:.2f} to {value.quartile_3:.2f}"
        table.add_row(name, f"{value.median:.2f}", quartiles, str(value.count))
    publish([table, figures_table(f"One core of {machine(1)['cpu']}", figures)], report, json_path)


@contextmanager
def running_redis() -> Iterator[str]:
    """URL of a redis-server of our own, in memory only."""
    if (program := shutil.which("redis-server")) is None:
        raise typer.BadParameter("needs redis-server on the path")
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        command = [program, "--port", str(port), "--dir", folder]
        command += ["--save", "", "--appendonly", "no"]  # in memory only
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            _wait_for(port)
            yield f"redis://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait()


def measure_latency(
    url: str, bodies: list[dict[str, Any]], rounds: int
) -> tuple[list[float], list[float]]:
    """Milliseconds of each request computed anew, and of each answered from the cache."""
    computed, cached = [], []
    with connect(url) as client:
        for body in bodies:
            post(client, body)
            computed.append(post(client, body | {"cache": False}).elapsed_ms)
        for _ in range(rounds):
            for body in bodies:
                reply = post(client, body)
                if not reply.body["cached"]:
                    raise RuntimeError("a repeated request was not answered from the cache")
                cached.append(reply.elapsed_ms)
    return computed, cached


def _body(prompt: str) -> dict[str, Any]:
    return {"prompt": prompt, "seed": 1, "max_new_tokens": 64}


def _wait_for(port: int) -> None:
    for _ in range(100):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise TimeoutError("redis-server does not listen")


if __name__ == "__main__":
    typer.run(main)
