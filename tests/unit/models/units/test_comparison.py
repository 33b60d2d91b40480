import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from models.units.comparison import JsonComparer, assign
from models.units.json_values import parse
from models.units.schemas import Rule


@given(
    rows=st.integers(1, 9),
    columns=st.integers(1, 9),
    seed=st.integers(0, 2**32 - 1),
    decimals=st.integers(0, 3),  # few decimals make ties
)
def test_the_sum_of_weights_is_as_large_as_scipys(rows, columns, seed, decimals):
    weights = np.random.default_rng(seed).normal(size=(rows, columns)).round(decimals)

    pairs = assign(weights)

    assert len(pairs) == min(rows, columns)
    assert all(len(set(side)) == len(pairs) for side in zip(*pairs, strict=True))
    best = weights[linear_sum_assignment(weights, maximize=True)].sum()
    assert sum(weights[pair] for pair in pairs) == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("shape", [(40, 60), (60, 40), (50, 50)])
def test_larger_matchings_are_scipys_pair_by_pair(shape):
    weights = np.random.default_rng(7).random(shape)

    rows, columns = linear_sum_assignment(weights, maximize=True)

    assert assign(weights) == list(zip(rows.tolist(), columns.tolist(), strict=True))


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0)])
def test_nothing_is_matched_with_nothing(shape):
    assert assign(np.zeros(shape)) == []


@pytest.mark.parametrize("rule", [Rule(), Rule(exact=True)])
def test_a_composed_letter_and_a_decomposed_one_are_equal_strings(rule):
    answer, sample = parse('["\u00e9t\u00e9"]'), parse('["e\u0301te\u0301"]')
    comparer = JsonComparer({"/0": rule}, lambda first, second: 0.0)
    assert comparer.compare(answer, sample).agreements == {"/0": 1.0}
    assert comparer.compare(answer, parse('["ete"]')).agreements == {"/0": 0.0}
