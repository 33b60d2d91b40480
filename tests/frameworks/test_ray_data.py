"""A real Ray asks the service for the answers to a file of prompts, is killed, and goes on.

Only `make test-clients` runs this.
"""

import os
from pathlib import Path

from tests.chaos.cocoa_process import cocoa_serve
from tests.ray_job import PROGRAMS, WITHIN_S, answers_of_two_runs

PYTHON = Path(os.environ.get("COCOA_TEST_RAY", ".venv-ray/bin/python"))
COUNTRIES = ["France", "Italy", "Spain", "Senegal", "Japan", "Peru", "Kenya", "Norway"]
NUM_PROMPTS = 64


def test_killed_and_begun_again_it_answers_each_prompt_once(tmp_path):
    prompts = {}
    for i in range(NUM_PROMPTS):
        prompts[f"q{i}"] = f"{i}. What is the capital of {COUNTRIES[i % len(COUNTRIES)]}?"
    with cocoa_serve(COCOA_NLI__MODEL="") as serving:
        serving.wait_ready(WITHIN_S)
        command = [PYTHON, PROGRAMS / "over_http.py", serving.url]
        responses = answers_of_two_runs(tmp_path, prompts, command)
    for response in responses.values():
        assert response["uncertainty"] is not None
