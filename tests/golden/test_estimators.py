"""Expected values by an independent implementation (see "source" in estimators.json)."""

import json
from pathlib import Path

import numpy as np
import pytest

from models.estimators import ESTIMATORS, found_mass, score

FOLDER = Path(__file__).parent
GOLDEN = json.loads((FOLDER / "estimators.json").read_text())
RAO_BLACKWELL = json.loads((FOLDER / "rao_blackwell.json").read_text())
RAGGED = {"sample_token_logprobs", "sample_token_entropies", "sample_token_relevance"}


def as_statistics(raw):
    def convert(name, value):
        if name in RAGGED:
            return [np.array(row) for row in value]
        return np.array(value) if isinstance(value, list) and name != "sample_texts" else value

    return {name: convert(name, value) for name, value in raw.items()}


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda case: case["name"])
def test_every_estimator_reproduces_its_golden_value(case):
    names = [name for name in ESTIMATORS if name in case["expected"]]
    assert len(names) >= 8

    scores, reasons = score(names, as_statistics(case["statistics"]))

    tolerance = GOLDEN["tolerance"]
    for name in names:
        expected = case["expected"][name]
        if expected is None:
            assert scores[name] is None
            assert reasons[name]
        else:
            assert scores[name] == pytest.approx(expected, rel=tolerance, abs=tolerance), name


@pytest.mark.parametrize("case", RAO_BLACKWELL["cases"], ids=lambda case: case["name"])
def test_every_rao_blackwellised_score_and_its_mass_reproduce_their_golden_value(case):
    of_ours = ("rao_blackwell", "unseen")
    names = [name for name, row in ESTIMATORS.items() if row.family in of_ours]
    statistics = as_statistics(case["statistics"])
    of_mass = ("answer_token_logprobs", "sample_token_logprobs", "sample_texts", "exact_match")

    scores, reasons = score(names, statistics)
    mass = found_mass(**{name: statistics[name] for name in of_mass})

    tolerance = RAO_BLACKWELL["tolerance"]
    expected = pytest.approx(case["expected"], rel=tolerance, abs=tolerance)
    assert scores | {"found_mass": mass} == expected
    assert reasons == {}


def test_every_estimator_has_a_golden_value():
    cases = GOLDEN["cases"] + RAO_BLACKWELL["cases"]
    covered = set().union(*(case["expected"] for case in cases)) - {"found_mass"}

    # They return what they read unchanged; there is nothing to compute.
    assert set(ESTIMATORS) - covered == {"high_semantic_entropy_light", "reasoning_length"}
