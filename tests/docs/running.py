"""Runs code blocks as a reader would: in a folder like a checkout, against a service."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

from tests.binaries import binary
from tests.chaos.redis_server import free_port
from tests.docs.blocks import ROOT

# Of one block, and of a service's start; a machine with much else to do takes its time.
WITHIN_S = 300
_PORT = re.compile(r"\b80[0-9]{2}\b")
_NEEDED = ("curl", "node", "promtool", "redis-server")
# A block that serves is a block of several terminals: each server has to become ready, and ends
# with the block.
_COCOA = """#!/bin/bash
cocoa() { "{python}" -c 'from app.cli import main; main()' "$@"; }
case "$1" in
serve|worker)
  port=$COCOA_PORT
  while [[ $# -gt 0 && $1 != --port ]]; do words+=("$1"); shift; done
  [[ $1 == --port ]] && port=$2
  cocoa "${words[@]}" --port "$port" &
  for _ in $(seq 1400); do
    {curl} -sf "http://127.0.0.1:$port/livez" > {nothing} && break
    kill -0 $! || exit 1
    sleep 0.2
  done
  # A gateway is ready when its workers are, which may be started after it.
  [[ ${words[0]} == worker ]] && exit 0
  for _ in $(seq 1400); do
    {curl} -sf "http://127.0.0.1:$port/readyz" > {nothing} && exit 0
    kill -0 $! || exit 1
    sleep 0.2
  done
  exit 1;;
*) cocoa "$@";;
esac
"""
_BATCH = """#!/bin/bash
exec "{python}" -m cocoa_client.batch "$@"
"""
_CURL = """#!/bin/bash
exec {curl} --fail-with-body "$@"
"""


class Failed(Exception):
    """A block did not run through; the message has what it said."""


class Runner:
    """Runs the blocks of one page in one folder.

    Args:
        folder: of the page, like a checkout.
        port: where a service listens, of the blocks that start none.
        pid: of that service.
    """

    def __init__(self, folder, port, pid):
        self._folder = folder
        self._port = port
        self._pid = pid
        self._printed = ""
        folder.mkdir()
        for entry in ROOT.iterdir():
            if not entry.name.startswith(".") and entry.name not in ("build", "dist"):
                (folder / entry.name).symlink_to(entry)
        self._bin = folder / ".venv" / "bin"
        self._bin.mkdir(parents=True)
        self._command("cocoa", _COCOA)
        self._command("cocoa-batch", _BATCH)
        self._command("curl", _CURL)
        for name in ("python", "python3"):
            (self._bin / name).write_text(f'#!/bin/bash\nexec "{sys.executable}" "$@"\n')
            (self._bin / name).chmod(0o755)

    def run(self, block):
        """Run a block, or check what it shows."""
        for name in _NEEDED:
            if re.search(rf"^{name} |[|(] *{name} ", block.text, re.MULTILINE):
                binary(name)
        if block.kind == "text":
            return
        getattr(self, f"_{block.kind}")(block)

    def _shell(self, block):
        self._printed = self._output(["bash", "-euo", "pipefail"], block)

    def _python(self, block):
        self._output([sys.executable, "-"], block)

    def _javascript(self, block):
        self._output([binary("node"), "--input-type=module", "-"], block)

    def _json(self, block):
        """What a JSON block shows is part of what the command before it printed."""
        text = block.text if block.text.startswith("{") else "{" + block.text + "}"
        shown = json.loads(text)
        try:
            printed = json.loads(self._printed)
        except ValueError:
            return
        if difference := _difference(shown, printed):
            raise Failed(f"the command prints something else: {difference}")

    def _toml(self, block):
        import tomllib

        tomllib.loads(block.text)

    def _yaml(self, block):
        import yaml

        list(yaml.safe_load_all(block.text))

    def _command(self, name, script):
        text = script.replace("{curl}", binary("curl")).replace("{python}", sys.executable)
        (self._bin / name).write_text(text.replace("{nothing}", os.devnull))
        (self._bin / name).chmod(0o755)

    def _output(self, command, block):
        """What a command prints that reads the block."""
        serves = re.search(r"\bcocoa (serve|worker)\b", block.text)
        ports = {} if serves else {"8000": str(self._port)}

        def moved(match):
            return ports.setdefault(match[0], str(free_port()))

        text = _PORT.sub(moved, block.text)
        environment = clean_environment() | {
            "PATH": f"{self._bin}:{os.environ['PATH']}",
            "PYTHONPATH": f"{ROOT}:{ROOT / 'lab'}:{ROOT / 'clients' / 'python'}",
            "COCOA_PORT": ports.get("8000") or str(free_port()),
            "COCOA_LOG_LEVEL": "warning",
            "PID": str(self._pid),
        }
        told, said = self._folder / ".stdout", self._folder / ".stderr"
        # Files, since what a block leaves running would hold pipes open.
        with told.open("w") as out, said.open("w") as errors:
            process = subprocess.Popen(
                command,
                cwd=self._folder,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=errors,
                text=True,
                start_new_session=True,
            )
        try:
            process.communicate(text, timeout=WITHIN_S)
        except subprocess.TimeoutExpired:
            raise Failed(f"not done in {WITHIN_S} s") from None
        finally:
            _end_group(process)
        printed = told.read_text()
        if process.returncode != 0:
            raise Failed(
                f"status {process.returncode}\n{printed[-2000:]}\n{said.read_text()[-2000:]}"
            )
        return printed


def _end_group(process):
    """End a process and whatever it left running."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


# Of one answer and the next.
_MOMENTARY = {"id", "timing_ms", "cached"}


def _difference(shown, printed, at="") -> str | None:
    """Where what is shown is not what was printed; fields that are not shown do not matter."""
    if isinstance(shown, dict) and isinstance(printed, dict):
        pairs = [(name, shown[name], printed.get(name)) for name in shown if name not in _MOMENTARY]
        return next(filter(None, (_difference(a, b, f"{at}.{n}") for n, a, b in pairs)), None)
    if isinstance(shown, list) and isinstance(printed, list) and len(shown) == len(printed):
        pairs = [(i, *both) for i, both in enumerate(zip(shown, printed, strict=True))]
        return next(filter(None, (_difference(a, b, f"{at}[{i}]") for i, a, b in pairs)), None)
    if isinstance(shown, float) and isinstance(printed, int | float):
        close = abs(shown - printed) <= 1e-3 + 0.02 * abs(printed)
        return None if close else f"{at}: {shown} is {printed}"
    return None if shown == printed else f"{at}: {shown!r} is {printed!r}"


def clean_environment():
    """This process's environment without settings of the service."""
    variables = os.environ.items()
    return {name: value for name, value in variables if not name.upper().startswith("COCOA_")}


@contextmanager
def service(folder):
    """Port and process id of the service on the embedded models, with labels kept."""
    port = free_port()
    environment = clean_environment() | {
        "COCOA_FEEDBACK__PATH": str(Path(folder) / "labels.jsonl"),
        "COCOA_LOG_LEVEL": "warning",
        "PYTHONPATH": str(ROOT),
    }
    command = [
        sys.executable,
        "-c",
        "from app.cli import main; main()",
        "serve",
        "--port",
        str(port),
    ]
    with (Path(folder) / "log").open("w") as log:
        process = subprocess.Popen(command, env=environment, stderr=log, cwd=folder)
    try:
        _wait_ready(port, process, Path(folder) / "log")
        yield port, process.pid
    finally:
        process.terminate()
        process.wait(60)


def _wait_ready(port, process, log):
    until = time.monotonic() + WITHIN_S
    while time.monotonic() < until and process.poll() is None:
        try:
            if httpx.get(f"http://127.0.0.1:{port}/readyz").is_success:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.2)
    raise Failed(f"the service did not become ready\n{log.read_text()[-2000:]}")
