"""vLLM and the scores in one job of a real Ray, which is killed and goes on."""

import pytest

from models.embedded import LANGUAGE_MODEL_DIR
from tests.ray_job import PROGRAMS, answers_of_two_runs
from tests.vllm import reference
from tests.vllm.server import ENVIRONMENT, PYTHON

NUM_PROMPTS = 64
WITHIN = 1e-3
ENGINE = '{"dtype": "float32", "enforce_eager": true}'


def test_killed_and_begun_again_it_writes_each_answer_once_with_its_scores(tmp_path):
    prompts = reference.testbed_prompts(NUM_PROMPTS)
    ids = [f"q{i}" for i in range(NUM_PROMPTS)]
    command = [PYTHON, PROGRAMS / "in_one_job.py", LANGUAGE_MODEL_DIR]
    named = dict(zip(ids, prompts, strict=True))
    responses = answers_of_two_runs(tmp_path, named, command, [ENGINE], ENVIRONMENT)
    for name, case in zip(ids, reference.cases(prompts), strict=True):
        result, answer = responses[name]["result"], case.expected.answer
        assert result["text"] == answer.text
        assert result["scores"]["sp"] == pytest.approx(-answer.token_logprobs.sum(), abs=WITHIN)
        assert result["uncertainty"] is not None
        assert result["provenance"]["num_samples"] == 10
        assert "model" not in result["provenance"]
