"""The answers of a run."""

import json

import numpy as np
import pytest

from cocoa_lab.answers import answers_of
from cocoa_lab.recordings import RecordingHeader, RecordingLog
from tests.unit.lab.test_controls import LENGTHS, RIGHT, a_prompt, results_of


def test_a_run_is_read_without_what_ranks_nothing(tmp_path):
    scores = 1 - RIGHT + 0.1 * np.random.default_rng(1).random(len(RIGHT))
    header = results_of(tmp_path, scores)["header"]
    with RecordingLog(tmp_path / "generations.jsonl", RecordingHeader(**header)) as log:
        for number in range(len(RIGHT)):
            log.append(a_prompt(number, 0.0).recording)
    assert list(answers_of(tmp_path).scores) == ["sp"]
    np.testing.assert_allclose(answers_of(tmp_path).scores["sp"], scores)
    np.testing.assert_array_equal(answers_of(tmp_path).quality, RIGHT)
    np.testing.assert_array_equal(answers_of(tmp_path).num_tokens, LENGTHS)
    results = json.loads((tmp_path / "results.json").read_text())
    results["tasks"][0]["left_out"] = {"greedy": "3 right"}
    (tmp_path / "results.json").write_text(json.dumps(results))
    with pytest.raises(ValueError, match="no task ranks anything"):
        answers_of(tmp_path)
