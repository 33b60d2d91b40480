"""A real Ray asks the service for the answers to a file of prompts, is killed, and goes on.

Only `make test-clients` runs this.
"""

import os
import re
import subprocess
from pathlib import Path

from tests.chaos.cocoa_process import PROGRAM, cocoa_serve
from tests.ray_job import PROGRAMS, WITHIN_S, answers_of_two_runs, message_of_failure

PYTHON = Path(os.environ.get("COCOA_TEST_RAY", ".venv-ray/bin/python")).absolute()
COUNTRIES = ["France", "Italy", "Spain", "Senegal", "Japan", "Peru", "Kenya", "Norway"]
NUM_PROMPTS = 64
# Names that look like dates, and numbers.
IDS = [f"2024-01-{i:02}" if i % 2 else i for i in range(NUM_PROMPTS)]


def test_killed_and_begun_again_it_answers_each_prompt_once_and_keeps_the_service_busy(tmp_path):
    prompts = {}
    for i, name in enumerate(IDS):
        prompts[name] = f"{i}. What is the capital of {COUNTRIES[i % len(COUNTRIES)]}?"
    prompts |= {"nothing": "", "more than a body holds": "a" * 1_100_000}
    keys = tmp_path / "keys.toml"
    key = subprocess.check_output(
        [*PROGRAM, "key", "new", "ray", "--file", keys], text=True
    ).strip()
    with cocoa_serve(COCOA_NLI__MODEL="", COCOA_KEYS__FILE=str(keys)) as serving:
        serving.wait_ready(WITHIN_S)
        command = [PYTHON, PROGRAMS / "over_http.py", serving.url]
        assert "401 unauthorized" in message_of_failure(tmp_path, command)
        under_way = [0.0]

        def watch():
            told = serving.get("/metrics").text
            under_way.append(float(re.search(r"\ncocoa_admitted_requests (\S+)", told)[1]))

        environment = {"COCOA_ASK_KEY": key}
        responses = answers_of_two_runs(
            tmp_path, prompts, command, environment=environment, watch=watch
        )
    print(f"{max(under_way):.0f} requests under way at once")
    assert max(under_way) > 16
    refused = [responses.pop(name)["error"]["code"] for name in list(prompts)[-2:]]
    assert refused == ["invalid_request", "body_too_large"]
    for response in responses.values():
        assert response["uncertainty"] is not None
