"""A program of docs/ray that is killed in the middle and begun again."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

PROGRAMS = Path(__file__).parents[1] / "docs/ray"
# On a machine that may have much else to do.
WITHIN_S = 850
# How long Ray waits for its own processes.
_PATIENCE = {"RAY_raylet_start_wait_time_s": "600", "RAY_USAGE_STATS_ENABLED": "0"}


def answers_of_two_runs(
    folder: Path,
    prompts: Mapping[Any, str],
    command: Sequence[Any],
    options: Sequence[str] = (),
    environment: Mapping[str, str] = MappingProxyType({}),
    watch: Callable[[], object] = lambda: None,
) -> dict[Any, Any]:
    """Responses by id; each came once, some of them before the program was killed.

    Args:
        folder: of all files, in which the program runs.
        prompts: by id, a text or a number.
        command: that takes the files as its next arguments.
        options: behind them.
        environment: of it.
        watch: is called now and then while the first run runs.
    """
    lines = [json.dumps({"id": name, "prompt": text}) for name, text in prompts.items()]
    (folder / "prompts.jsonl").write_text("\n".join(lines))
    command = [*command, "prompts.jsonl", "answers", "done", *options]
    with _running(command, environment, folder / "log.txt") as process:
        by = time.monotonic() + WITHIN_S
        while not (list(folder.glob("done/*.parquet")) and list(folder.glob("answers/*"))):
            assert process.poll() is None, (folder / "log.txt").read_text()
            assert time.monotonic() < by
            watch()
            time.sleep(0.05)
        process.kill()
        process.wait()
    assert 0 < len(_answered(folder)) < len(prompts)
    with _running(command, environment, folder / "log.txt") as process:
        assert process.wait(WITHIN_S) == 0, (folder / "log.txt").read_text()
    answered = _answered(folder)
    assert len(answered) == len(prompts)
    responses = {one["id"]: one["response"] for one in answered}
    assert responses.keys() == prompts.keys()
    return responses


def message_of_failure(folder: Path, command: Sequence[Any]) -> str:
    """What the program says as it ends without an answer; later runs with the folder go on."""
    (folder / "prompts.jsonl").write_text('{"id": 1, "prompt": "Who?"}')
    command = [*command, "prompts.jsonl", "answers", "done"]
    with _running(command, {}, folder / "log.txt") as process:
        assert process.wait(WITHIN_S) == 1
    assert not _answered(folder)
    return (folder / "log.txt").read_text()


@contextmanager
def _running(
    command: Sequence[Any], environment: Mapping[str, str], log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """The program, with all that Ray starts for it."""
    with log.open("ab") as file:
        process = subprocess.Popen(
            command,
            stdout=file,
            stderr=file,
            cwd=log.parent,
            env=os.environ | _PATIENCE | environment,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _answered(folder: Path) -> list[dict[str, Any]]:
    """The lines of answers that are written whole."""
    lines = []
    for path in (folder / "answers").glob("*"):
        lines += map(json.loads, path.read_text().splitlines())
    return lines
