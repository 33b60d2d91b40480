"""A batch that is killed again and again, and a service that is: no line lost, none doubled."""

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

from tests.chaos.cocoa_process import cocoa_serve

CLIENT = Path(__file__).parents[2] / "clients" / "python"
NUM_LINES = 300


def begin(given, out, url, *options):
    command = [sys.executable, "-m", "cocoa_client.batch", "-i", given, "-o", out, "--url", url]
    environment = os.environ | {"PYTHONPATH": str(CLIENT)}
    return subprocess.Popen(
        [*command, *options], env=environment, stderr=subprocess.PIPE, text=True
    )


def write_lines(path):
    with path.open("w") as file:
        for number in range(NUM_LINES):
            body = {"prompt": f"Question {number}?", "max_new_tokens": 8, "num_samples": 2}
            if number % 50 == 49:
                body = {"prompt": ""}
            line = {"custom_id": f"q{number}", "url": "/generate-with-uncertainty", "body": body}
            file.write(json.dumps(line) + "\n")


def num_answers(path):
    if not path.exists():
        return 0
    return path.read_bytes().count(b"\n")


def test_a_batch_is_killed_at_every_stage_and_its_service_too(tmp_path):
    given, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    write_lines(given)
    chance = random.Random(0)
    num_kills = 0
    with cocoa_serve(COCOA_GENERATION__ENGINE="fake") as service:
        service.wait_ready()
        port = service.port
        while num_answers(out) < NUM_LINES // 2:
            target = num_answers(out) + chance.randint(0, 40)
            batch = begin(given, out, service.url)
            while batch.poll() is None and num_answers(out) <= target:
                time.sleep(0.002)
            batch.kill()
            batch.communicate()
            num_kills += 1
        batch = begin(given, out, service.url, "--patience-s", "0")
        while num_answers(out) < NUM_LINES * 2 // 3:
            assert batch.poll() is None
            time.sleep(0.002)
        service.popen.kill()
        _, told = batch.communicate(timeout=60)
        assert (batch.returncode, "run the same command to go on" in told) == (1, True), told
    assert num_kills >= 3
    with cocoa_serve(port=port, COCOA_GENERATION__ENGINE="fake") as service:
        service.wait_ready()
        batch = begin(given, out, service.url)
        _, told = batch.communicate(timeout=60)
        told_failed = f"{NUM_LINES // 50} have an error in {out.name}" in told
        assert (batch.returncode, told_failed) == (3, True), told

    answers = [json.loads(line) for line in out.read_text().splitlines()]
    assert sorted(int(one["custom_id"][1:]) for one in answers) == list(range(NUM_LINES))
    for one in answers:
        status = 422 if int(one["custom_id"][1:]) % 50 == 49 else 200
        assert one["response"]["status_code"] == status
