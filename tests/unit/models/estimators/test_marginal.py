import numpy as np
import pytest

from models.estimators import Undefined
from models.estimators.marginal import marginal_cocoa_sp, marginal_rb_consistency, marginal_sp


def test_the_probability_is_the_mean_over_reasonings_and_not_of_log_probs():
    logprobs = np.log([[0.9, 0.1], [0.05, 0.7]])

    assert marginal_sp(logprobs) == pytest.approx(-np.log(0.5))


def test_an_answer_sure_behind_every_reasoning_has_no_uncertainty():
    logprobs, similarity = np.zeros((1, 3)), np.ones(4)

    assert marginal_sp(logprobs) == 0.0
    assert marginal_rb_consistency(logprobs, np.ones(1), similarity) == 0.0
    assert marginal_cocoa_sp(logprobs, np.ones(1), similarity) == 0.0


def test_what_was_not_found_is_estimated_by_consistency():
    logprobs, of_answers = np.full((2, 2), -2000.0), np.array([1.0, 0.3])

    assert marginal_sp(logprobs) == pytest.approx(2000)
    assert marginal_rb_consistency(logprobs, of_answers, np.array([0.3, 1.0])) == pytest.approx(
        0.35
    )


def test_rounding_above_one_takes_nothing_off():
    logprobs = np.log([[0.6], [0.4000001]])

    value = marginal_rb_consistency(logprobs, np.array([1.0, 0.5]), np.array([0.0]))

    assert value == pytest.approx(0.20000005, abs=1e-12)


def test_without_another_finished_sample_it_is_undefined():
    with pytest.raises(Undefined, match="no other sample finished"):
        marginal_sp(np.empty((1, 0)))
    with pytest.raises(Undefined, match="no samples"):
        marginal_rb_consistency(np.zeros((1, 1)), np.ones(1), np.array([]))
