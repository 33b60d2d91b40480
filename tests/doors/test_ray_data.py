"""A real Ray asks the service for the answers to a file of prompts, is killed, and goes on.

Only `make test-doors` runs this.
"""

import json
import os
import signal
import subprocess
import time
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.chaos.cocoa_process import cocoa_serve

PYTHON = Path(os.environ.get("COCOA_TEST_RAY", ".venv-ray/bin/python"))
PROGRAM = Path(__file__).parents[2] / "docs/ray/over_http.py"
COUNTRIES = ["France", "Italy", "Spain", "Senegal", "Japan", "Peru", "Kenya", "Norway"]
NUM_PROMPTS = 64
# On a machine that may have much else to do.
WITHIN_S = 850
# How long Ray waits for its own processes.
PATIENCE = {"RAY_raylet_start_wait_time_s": "600", "RAY_USAGE_STATS_ENABLED": "0"}


@contextmanager
def asking(url, folder):
    """The program, with all that Ray starts for it."""
    command = [PYTHON, PROGRAM, url, folder / "prompts.jsonl", folder / "answers", folder / "done"]
    with open(folder / "log.txt", "ab") as log:
        running = subprocess.Popen(
            command, stdout=log, stderr=log, env=os.environ | PATIENCE, start_new_session=True
        )
    try:
        yield running
    finally:
        with suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
        running.wait()


def answered(folder):
    """The lines of answers that are written whole."""
    lines = []
    for path in (folder / "answers").glob("*.json"):
        lines += map(json.loads, path.read_text().splitlines())
    return lines


def test_killed_and_begun_again_it_answers_each_prompt_once(tmp_path):
    prompts = []
    for i in range(NUM_PROMPTS):
        country = COUNTRIES[i % len(COUNTRIES)]
        prompts.append({"id": f"q{i}", "prompt": f"{i}. What is the capital of {country}?"})
    (tmp_path / "prompts.jsonl").write_text("".join(json.dumps(one) + "\n" for one in prompts))

    with cocoa_serve(COCOA_NLI__MODEL="") as serving:
        serving.wait_ready(WITHIN_S)
        with asking(serving.url, tmp_path) as running:
            by = time.monotonic() + WITHIN_S
            while not list((tmp_path / "done").glob("*.parquet")):
                assert running.poll() is None, (tmp_path / "log.txt").read_text()
                assert time.monotonic() < by
                time.sleep(0.05)
            running.kill()
            running.wait()
        first = {one["id"] for one in answered(tmp_path)}
        assert 0 < len(first) < NUM_PROMPTS
        with asking(serving.url, tmp_path) as running:
            assert running.wait(WITHIN_S) == 0, (tmp_path / "log.txt").read_text()

    lines = answered(tmp_path)
    assert sorted(one["id"] for one in lines) == sorted(one["id"] for one in prompts)
    for one in lines:
        assert json.loads(one["response"])["uncertainty"] is not None
