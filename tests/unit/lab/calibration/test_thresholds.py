"""Thresholds keep what they promise, of answers and of the parts of answers."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from cocoa_lab.calibration.fitting import TARGET_ERRORS, fit
from cocoa_lab.calibration.thresholds import (
    DELTA,
    controlled_threshold,
    num_missing,
    steps_of_answers,
    steps_of_parts,
)

TESTBED = json.loads((Path(__file__).parents[3] / "data" / "testbed_scores.json").read_text())
SCORES, CORRECT = np.array(TESTBED["cocoa_sp"]), np.array(TESTBED["correct"], dtype=float)


def made(count, seed=0):
    """Uncertainties, and correctness of probability exp(-u²)."""
    rng = np.random.default_rng(seed)
    uncertainty = rng.exponential(0.5, count)
    return uncertainty, (rng.random(count) < np.exp(-(uncertainty**2))).astype(float)


def share_broken(population_u, population_y, target, *, count, draws):
    """Share of calibration sets whose threshold lets more than the target through."""
    broken = 0
    for seed in range(draws):
        rows = np.random.default_rng(seed).integers(len(population_u), size=count)
        found = controlled_threshold(
            steps_of_answers(population_u[rows], population_y[rows]), target
        )
        if found.uncertainty is not None:
            accepted = population_u <= found.uncertainty
            broken += 1 - population_y[accepted].mean() > target
    return broken / draws


@pytest.mark.parametrize("target", TARGET_ERRORS)
def test_over_a_thousand_draws_from_the_testbed_the_promise_is_broken_in_at_most_delta(target):
    broken = share_broken(SCORES, CORRECT, target, count=1000, draws=1000)
    assert broken <= binom.ppf(0.975, 1000, DELTA) / 1000


def test_a_few_confident_mistakes_do_not_end_the_search():
    uncertainty = np.arange(1000.0)
    correct = np.ones(1000)
    correct[:20] = 0  # the surest ones
    correct[600:] = 0

    found = controlled_threshold(steps_of_answers(uncertainty, correct), 0.1)

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
    assert controlled_threshold(steps_of_answers(*more), 0.02).uncertainty is not None


def test_a_looser_target_needs_no_more_labels_than_a_stricter_one():
    correct = np.ones(60)
    correct[6::3] = 0

    missing = [one.labels_missing for one in fit(np.arange(60.0), correct).thresholds]
    assert missing == [None, None, 480, 480, 60]


def test_where_no_number_of_labels_will_do_none_is_told():
    uncertainty = np.arange(100.0)
    correct = np.tile([1.0, 1.0, 1.0, 0.0], 25)

    assert num_missing(steps_of_answers(uncertainty, correct), 0.1) is None


@pytest.mark.parametrize("count", [60, 150, 270, 600])
@pytest.mark.parametrize("seed", range(12))
def test_a_looser_target_accepts_at_least_what_a_stricter_one_does(count, seed):
    accepted = []
    for one in fit(*made(count, seed)).thresholds:
        assert (one.labels_missing is None) | (one.uncertainty is None)
        accepted.append(one.share_accepted or 0.0)

    assert accepted == sorted(accepted)


def test_a_target_that_finds_nothing_of_its_own_takes_the_threshold_of_a_stricter_one():
    uncertainty, correct = np.arange(270.0), np.tile([1.0, 0.0], 135)
    correct[:27] = 1  # with the looser target more are looked at first, and many of these are wrong
    strict, loose = fit(uncertainty, correct).thresholds[-2:]

    assert controlled_threshold(steps_of_answers(uncertainty, correct), 0.2).uncertainty is None
    assert strict.share_accepted == 0.1
    assert loose == replace(strict, target_error=0.2)


def test_too_few_labels_promise_nothing():
    uncertainty, _ = made(100)
    assert (
        controlled_threshold(steps_of_answers(uncertainty, np.ones(100)), 0.01).uncertainty is None
    )
    assert (
        controlled_threshold(steps_of_answers(uncertainty, np.ones(100)), 0.05).uncertainty
        is not None
    )


def made_parts(num_answers, seed=0):
    """Uncertainty, correctness and answer of 1 to 8 parts each; parts of one answer are alike."""
    rng = np.random.default_rng(seed)
    answers = np.repeat(np.arange(num_answers), rng.integers(1, 9, num_answers))
    uncertainty = rng.exponential(0.3, num_answers)[answers] + rng.exponential(0.3, len(answers))
    correct = rng.random(len(answers)) < np.exp(-(uncertainty**2))
    return uncertainty, correct.astype(float), answers


def mean_share_wrong(uncertainty, correct, answers, threshold):
    """By definition, one answer after another."""
    losses = []
    for answer in np.unique(answers):
        kept = (answers == answer) & (uncertainty <= threshold)
        losses.append((1 - correct[kept]).mean() if kept.any() else 0.0)
    return np.mean(losses)


def test_the_loss_of_parts_is_the_mean_over_answers_of_the_wrong_among_the_kept():
    parts = made_parts(40)
    steps = steps_of_parts(*parts)
    for level, loss, pooled in zip(steps.uncertainty, steps.loss, steps.pooled, strict=True):
        kept = parts[0] <= level
        assert loss == pytest.approx(mean_share_wrong(*parts, level))
        assert pooled == pytest.approx(1 - parts[1][kept].mean())
    assert (steps.num_labels, steps.num_answers) == (len(parts[0]), 40)
    assert steps.accepted[-1] == steps.num_labels


def test_over_a_thousand_draws_of_answers_the_promise_of_parts_is_broken_in_at_most_delta():
    """Answers are drawn whole, since their parts are alike."""
    population = made_parts(4000, seed=1)
    uncertainty, correct, answers = population
    of_answer = np.split(np.arange(len(answers)), np.flatnonzero(np.diff(answers)) + 1)
    levels = np.quantile(uncertainty, np.linspace(0, 1, 201))
    true_loss = [mean_share_of_population(*population, level) for level in levels]
    broken, found_any = dict.fromkeys(TARGET_ERRORS, 0), dict.fromkeys(TARGET_ERRORS, 0)
    for seed in range(1000):
        drawn = np.random.default_rng(seed).integers(len(of_answer), size=300)
        rows = np.concatenate([of_answer[answer] for answer in drawn])
        sizes = [len(of_answer[answer]) for answer in drawn]
        steps = steps_of_parts(uncertainty[rows], correct[rows], np.repeat(range(300), sizes))
        for target in TARGET_ERRORS:
            found = controlled_threshold(steps, target)
            if found.uncertainty is not None:
                found_any[target] += 1
                broken[target] += np.interp(found.uncertainty, levels, true_loss) > target
    for target in TARGET_ERRORS:
        assert broken[target] <= binom.ppf(0.975, 1000, DELTA)
    assert found_any[0.1] == found_any[0.2] == 1000, "not by accepting nothing"


def mean_share_of_population(uncertainty, correct, answers, threshold):
    kept = uncertainty <= threshold
    num_kept = np.bincount(answers, kept)
    return (np.bincount(answers, kept * (1 - correct)) / np.maximum(num_kept, 1)).mean()


@given(st.integers(1, 400), st.floats(0, 1), st.sampled_from(TARGET_ERRORS), st.integers(0, 10**6))
def test_p_values_of_parts_are_those_of_the_formula(num_answers, share, target, seed):
    answers = np.arange(num_answers)
    correct = (np.random.default_rng(seed).random(num_answers) > share).astype(float)
    steps = steps_of_parts(np.zeros(num_answers), correct, answers)
    loss = float(1 - correct.mean())

    def divergence(p, q):
        first = p * math.log(p / q) if p else 0.0
        return first + ((1 - p) * math.log((1 - p) / (1 - q)) if p < 1 else 0.0)

    hoeffding = math.exp(-num_answers * divergence(min(loss, target), target))
    bentkus = math.e * binom.cdf(math.ceil(num_answers * steps.loss[0]), num_answers, target)
    assert steps.p_values(target)[-1] == pytest.approx(min(hoeffding, bentkus, 1.0))


def test_answers_of_one_part_are_promised_no_more_than_whole_answers():
    """The exact test of counts is never weaker than the bound of means."""
    uncertainty, correct = made(1500)
    whole = steps_of_answers(uncertainty, correct)
    parts = steps_of_parts(uncertainty, correct, np.arange(1500))
    exact = binom.cdf(whole.wrong[-1], 1500, TARGET_ERRORS)
    bound = [parts.p_values(target)[-1] for target in TARGET_ERRORS]
    assert (exact <= np.array(bound) + 1e-12).all()


def test_parts_are_fitted_with_the_curve_of_all_and_the_promise_of_answers():
    uncertainty, correct, answers = made_parts(400)
    fitted = fit(uncertainty, correct, answers)
    one = fitted.threshold(0.1)
    loss = mean_share_wrong(uncertainty, correct, answers, one.uncertainty)
    assert loss == pytest.approx(one.share_wrong)
    assert one.share_wrong < 0.1
    assert one.share_pooled == pytest.approx(1 - correct[uncertainty <= one.uncertainty].mean())
    assert fitted.num_labels == len(correct)
    assert fit(uncertainty, correct).threshold(0.1).share_pooled is None


def test_how_many_parts_are_missing_is_told_where_more_would_do():
    steps = steps_of_parts(np.arange(40.0), np.ones(40), np.repeat(range(10), 4))
    assert controlled_threshold(steps, 0.1).uncertainty is None
    missing = num_missing(steps, 0.1)
    times = 1 + missing // 40
    more = np.tile(np.arange(40.0), times), np.ones(40 * times), np.arange(40 * times) // 4
    assert controlled_threshold(steps_of_parts(*more), 0.1).uncertainty is not None
