"""A program of docs/ray that is killed in the middle and begun again."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
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
    prompts: Mapping[str, str],
    command: Sequence[Any],
    options: Sequence[str] = (),
    environment: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """Responses by id; each came once, some of them before the program was killed.

    Args:
        folder: of all files.
        prompts: by id.
        command: that takes the files as its next arguments.
        options: behind them.
        environment: of it.
    """
    lines = [json.dumps({"id": name, "prompt": text}) for name, text in prompts.items()]
    (folder / "prompts.jsonl").write_text("\n".join(lines))
    files = [folder / name for name in ("prompts.jsonl", "answers", "done")]
    command = [*command, *files, *options]
    with _running(command, environment, folder / "log.txt") as process:
        by = time.monotonic() + WITHIN_S
        while not (list(folder.glob("done/*.parquet")) and list(folder.glob("answers/*.json"))):
            assert process.poll() is None, (folder / "log.txt").read_text()
            assert time.monotonic() < by
            time.sleep(0.05)
        process.kill()
        process.wait()
    assert 0 < len(_answered(folder)) < len(prompts)
    with _running(command, environment, folder / "log.txt") as process:
        assert process.wait(WITHIN_S) == 0, (folder / "log.txt").read_text()
    answered = _answered(folder)
    assert sorted(one["id"] for one in answered) == sorted(prompts)
    return {one["id"]: json.loads(one["response"]) for one in answered}


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
    for path in (folder / "answers").glob("*.json"):
        lines += map(json.loads, path.read_text().splitlines())
    return lines
