"""How far chance in the samples moves a confidence."""

from dataclasses import replace

import numpy as np
import pytest

from app.scoring.derive import Evidence
from app.scoring.questions import Subject
from app.scoring.resampling import confidence_interval
from models.calibration import ALL
from models.estimators import known_estimators
from tests.made_calibrators import calibration, calibrator
from tests.results import a_plan, sequence

SAMPLES = tuple(sequence(text, 1) for text in "abcdefghij")


def interval(primary="inconsistency", similarity=(), calibrated=True, answer_sample=None):
    made = None
    if calibrated:
        made = calibrator({ALL: {primary: calibration()}})
    plan = a_plan(primary=primary, calibrator=made)
    statistics = {"similarity": np.array(similarity), "answer_token_logprobs": np.array([-1.0])}
    subject = Subject(SAMPLES[0], answer_sample, SAMPLES)
    return confidence_interval(plan, Evidence(subject, statistics, {}, False))


def test_samples_that_agree_leave_no_doubt_and_others_that_of_as_many_throws_of_a_coin():
    assert interval(similarity=[1.0] * 10) == (1.0, 1.0)
    assert interval(similarity=[0.0] * 10) == (0.875, 0.875)
    low, high = interval(similarity=[1.0, 0.0] * 5)
    # 90 % of ten throws show three to seven heads, or two to eight.
    one = calibration()
    assert one.confidence(0.8) <= low <= one.confidence(0.7)
    assert one.confidence(0.3) <= high <= one.confidence(0.2)


@pytest.mark.parametrize(
    "fields",
    [{"calibrated": False}, {"primary": "sp"}, {"answer_sample": 0}, {"primary": "slow"}],
    ids=["no confidence", "no samples are read", "the answer is one of them", "a plugin's"],
)
def test_where_samples_move_no_confidence_there_is_no_interval(monkeypatch, fields):
    known = known_estimators()
    monkeypatch.setitem(known, "slow", replace(known["inconsistency"], name="slow"))
    assert interval(similarity=[1.0, 0.0] * 5, **fields) is None
