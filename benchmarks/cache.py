"""Cached answers over HTTP: their latency, and how many of them one core serves.

    python benchmarks/cache.py               # half a minute; with a real Redis

The service has one core to itself. Redis and the clients run on the others; a client sends the same
bytes again and again over one connection. For comparison, the same requests are computed anew
(`cache: false`) and a route that does nothing is measured.
"""

import os
import shutil
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import httpx
import typer
from report import Figure, Report, Round, Values, figure, in_turn, ratio, reporting
from service import (
    body_of,
    connect,
    free_port,
    measure_rate,
    post,
    request_bytes,
    running_service,
    testbed_prompts,
)

_CACHED, _NOTHING = "cached answers", "a route that does nothing"
_NUM_PROMPTS, _NUM_ROUNDS, _SECONDS = 50, 3, 4.0
# What the framework alone costs on this machine.
_EMPTY = b"GET /livez HTTP/1.1\r\nHost: cocoa\r\n\r\n"


def main() -> None:
    """Measure, print and store; the exit code is 0 whatever the figures."""
    with reporting("cache") as report:
        measure_cached(report, "embedded", "embedded", redis=True)


def measure_cached(
    report: Report, model: str, similarity_model: str, *, redis: bool = False
) -> None:
    """Of a cache in the service's memory, or in a Redis of our own."""
    start = partial(_cached, model, similarity_model, redis)
    report.measure("cache", _NUM_ROUNDS, start, _figures)


@contextmanager
def _cached(model: str, similarity_model: str, redis: bool) -> Iterator[Round]:
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise typer.BadParameter("needs two cores: one for the service, another for its clients")
    bodies = [body_of(prompt, 1, cache=True) for prompt in testbed_prompts(_NUM_PROMPTS)]
    requests = [request_bytes(body) for body in bodies]
    try:
        os.sched_setaffinity(0, cores[1:])
        with running_redis() if redis else nullcontext() as redis_url:
            settings = {"CACHE__URL": redis_url} if redis else {}
            os.sched_setaffinity(0, cores[:1])
            with (
                running_service(model, similarity_model, **settings) as url,
                connect(url) as client,
            ):
                os.sched_setaffinity(0, cores[1:])
                for body in bodies:
                    post(client, body)
                sides = {
                    _CACHED: partial(measure_rate, url, requests, _SECONDS),
                    _NOTHING: partial(measure_rate, url, [_EMPTY], _SECONDS),
                }
                yield lambda number: in_turn(sides, number) | _latencies(client, bodies)
    finally:
        os.sched_setaffinity(0, cores)


def _latencies(client: httpx.Client, bodies: Sequence[dict[str, Any]]) -> Values:
    """Milliseconds of a request computed anew, and of one answered from the cache."""
    computed, cached = [], []
    for body in bodies:
        computed.append(post(client, body | {"cache": False}).elapsed_ms)
    for body in bodies:
        reply = post(client, body)
        if not reply.body["cached"]:
            raise RuntimeError("a repeated request was not answered from the cache")
        cached.append(reply.elapsed_ms)
    return {"computed": statistics.median(computed), "cached": statistics.median(cached)}


def _figures(rounds: Sequence[Values]) -> list[Figure]:
    def each(name: str) -> list[float]:
        return [values[name] for values in rounds]

    rate = f"{_CACHED} per second, one core"
    return [
        figure(rate, each(_CACHED), "1/s", 1500.0, at_least=True),
        figure(f"the same of {_NOTHING}", each(_NOTHING), "1/s"),
        ratio(rounds, _CACHED, _NOTHING, 0.45, at_least=True),
        figure("cached answer over HTTP", each("cached"), "ms", 3.0),
        ratio(rounds, "computed", "cached"),
    ]


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
