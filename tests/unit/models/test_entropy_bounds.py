"""Bounds of an entropy of which the likeliest tokens are known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.entropy_bounds import entropy_bounds, mean_bounds


@given(
    st.lists(st.floats(-20, 20), min_size=2, max_size=60),
    st.data(),
)
def test_bounds_hold_the_entropy_however_many_tokens_are_known(logits, data):
    logprobs = np.sort(np.array(logits) - np.logaddexp.reduce(logits))[::-1]
    entropy = -(np.exp(logprobs) * logprobs).sum()
    num_known = data.draw(st.integers(1, len(logits)))
    lower, upper = entropy_bounds(logprobs[:num_known], len(logits))

    assert lower - 1e-9 <= entropy <= upper + 1e-9


def test_a_larger_vocabulary_leaves_more_open():
    known = np.log([0.5, 0.3])
    _, upper = entropy_bounds(known, 100)
    _, larger = entropy_bounds(known, 1000)
    assert larger == pytest.approx(upper + 0.2 * np.log(998 / 98))


def test_an_answer_has_the_mean_of_its_tokens_bounds_and_an_empty_one_none():
    certain, even = np.log([1.0]), np.log([0.5, 0.5])
    assert mean_bounds([certain, even], 2) == pytest.approx((np.log(2) / 2, np.log(2) / 2))
    assert mean_bounds([], 2) is None
