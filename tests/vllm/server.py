"""A real vLLM of another environment as a process, and what may be asked of it."""

import asyncio
import json
import os
import re
import signal
import subprocess
import time
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx

from models.embedded import LANGUAGE_MODEL_DIR, PROBES_DIR
from tests.chaos.redis_server import free_port

PYTHON = os.environ.get("COCOA_TEST_VLLM_PYTHON", ".venv-vllm/bin/python")
PROBES = [PROBES_DIR / "inconsistency", PROBES_DIR / "semantic_entropy"]
# By its id the service knows that its own pair models fit.
NAME = "embedded"
START_S = 600
FIRST_ID = 2_000_000_000
ENVIRONMENT = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_NUM_OF_RESERVED_CPU": "0",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    # On a GPU: the runner that the plugin knows, and an attention that does not round to TF32.
    "VLLM_USE_V2_MODEL_RUNNER": "0",
    "TRITON_F32_DEFAULT": "ieee",
}


class DidNotStart(AssertionError):
    """The server ended before it was ready; its log is the message."""


class Server:
    """A running server; requests go by token ids or text, columns come back by number."""

    def __init__(self, client: httpx.AsyncClient, log: Path) -> None:
        self.client = client
        self._log = log

    @property
    def log(self) -> str:
        """What it has said so far."""
        return self._log.read_text(errors="replace")

    def body(self, prompt: str | list[int], mode: str | None = None, **changes: Any) -> dict:
        """A greedy completion; with a mode, of the plugin's columns."""
        body = {
            "model": NAME,
            "prompt": prompt,
            "temperature": 0,
            "max_tokens": 64,
            "logprobs": 1,
            "return_token_ids": True,
            "return_tokens_as_token_ids": True,
        }
        if mode is not None:
            body |= {"vllm_xargs": {"cocoa": mode}, "logprobs": 6}
        return body | changes

    async def post(self, prompt: str | list[int], mode: str | None = None, **changes: Any):
        """The response as it is."""
        return await self.client.post("/v1/completions", json=self.body(prompt, mode, **changes))

    async def choices(self, prompt: str | list[int], mode: str | None = None, **changes: Any):
        """The choices of a completion that succeeds."""
        response = await self.post(prompt, mode, **changes)
        assert response.status_code == 200, response.text
        return response.json()["choices"]

    async def one(self, prompt: str | list[int], mode: str | None = None, **changes: Any):
        """The choice of a completion of one."""
        (choice,) = await self.choices(prompt, mode, **changes)
        return choice

    async def metric(self, name: str) -> float:
        """Sum of a metric over its labels."""
        text = (await self.client.get("/metrics")).text
        found = re.findall(rf"^{re.escape(name)}(?:\{{[^}}]*\}})? (\S+)$", text, re.MULTILINE)
        assert found, f"{name} is not among the metrics"
        return sum(map(float, found))

    async def until(self, name: str, value: float, *, within_s: float = 30) -> None:
        """Wait for a metric's value."""
        deadline = time.monotonic() + within_s
        while (found := await self.metric(name)) != value:
            assert time.monotonic() < deadline, f"{name} is {found}, not {value}"
            await asyncio.sleep(0.01)


def columns(choice: dict) -> list[dict[int, float]]:
    """Each token's columns by number."""
    found = []
    for top in choice["logprobs"]["top_logprobs"]:
        ids = {int(key.removeprefix("token_id:")): value for key, value in top.items()}
        found.append({i - FIRST_ID: value for i, value in ids.items() if i >= FIRST_ID})
    return found


@asynccontextmanager
async def serving(
    folder: Path,
    name: str,
    *arguments: str,
    model: Path | str = LANGUAGE_MODEL_DIR,
    probes: Any = PROBES,
    plugin: bool = True,
    host: str = "127.0.0.1",
    port: int | None = None,
):
    """A server of `model`, ready; it is ended with its children.

    Args:
        folder: for its log.
        name: of it, in what is printed.
        arguments: beside those of every server here.
        probes: folders of the deployment's probes.
        plugin: whether the plugin is loaded at all.
        host, port: where it listens; None for a free port.
    """
    port = port or free_port()
    additional = json.dumps({"cocoa": {"probes": [str(probe) for probe in probes]}})
    command = [
        PYTHON, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model),
        "--served-model-name", NAME, "--host", host, "--port", str(port),
        "--dtype", "float32", "--max-model-len", "512", "--block-size", "32",
        "--generation-config", "vllm", "--additional-config", additional, *arguments,
    ]  # fmt: skip
    log, began = folder / f"{name}.log", time.monotonic()
    print(f"\n[{name}] starting vLLM on port {port}, log {log}", flush=True)
    process = _started(command, log, plugin=plugin)
    # The server closes a connection that rests for 5 s, perhaps just as it is used again.
    limits = httpx.Limits(max_connections=None, keepalive_expiry=1)
    url = f"http://{host}:{port}"
    try:
        async with httpx.AsyncClient(base_url=url, timeout=300, limits=limits) as client:
            server = Server(client, log)
            await _wait_ready(process, server, name)
            print(f"[{name}] ready after {time.monotonic() - began:.0f} s", flush=True)
            yield server
    finally:
        _end(process)


def _started(command: list[str], log: Path, *, plugin: bool) -> subprocess.Popen:
    cores = sorted(os.sched_getaffinity(0))[:2]
    environment = (
        os.environ
        | ENVIRONMENT
        | {
            "VLLM_CPU_OMP_THREADS_BIND": f"{cores[0]}-{cores[-1]}",
            "VLLM_CACHE_ROOT": str(log.parent / "cache"),
            "VLLM_PLUGINS": "cocoa_vllm" if plugin else "none",
        }
    )
    environment.pop("PYTHONPATH", None)
    with log.open("w") as out:
        return subprocess.Popen(
            ["nice", "-n", "5", *command],
            stdout=out,
            stderr=out,
            env=environment,
            start_new_session=True,
        )


async def _wait_ready(process: subprocess.Popen, server: Server, name: str) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise DidNotStart(server.log)
        with suppress(httpx.TransportError):
            if (await server.client.get("/health")).status_code == 200:
                return
        await asyncio.sleep(0.5)
    raise DidNotStart(f"{name} was not ready within {START_S} s: {server.log}")


def _end(process: subprocess.Popen) -> None:
    """End a server, then whatever of its group is left."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=20)
