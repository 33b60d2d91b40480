"""Decisions: what passes, what is promised, and what to do with the rest."""

import pytest

from app.scoring.ask import Ask
from app.scoring.decisions import decided, no_decision
from models.calibration import Threshold
from tests.made_calibrators import calibrator

MADE = calibrator()
PROMISE = "at most {percent} are wrong"
KNOWN = Threshold(0.1, 0.7, share_accepted=0.5, share_wrong=0.05)


@pytest.mark.parametrize(
    ("accept", "confidence", "floor", "action", "reason"),
    [
        (True, 0.9, None, "accept", "it passes at a target error of 10 %"),
        (True, 0.3, None, "accept", "it passes at a target error of 10 %"),
        (False, 0.8, None, "verify", "it does not pass, but its confidence is 80 %"),
        (False, 0.5, None, "verify", "it does not pass, but its confidence is 50 %"),
        (False, 0.4999, None, "escalate", "its confidence of 49.99 % is below 50 %"),
        (False, 0.2, 0.1, "verify", "it does not pass, but its confidence is 20 %"),
        (False, 0.2, 0.25, "escalate", "its confidence of 20 % is below 25 %"),
        (False, 0.0, 0.0, "verify", "it does not pass, but its confidence is 0 %"),
        (False, None, 0.0, "escalate", "it does not pass, and nothing is known of its confidence"),
    ],
)
def test_an_answer_passes_or_is_verified_from_a_confidence_on_or_escalated(
    accept, confidence, floor, action, reason
):
    decision = decided(KNOWN, MADE, PROMISE, accept=accept)
    acting = decision.acting(confidence, Ask("?", escalate_below=floor))
    assert (acting.action, acting.reason) == (action, reason)
    assert (acting.accept, acting.threshold, acting.target_error) == (accept, 0.7, 0.1)


def test_the_promise_names_its_terms():
    decision = decided(KNOWN, MADE, PROMISE, accept=True)
    assert decision.guarantee == (
        "at most 10 % are wrong, with probability 0.9 over calibration sets, for prompts like "
        f"those of {MADE.source}"
    )


@pytest.mark.parametrize(
    ("missing", "told"), [(None, ""), (120, "; about 120 more labels are needed")]
)
def test_without_a_threshold_nothing_is_promised(missing, told):
    decision = decided(Threshold(0.05, None, labels_missing=missing), MADE, PROMISE, accept=False)
    none = "no threshold is sure to keep at most 5 % wrong: nothing is accepted"
    assert decision.guarantee == none + told
    assert decision.refused("the answer is empty").guarantee == "the answer is empty: not accepted"


def test_what_nothing_is_calibrated_for_is_escalated():
    decision = no_decision(0.1, "no calibrator")
    assert (decision.accept, decision.action) == (False, "escalate")
    assert decision.guarantee == "no calibrator; nothing is accepted"
