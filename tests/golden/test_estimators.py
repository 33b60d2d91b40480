"""Expected values by other implementations (see "source" in the files, and `plain.py` here)."""

import json

import numpy as np
import pytest

from models.estimators import ESTIMATORS, score
from tests.golden.plain import FOLDER, PLAIN, golden_file, in_lines

FILES = [golden_file(name) for name in ("estimators.json", "rao_blackwell.json")]
CASES = [case for golden in FILES for case in golden["cases"]]
TOLERANCE = {"rel": 1e-6, "abs": 1e-6}
RAGGED = {"sample_token_logprobs", "sample_token_entropies", "sample_token_relevance"}

cases = pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])


def as_statistics(raw):
    def convert(name, value):
        if name in RAGGED:
            return [np.array(row) for row in value]
        return np.array(value) if isinstance(value, list) and name != "sample_texts" else value

    return {name: convert(name, value) for name, value in raw.items()}


def defined(scores):
    return {name: value for name, value in scores.items() if value is not None}


@cases
def test_every_estimator_reproduces_its_golden_value(case):
    statistics, expected = as_statistics(case["statistics"]), dict(case["expected"])
    assert len(expected) >= 4

    scores, reasons = score(expected, statistics)

    assert reasons.keys() == {name for name, value in expected.items() if value is None}
    assert defined(scores) == pytest.approx(defined(expected), **TOLERANCE)


@cases
def test_the_plain_implementation_reproduces_every_golden_value(case):
    plain = {name: PLAIN[name](case["statistics"]) for name in case["expected"]}

    assert defined(plain) == pytest.approx(defined(case["expected"]), **TOLERANCE)


def test_every_estimator_has_a_golden_value():
    covered = set().union(*(case["expected"] for case in CASES))

    # They return what they read unchanged; there is nothing to compute.
    assert ESTIMATORS.keys() - covered == {"high_semantic_entropy_light", "reasoning_length"}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_golden_cases_stand_one_a_line(path):
    assert path.read_text() == in_lines(json.loads(path.read_text()))
