"""Numbers from JSON that nobody vouches for."""

import math

import numpy as np
import pytest

from models.ranges import ENTROPIES, LOGPROBS, PROBABILITIES, number, numbers


@pytest.mark.parametrize("value", [0.0, 0.5, 1.0])
def test_a_float_in_its_range_is_a_number(value):
    assert number(value, PROBABILITIES) == value


@pytest.mark.parametrize(
    "value", [1, True, None, "0.5", [0.5], math.nan, math.inf, -0.1, 1.1], ids=repr
)
def test_anything_else_is_none(value):
    with pytest.raises(ValueError, match=r"from 0\.0 to 1\.0"):
        number(value, PROBABILITIES)


@pytest.mark.parametrize(
    "value", [None, "0.5", True, False, math.nan, math.inf, -0.1, 1.1], ids=repr
)
def test_an_array_with_anything_else_is_none(value):
    with pytest.raises(ValueError, match="no "):
        numbers([0.5, value], (2,), PROBABILITIES)


@pytest.mark.parametrize(
    ("value", "shape"), [([], (0,)), ([0.5], (1,)), ([[0.5, 1.0], [0.0, 0.25]], (2, 2))]
)
def test_lists_of_floats_are_an_array_of_their_shape(value, shape):
    array = numbers(value, shape, PROBABILITIES)
    np.testing.assert_array_equal(array, np.array(value))
    assert (array.shape, array.dtype) == (shape, np.float64)


@pytest.mark.parametrize(
    "value",
    [0.5, [0.5], [0.5] * 3, [[0.5, 0.5]], [[0.5], [0.5, 0.5]], "ab", {"a": 0.5}, None],
    ids=repr,
)
def test_lists_of_another_shape_are_none(value):
    with pytest.raises(ValueError, match="shape"):  # numpy's own word for ragged lists, too
        numbers(value, (2,), PROBABILITIES)


def test_log_probs_and_entropies_are_finite_and_heed_the_rounding_of_float32():
    assert numbers([-1e30, 1e-6], (2,), LOGPROBS)[1] == 1e-6
    assert numbers([-1e-6, 1e30], (2,), ENTROPIES)[0] == -1e-6
    for value, within in ((-math.inf, LOGPROBS), (0.1, LOGPROBS), (-0.1, ENTROPIES)):
        with pytest.raises(ValueError, match="from"):
            number(value, within)
