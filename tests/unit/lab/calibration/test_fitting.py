"""Curves and thresholds: monotone, calibrated on labels that they have not seen, and kept."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from cocoa_lab.calibration.checking import cross_check, risk_coverage
from cocoa_lab.calibration.fitting import (
    DELTA,
    TARGET_ERRORS,
    CannotCalibrate,
    controlled_threshold,
    fit,
    num_missing,
)
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
    assert (confidences[0], confidences[-1]) == (50.5 / 51, 0.5 / 51)
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


def share_broken(population_u, population_y, target, *, count, draws):
    """Share of calibration sets whose threshold lets more than the target through."""
    broken = 0
    for seed in range(draws):
        rows = np.random.default_rng(seed).integers(len(population_u), size=count)
        found = controlled_threshold(population_u[rows], population_y[rows], target)
        if found.uncertainty is not None:
            accepted = population_u <= found.uncertainty
            broken += 1 - population_y[accepted].mean() > target
    return broken / draws


@pytest.mark.parametrize("target", TARGET_ERRORS)
def test_over_a_thousand_draws_from_the_testbed_the_promise_is_broken_in_at_most_delta(target):
    broken = share_broken(SCORES, CORRECT, target, count=1000, draws=1000)
    assert broken <= binom.ppf(0.975, 1000, DELTA) / 1000


@pytest.mark.parametrize("target", [0.05, 0.2])
def test_on_made_scores_the_promise_is_kept_and_not_by_accepting_nothing(target):
    population = made(20_000, seed=1)
    assert (
        share_broken(*population, target, count=2000, draws=200)
        <= binom.ppf(0.975, 200, DELTA) / 200
    )
    found = controlled_threshold(*made(2000), target)
    assert found.uncertainty is not None
    assert found.share_wrong <= target


def test_a_few_confident_mistakes_do_not_end_the_search():
    uncertainty = np.arange(1000.0)
    correct = np.ones(1000)
    correct[:20] = 0  # the surest ones
    correct[600:] = 0

    found = controlled_threshold(uncertainty, correct, 0.1)

    assert found.share_accepted == 0.6
    assert found.share_wrong == pytest.approx(20 / 600)


def test_how_many_labels_are_missing_is_told_where_more_would_do():
    uncertainty = np.arange(100.0)
    correct = np.ones(100)
    correct[60:] = 0

    by_target = {one.target_error: one for one in fit(uncertainty, correct).thresholds}

    assert by_target[0.1].uncertainty is not None
    assert by_target[0.1].labels_missing is None
    missing = by_target[0.02].labels_missing
    assert missing % 100 == 0
    more = np.tile(uncertainty, 1 + missing // 100), np.tile(correct, 1 + missing // 100)
    assert controlled_threshold(*more, 0.02).uncertainty is not None


def test_where_no_number_of_labels_will_do_none_is_told():
    uncertainty = np.arange(100.0)
    correct = np.tile([1.0, 1.0, 1.0, 0.0], 25)

    assert num_missing(uncertainty, correct, 0.1) is None


def test_too_few_labels_promise_nothing():
    uncertainty, _ = made(100)
    assert controlled_threshold(uncertainty, np.ones(100), 0.01).uncertainty is None
    assert controlled_threshold(uncertainty, np.ones(100), 0.05).uncertainty is not None


def test_where_none_is_right_nothing_is_accepted():
    uncertainty, _ = made(1000)
    assert controlled_threshold(uncertainty, np.zeros(1000), 0.2).uncertainty is None


def test_each_label_is_checked_by_a_curve_that_has_not_seen_it():
    check = cross_check(SCORES, CORRECT)
    assert check.ece <= 0.03
    assert check.expected < check.ece + 0.02
    assert cross_check(*few(11, 11)) is None, "a part of so few cannot be fitted"


def test_risk_and_coverage_are_counts_at_each_threshold():
    accepted, wrong = risk_coverage(np.array([1.0, 2.0, 2.0, 3.0]), np.array([1.0, 1.0, 0.0, 0.0]))
    assert accepted.tolist() == [0.25, 0.75, 1.0]
    assert wrong.tolist() == pytest.approx([0, 1 / 3, 0.5])
