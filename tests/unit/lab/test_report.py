"""Tables in the paper's shape: what is marked, and where a method stands."""

import numpy as np
import pytest

from cocoa_lab import report
from cocoa_lab.comparison import Measured
from cocoa_lab.metrics import Interval


def measured(value):
    return Measured(value, np.full(20, value))


def row(values):
    return {name: measured(value) for name, value in values.items()}


def a_table(**columns):
    return {task: row(values) for task, values in columns.items()}


def marks(row):
    """What each method's cell carries: B best, S second, ^ above its base."""
    flags = {"B": "is_best", "S": "is_second", "^": "beats_base"}
    intervals = {name: Interval(value, value, value) for name, value in row.items()}
    found = {}
    for name, cell in report.marked(intervals).items():
        found[name] = "".join(flag for flag, field in flags.items() if getattr(cell, field))
    return found


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        pytest.param(
            {"sp": 0.5, "cocoa_sp": 0.7, "degmat": 0.6},
            {"sp": "", "cocoa_sp": "B^", "degmat": "S"},
            id="best, second, above its base",
        ),
        pytest.param(
            {"sp": 0.7, "cocoa_sp": 0.6, "mte": 0.1},
            {"sp": "B", "cocoa_sp": "S", "mte": ""},
            id="below its base",
        ),
        pytest.param(
            {"sp": 0.70001, "ppl": 0.70002, "mte": 0.6, "degmat": 0.6, "eigv": 0.1},
            {"sp": "B", "ppl": "B", "mte": "S", "degmat": "S", "eigv": ""},
            id="equal as shown, equally marked",
        ),
        pytest.param(
            {"ppl": 0.2, "cocoa_sp": 0.3, "additive_cocoa_ppl": 0.4, "full_sample_cocoa_ppl": 0.1},
            {"ppl": "", "cocoa_sp": "S", "additive_cocoa_ppl": "B^", "full_sample_cocoa_ppl": ""},
            id="an alternative has a base too; without the base no arrow",
        ),
        pytest.param(
            {"ppl": 0.2, "cocoa_ppl": 0.2},
            {"ppl": "B", "cocoa_ppl": "B"},
            id="equal to its base is not above",
        ),
        pytest.param({"mte": -0.1}, {"mte": "B"}, id="one method"),
        pytest.param({}, {}, id="none"),
    ],
)
def test_best_second_and_what_beats_its_base_are_marked(row, expected):
    assert marks(row) == expected


def test_the_columns_are_marked_each_for_itself_and_methods_stand_in_their_groups():
    grid = report.grid(
        "PRR",
        a_table(
            facts={"cocoa_sp": 0.9, "rb_cocoa_sp": 0.1, "additive_cocoa_sp": 0.2, "sp": 0.5},
            sums={"cocoa_sp": 0.1, "rb_cocoa_sp": 0.1, "additive_cocoa_sp": 0.2, "sp": 0.5},
        ),
    )
    assert [(line.method, line.group) for line in grid.lines] == [
        ("sp", "baselines"),
        ("cocoa_sp", "CoCoA"),
        ("additive_cocoa_sp", "alternative formulations"),
        ("rb_cocoa_sp", "Rao-Blackwellised"),
    ]
    assert [[cell.is_best for cell in line.cells] for line in grid.lines] == [
        [False, True],
        [True, False],
        [False] * 2,
        [False] * 2,
    ]


def test_a_column_that_ranks_nothing_says_so_and_carries_no_marks():
    table = a_table(facts={"sp": 0.5, "cocoa_sp": 0.7}, sums={"sp": 0.5, "cocoa_sp": 1.0})
    grid = report.grid("PRR", table, {"sums"})
    assert grid.columns == ("facts", "sums (left out)")
    by_method = {line.method: line.cells for line in grid.lines}
    assert by_method["cocoa_sp"][0].is_best
    assert by_method["cocoa_sp"][1] == report.Cell(Interval(1.0, 1.0, 1.0))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, ".500"),
        (-0.25, "-.250"),
        (1.0, "1.000"),
        (0.0, ".000"),
        (-1.5, "-1.500"),
        (0.9999, "1.000"),
    ],
)
def test_numbers_have_three_digits_and_no_zero_before_the_point(value, text):
    assert report.number(value) == text
