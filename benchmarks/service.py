"""The service in a process of its own, and clients that send it requests over HTTP."""

import asyncio
import json
import os
import socket
import subprocess
import sysconfig
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from cocoa_lab.embedded import TASKS, held_out_path

PATH = "/generate-with-uncertainty"
NUM_CLIENTS = 16
_START_S, _STOP_S = 180, 30
_TIMEOUT_S = 120


@dataclass(frozen=True, slots=True)
class Reply:
    """A response's body, and the round trip as the client saw it."""

    body: dict[str, Any]
    elapsed_ms: float


@contextmanager
def running_service(model: str, similarity_model: str, **settings: object) -> Iterator[str]:
    """URL of `cocoa serve` on these models, once it is ready; it inherits this process's cores.

    Args:
        model: as in COCOA_GENERATION__MODEL.
        similarity_model: as in COCOA_SIMILARITY__MODEL.
        settings: further settings by the rest of their names, e.g. `GENERATION__MAX_ROWS=11`.
    """
    models = {"GENERATION__MODEL": model, "SIMILARITY__MODEL": similarity_model}
    with running_cocoa("serve", **models | settings) as url:
        yield url


@contextmanager
def running_cocoa(*arguments: str, **settings: object) -> Iterator[str]:
    """URL of a `cocoa` command that listens, once it is ready; settings as in `running_service`."""
    port = free_port()
    settings = {"LOG_LEVEL": "warning", **settings}
    variables = os.environ.items()
    environment = {name: value for name, value in variables if not name.startswith("COCOA_")}
    environment |= {f"COCOA_{name}": str(value) for name, value in settings.items()}
    program = str(Path(sysconfig.get_path("scripts")) / "cocoa")
    command = [program, *arguments, "--port", str(port)]
    process = subprocess.Popen(command, env=environment)
    try:
        url = f"http://127.0.0.1:{port}"
        _wait_until_ready(url, process)
        yield url
    finally:
        process.terminate()
        try:
            process.wait(timeout=_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def testbed_prompts(count: int) -> list[str]:
    """Testbed prompts of all tasks in turn."""
    texts = []
    for task in TASKS:
        lines = Path(held_out_path(task)).read_text(encoding="utf-8").splitlines()
        texts.append([json.loads(line)["prompt"] for line in lines])
    shortest = min(map(len, texts))
    return [texts[i % len(texts)][i // len(texts) % shortest] for i in range(count)]


def body_of(prompt: str, seed: int, **fields: Any) -> dict[str, Any]:
    """A request that is never answered from the cache, unless its fields say so."""
    return {"prompt": prompt, "max_new_tokens": 64, "seed": seed, "cache": False} | fields


def post(client: httpx.Client, body: dict[str, Any]) -> Reply:
    """Send one request and time it; making the request and reading the JSON do not count."""
    request = client.build_request("POST", PATH, json=body)
    started_at = time.perf_counter()
    response = client.send(request)
    elapsed_ms = (time.perf_counter() - started_at) * 1000
    return Reply(response.raise_for_status().json(), elapsed_ms)


def connect(url: str) -> httpx.Client:
    """A client that keeps one connection."""
    limits = httpx.Limits(max_connections=1)
    return httpx.Client(base_url=url, timeout=_TIMEOUT_S, limits=limits)


def requests_per_second(url: str, bodies: Sequence[dict[str, Any]], num_clients: int) -> float:
    """Rate at which `num_clients` clients send `bodies`, each one request at a time."""
    return asyncio.run(_requests_per_second(url, bodies, num_clients))


async def _requests_per_second(
    url: str, bodies: Sequence[dict[str, Any]], num_clients: int
) -> float:
    todo = iter(bodies)
    limits = httpx.Limits(max_connections=num_clients, max_keepalive_connections=num_clients)

    async def ask_on(connection: httpx.AsyncClient) -> None:
        for body in todo:
            (await connection.post(PATH, json=body)).raise_for_status()

    async with httpx.AsyncClient(base_url=url, timeout=_TIMEOUT_S, limits=limits) as connections:
        started_at = time.perf_counter()
        await asyncio.gather(*(ask_on(connections) for _ in range(num_clients)))
        return len(bodies) / (time.perf_counter() - started_at)


def measure_rate(url: str, requests: list[bytes], seconds: float) -> float:
    """Answers per second to clients that send their next request as soon as they are answered."""
    port = int(url.rpartition(":")[2])
    asyncio.run(_count(port, requests, min(1.0, seconds)))  # warm up
    return asyncio.run(_count(port, requests, seconds)) / seconds


async def _count(port: int, requests: list[bytes], seconds: float) -> int:
    ends_at = time.monotonic() + seconds

    async def client(first: int) -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        count = 0
        while time.monotonic() < ends_at:
            await _answered(reader, writer, requests[(first + count) % len(requests)])
            count += 1
        writer.close()
        return count

    return sum(await asyncio.gather(*map(client, range(NUM_CLIENTS))))


def waits(url: str, requests: list[bytes], per_second: float, seconds: float) -> list[float]:
    """Milliseconds of each answer to requests that come at even intervals, from when it was due."""
    return asyncio.run(_waits(int(url.rpartition(":")[2]), requests, per_second, seconds))


async def _waits(
    port: int, requests: list[bytes], per_second: float, seconds: float
) -> list[float]:
    began_at, found = time.monotonic(), list[float]()
    todo = iter(range(int(per_second * seconds)))

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for number in todo:
            due_at = began_at + number / per_second
            await asyncio.sleep(due_at - time.monotonic())
            await _answered(reader, writer, requests[number % len(requests)])
            found.append(1000 * (time.monotonic() - due_at))
        writer.close()

    await asyncio.gather(*(client() for _ in range(NUM_CLIENTS)))
    return found


async def _answered(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes
) -> None:
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(f"the service answered {head[:12]!r}")
    length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
    await reader.readexactly(int(length))


def request_bytes(body: dict[str, Any], path: str = PATH) -> bytes:
    """A request as it goes over the connection."""
    content = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: cocoa\r\nContent-Type: application/json\r\n"
    return head.encode() + f"Content-Length: {len(content)}\r\n\r\n".encode() + content


def _wait_until_ready(url: str, process: "subprocess.Popen[bytes]") -> None:
    for _ in range(_START_S * 10):
        if process.poll() is not None:
            raise RuntimeError(f"the service ended with {process.returncode} before it was ready")
        try:
            if httpx.get(f"{url}/readyz").status_code == httpx.codes.OK:
                return
        except httpx.TransportError:  # not listening yet
            pass
        time.sleep(0.1)
    raise TimeoutError(f"the service was not ready within {_START_S} s")


def free_port() -> int:
    """A port that nothing listens on now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
