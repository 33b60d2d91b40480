"""Whether a function that an answer holds returns what it is to; its program runs in a child.

The child (`cocoa_lab.boxed`) has an empty folder and no environment, opens no file and no socket,
starts no process, and has limits of memory and of time. What it writes is not kept. It is trusted
after a trial in which it could do none of that.
"""

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from contextlib import suppress
from functools import cache
from itertools import dropwhile, takewhile
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from threading import Timer
from typing import Any

from cocoa_lab import boxed
from cocoa_lab.examples import Example

REFUSAL = (
    "answers of atlas-code are judged by running them: add --quality run_code, which runs the "
    "programs that the model writes, each in a child process of this machine that opens no file "
    "and no socket, and has limits of memory and time"
)
_SECONDS = 20  # of the clock, for what waits; what computes ends by `boxed.SECONDS` before
_MAX_PROGRAM = 20_000  # characters
_MAX_RESULT = 1 << 20  # bytes
_FENCED = re.compile(r"^[ \t]*```[^\n]*\n(.*?)(?:^[ \t]*```|\Z)", re.MULTILINE | re.DOTALL)
_OPENS = re.compile(r"(?:def|from|import)\b|@")
_GOES_ON = re.compile(rf"\s|$|{_OPENS.pattern}")
# Harmless where they are not held: each tries one thing that the child promises not to do.
_TRIALS = {
    "opens files": f"open({str(Path(__file__))!r})",
    "opens sockets": "import _socket; _socket.socket()",
    "starts processes": "import os; os.fork() or os._exit(0)",
    "sends signals": "import os; os.kill(os.getpid(), 0)",
    "takes memory": f"bytearray({boxed.MEMORY})",
}


def checks_of(example: Example) -> dict[str, Any] | None:
    """The example's function with its tests, [arguments, result]; None where there are none."""
    try:
        tests = json.loads(example.context or "")
    except ValueError:
        return None
    if not isinstance(tests, dict) or tests.keys() != {"function", "tests"}:
        return None
    return tests


def passes(output: str, example: Example) -> float:
    """1 where the function in the output passes all tests of the example, NaN without tests."""
    tests = checks_of(example)
    if tests is None:
        return float("nan")
    program = program_of(output, tests["function"])
    if program is None:
        return 0.0
    arguments = json.dumps([given for given, _ in tests["tests"]])
    return float(results(program, tests["function"], arguments) == [e for _, e in tests["tests"]])


def program_of(output: str, function: str) -> str | None:
    r"""The first fenced block that defines the function, or the code that stands bare.

    >>> program_of("Sure:\n```python\ndef f(n):\n    return n\n```\nIt is.", "f")
    'def f(n):\n    return n\n'
    >>> program_of("def f(n):\n    return n\nIt is.", "f")
    'def f(n):\n    return n'
    """
    defines = re.compile(rf"^[ \t]*def {re.escape(function)}\b", re.MULTILINE)
    for block in _FENCED.findall(output):
        if defines.search(block):
            return textwrap.dedent(block)
    bare = dropwhile(lambda line: not _OPENS.match(line), output.splitlines())
    program = "\n".join(takewhile(_GOES_ON.match, bare))
    if not defines.search(program):
        return None
    return program


@cache
def results(program: str, function: str, arguments: str) -> list[Any] | None:
    """What the function returns to each list of arguments (JSON); None where anything goes wrong.

    Equal programs are run once.
    """
    if len(program) > _MAX_PROGRAM:
        return None
    job = {"program": program, "function": function, "arguments": json.loads(arguments)}
    try:
        found = json.loads(_written(json.dumps(job)))
    except (ValueError, RecursionError):
        return None
    if isinstance(found, list):
        return found
    return None


def _written(job: str) -> bytes:
    """What the child writes, until it ends or is ended."""
    command = [sys.executable, "-P", "-s", "-S", boxed.__file__]
    with TemporaryDirectory() as folder, TemporaryFile("w+", encoding="ascii") as given:
        given.write(job)
        given.seek(0)
        child = subprocess.Popen(  # noqa: S603 - our own command
            command,
            cwd=folder,
            env={"PYTHONHASHSEED": "0"},  # sets have one order in all runs
            stdin=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        with child:
            timer = Timer(_SECONDS, _end, [child.pid])
            timer.start()
            try:
                assert child.stdout is not None  # noqa: S101 - it is a pipe
                return child.stdout.read(_MAX_RESULT)
            finally:
                timer.cancel()
                _end(child.pid)


def _end(group: int) -> None:
    with suppress(ProcessLookupError, PermissionError):  # it has ended
        os.killpg(group, signal.SIGKILL)


@cache
def check_held() -> None:
    """Try what a child promises not to do.

    Raises:
        ValueError: it can do it here, or can run nothing.
    """
    if not _runs("len([])"):
        raise ValueError("programs cannot be judged here: a child process can run none")
    for what, line in _TRIALS.items():
        if _runs(line):
            raise ValueError(f"programs are not judged here: a child {what}, which it is not to do")


def _runs(line: str) -> bool:
    return results(f"def trial():\n    {line}", "trial", "[[]]") is not None
