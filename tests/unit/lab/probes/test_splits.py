"""Which answers train, and the split of entropies into low and high."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cocoa_lab.probes.splits import best_split, split_of


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.0, 0.1, 0.2, 2.0, 2.2], 1.1),
        ([3.0, 0.0, 0.0, 0.0], 1.5),
        ([0.0, 1.0], 0.5),
        ([0.0, 0.0, 1.0, 1.0, 1.0, 5.0], 3.0),
    ],
)
def test_the_split_minimises_the_squared_error_within_its_groups(values, expected):
    assert best_split(np.array(values)) == pytest.approx(expected)


@given(
    st.lists(st.integers(0, 8), min_size=2, max_size=12).filter(lambda values: len(set(values)) > 1)
)
def test_no_other_split_is_better(values):
    values = np.array(values, dtype=float)

    def error(split):
        groups = values[values > split], values[values <= split]
        return sum(((group - group.mean()) ** 2).sum() for group in groups if len(group))

    assert error(best_split(values)) <= min(map(error, np.arange(-0.5, 9))) + 1e-9


def test_splits_depend_on_the_id_alone_and_are_eight_one_one():
    names = [split_of(f"prompt-{i}") for i in range(5000)]

    assert names == [split_of(f"prompt-{i}") for i in range(5000)]
    assert 0.78 < names.count("training") / 5000 < 0.82
    assert 0.08 < names.count("test") / 5000 < 0.12
