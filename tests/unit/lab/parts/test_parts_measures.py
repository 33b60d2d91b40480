"""Intervals over answers, and what is left while parts are dropped."""

import numpy as np
import pytest

from cocoa_lab.calibration.checking import cross_check
from cocoa_lab.metrics import auroc, bootstrap, prr
from cocoa_lab.parts.measures import clustered, kept_at


def made(num_answers, size, seed=0):
    """Answers of so many parts each, which are right or wrong together and equally sure."""
    rng = np.random.default_rng(seed)
    of_answer = rng.exponential(size=num_answers)
    right = (rng.random(num_answers) < np.exp(-of_answer)).astype(float)
    return np.repeat(of_answer, size), np.repeat(right, size), np.repeat(range(num_answers), size)


def test_where_each_answer_has_one_part_the_interval_is_that_of_the_parts():
    uncertainty, correct, answers = made(150, 1)
    for metric in (prr, auroc):
        found = clustered(metric, uncertainty, correct, answers, num_resamples=1000)
        plain = bootstrap(metric, uncertainty, correct, num_resamples=1000)
        assert found.value == plain.value
        assert found.low == pytest.approx(plain.low, abs=0.03)
        assert found.high == pytest.approx(plain.high, abs=0.03)


def test_parts_that_are_alike_widen_the_interval_as_if_there_were_one():
    uncertainty, correct, answers = made(100, 6)
    found = clustered(auroc, uncertainty, correct, answers, num_resamples=500)
    naive = bootstrap(auroc, uncertainty, correct, num_resamples=500)
    assert (found.high - found.low) / (naive.high - naive.low) == pytest.approx(6**0.5, rel=0.25)


def test_a_metric_that_is_undefined_has_no_interval():
    uncertainty, _, answers = made(20, 2)
    assert clustered(auroc, uncertainty, np.ones(40), answers) is None


def test_what_is_kept_is_counted_by_part_and_by_answer():
    uncertainty = np.array([0.1, 0.9, 0.2, 0.3, 0.8, 0.7])
    correct = np.array([1.0, 0.0, 1.0, 0.0, 1.0, 1.0])
    answers = np.array([0, 0, 1, 1, 2, 2])

    every, half = kept_at(uncertainty, correct, answers, [1.0, 0.5])

    assert (every.share, every.precision, every.respond_ratio) == (1.0, pytest.approx(4 / 6), 1.0)
    assert every.mean_wrong == pytest.approx((0.5 + 0.5 + 0) / 3)
    assert (half.share, half.precision) == (0.5, pytest.approx(2 / 3))
    assert half.mean_wrong == pytest.approx((0 + 0.5 + 0) / 3)
    assert half.respond_ratio == pytest.approx(2 / 3)


def test_a_check_holds_answers_back_as_a_whole():
    uncertainty, correct, answers = made(200, 5)

    by_answer = cross_check(uncertainty, correct, answers).confidence.reshape(200, 5)
    by_part = cross_check(uncertainty, correct).confidence.reshape(200, 5)

    assert (np.ptp(by_answer, axis=1) == 0).all(), "one fold, one curve"
    assert (np.ptp(by_part, axis=1) > 0).any()
