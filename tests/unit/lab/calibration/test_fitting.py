"""Curves and thresholds: monotone, calibrated on labels that they have not seen, and kept."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cocoa_lab.calibration.checking import cross_check, risk_coverage
from cocoa_lab.calibration.fitting import CannotCalibrate, fit
from cocoa_lab.metrics import ece

TESTBED = json.loads((Path(__file__).parents[3] / "data" / "testbed_scores.json").read_text())
SCORES, CORRECT = np.array(TESTBED["cocoa_sp"]), np.array(TESTBED["correct"], dtype=float)


def made(count, seed=0):
    """Uncertainties, and correctness of probability exp(-u²)."""
    rng = np.random.default_rng(seed)
    uncertainty = rng.exponential(0.5, count)
    return uncertainty, (rng.random(count) < np.exp(-(uncertainty**2))).astype(float)


@pytest.mark.parametrize(("count", "method"), [(100, "platt"), (400, "platt"), (401, "isotonic")])
def test_few_labels_get_a_logistic_curve_and_more_an_isotonic_one(count, method):
    assert fit(*made(count)).method == method


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 10**6),
    st.sampled_from([40, 150, 700]),
    st.sampled_from([lambda u: u, lambda u: -1 / (1 + u), lambda u: u.round(1)]),
)
def test_confidence_never_rises_and_stays_a_probability(seed, count, transform):
    uncertainty, correct = made(count, seed)
    try:
        fitted = fit(transform(uncertainty), correct)
    except CannotCalibrate:
        assume(False)
    assert (np.diff(fitted.knots) > 0).all()
    assert (np.diff(fitted.confidences) <= 0).all()
    assert ((fitted.confidences >= 0) & (fitted.confidences <= 1)).all()
    assert (np.diff(fitted.quantiles) >= 0).all()


def in_answers(num_answers, seed):
    """Parts, five an answer, which are right or wrong together more than their scores tell."""
    rng = np.random.default_rng(seed)
    uncertainty = rng.exponential(0.5, 5 * num_answers)
    answers = np.repeat(np.arange(num_answers), 5)
    share_right = np.exp(-(uncertainty**2) * rng.gamma(1.0, size=num_answers)[answers])
    return uncertainty, (rng.random(len(answers)) < share_right).astype(float), answers


def test_confidence_of_parts_follows_chance_less_than_one_isotonic_curve_does():
    known, right, _ = in_answers(4000, 10**6)
    truth = fit(known, right)
    alone, together = [], []
    for seed in range(10):
        uncertainty, correct, answers = in_answers(120, seed)
        at = uncertainty.clip(known.min(), known.max())
        exact = np.interp(at, truth.knots, truth.confidences)
        for errors, curve in (
            (alone, fit(uncertainty, correct)),
            (together, fit(uncertainty, correct, answers)),
        ):
            told = np.interp(at, curve.knots, curve.confidences)
            errors.append(np.abs(told - exact).mean())
            assert (np.diff(curve.confidences) <= 0).all()
    assert np.mean(together) < 0.9 * np.mean(alone)
    assert len(curve.knots) <= 101


@pytest.mark.parametrize(("count", "most"), [(200, 0.06), (400, 0.055), (1200, 0.03)])
def test_confidence_holds_on_the_testbeds_other_prompts(count, most):
    errors = []
    for seed in range(20):
        order = np.random.default_rng(seed).permutation(len(SCORES))
        fitted, shown = order[:count], order[-900:]
        curve = fit(SCORES[fitted], CORRECT[fitted])
        confidence = [curve.confidence(one) for one in SCORES[shown]]
        errors.append(ece(confidence, CORRECT[shown]))
    assert np.mean(errors) <= most


def test_classes_that_separate_still_give_a_finite_curve():
    uncertainty = np.linspace(0, 1, 60)
    fitted = fit(uncertainty, (uncertainty < 0.5).astype(float))
    assert 0 < fitted.confidences.min() < fitted.confidences.max() < 1


def test_no_confidence_is_0_or_1_and_the_ends_tell_the_outer_twentieths():
    uncertainty = np.linspace(0, 1, 1000)
    confidences = fit(uncertainty, (uncertainty < 0.5).astype(float)).confidences
    assert (confidences[0], confidences[-1]) == pytest.approx((50.5 / 51, 0.5 / 51), abs=1e-6)
    for seed in range(20):
        confidences = fit(*made(1000, seed)).confidences
        assert 0 < confidences.min() < confidences.max() < 1


def test_held_out_answers_of_the_testbed_have_a_small_log_loss():
    losses = []
    for seed in range(10):
        order = np.random.default_rng(seed).permutation(len(SCORES))
        curve = fit(SCORES[order[:1200]], CORRECT[order[:1200]])
        confidence = np.array([curve.confidence(one) for one in SCORES[order[1200:]]])
        right = CORRECT[order[1200:]] == 1
        losses.append(-np.log(np.where(right, confidence, 1 - confidence)).mean())
    assert np.mean(losses) < 0.45  # infinite where a wrong answer has a confidence of 1


def few(right, wrong):
    return np.linspace(0, 1, right + wrong), np.repeat([1.0, 0.0], [right, wrong])


BAD = {
    "a constant score": (np.zeros(100), made(100)[1], "the same for all"),
    "one class only": (*few(100, 0), "100 right and 0 wrong"),
    "ten labels": (*few(5, 5), "at least 10 of each"),
    "NaN": (np.array([np.nan, *made(99)[0]]), made(100)[1], "not a finite number"),
    "infinity": (np.array([np.inf, *made(99)[0]]), made(100)[1], "not a finite number"),
    "the wrong way round": (-made(300)[0], made(300)[1], "not more often right"),
    "the wrong way round, many": (-made(900)[0], made(900)[1], "not more often right"),
}


@pytest.mark.parametrize(("uncertainty", "correct", "why"), BAD.values(), ids=list(BAD))
def test_what_cannot_be_calibrated_says_why(uncertainty, correct, why):
    with pytest.raises(CannotCalibrate, match=why):
        fit(uncertainty, correct)


def test_each_label_is_checked_by_a_curve_that_has_not_seen_it():
    check = cross_check(SCORES, CORRECT)
    assert check.ece <= 0.03
    assert check.expected < check.ece + 0.02
    assert cross_check(*few(11, 11)) is None, "a part of so few cannot be fitted"


def test_risk_and_coverage_are_counts_at_each_threshold():
    accepted, wrong = risk_coverage(np.array([1.0, 2.0, 2.0, 3.0]), np.array([1.0, 1.0, 0.0, 0.0]))
    assert accepted.tolist() == [0.25, 0.75, 1.0]
    assert wrong.tolist() == pytest.approx([0, 1 / 3, 0.5])
