"""Tables in the paper's shape, Markdown, and an HTML page that lets no text become markup."""

import numpy as np
import pytest

from app.lab import report
from app.lab.comparison import Claim, Measured
from app.lab.report import Gallery, Report, Shown
from models.metrics import Interval


def measured(value):
    return Measured(value, np.full(20, value))


def a_table(**columns):
    return {
        task: {name: measured(value) for name, value in row.items()}
        for task, row in columns.items()
    }


def marks(row):
    """What each method's cell carries: B best, S second, ^ above its base."""
    cells = report.marked({name: Interval(value, value, value) for name, value in row.items()})
    flags = {"B": "is_best", "S": "is_second", "^": "beats_base"}
    return {
        name: "".join(flag for flag, field in flags.items() if getattr(cell, field))
        for name, cell in cells.items()
    }


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
            facts={"cocoa_sp": 0.9, "additive_cocoa_sp": 0.2, "sp": 0.5},
            sums={"cocoa_sp": 0.1, "additive_cocoa_sp": 0.2, "sp": 0.5},
        ),
    )
    assert [(line.method, line.group) for line in grid.lines] == [
        ("sp", "baselines"),
        ("cocoa_sp", "CoCoA"),
        ("additive_cocoa_sp", "alternative formulations"),
    ]
    assert [[cell.is_best for cell in line.cells] for line in grid.lines] == [
        [False, True],
        [True, False],
        [False] * 2,
    ]


def test_a_method_without_a_value_leaves_its_cell_empty():
    grid = report.grid("PRR", a_table(facts={"sp": 0.5, "ppl": 0.1}, sums={"sp": 0.5}))
    assert [line.cells[1] is None for line in grid.lines] == [False, True]
    assert "| `ppl` | <u>.100</u> [.100, .100] | - |" in report.markdown(a_report(grids=[grid]))


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


def test_markdown_marks_best_second_arrows_and_intervals():
    row = {"sp": Measured(0.5, np.linspace(0.4, 0.6, 1001)), "cocoa_sp": measured(0.7)}
    text = report.markdown(a_report(grids=[report.grid("PRR, greedy answers", {"facts": row})]))
    assert "| method | facts |" in text
    assert "| `sp` | <u>.500</u> [.405, .595] |" in text
    assert "| `cocoa_sp` | **.700** ↑ [.700, .700] |" in text


HOSTILE = "<script>alert('x')</script> \"quoted\" & | {{ 7 * 7 }}"


def a_report(**changes):
    shown = Shown(HOSTILE, HOSTILE, 1.25, 0.0, (HOSTILE,), ((HOSTILE, 9), ("", 1)))
    claim = Claim(
        "above its base",
        "greedy",
        HOSTILE,
        "cocoa_sp",
        "sp",
        Interval(0.1, -0.05, 0.2),
        "undecided",
    )
    many = Claim(
        "above every baseline",
        "greedy",
        "facts",
        "cocoa_sp",
        "sp",
        Interval(-0.1, -0.2, -0.05),
        "refuted",
        17,
        3,
        1,
    )
    best = Claim(
        "best on average", "greedy", "mean", "cocoa_sp", "sp", Interval(0.1, 0.05, 0.2), "supported"
    )
    fields = {
        "title": HOSTILE,
        "command": f"cocoa evaluate {HOSTILE}",
        "facts": {"model": HOSTILE},
        "tasks": [{"task": HOSTILE, "prompts": "3"}],
        "grids": [report.grid(HOSTILE, a_table(facts={"sp": 0.5, "cocoa_sp": 0.7}))],
        "claims": [claim, many, best],
        "similarity_grids": [],
        "similarity_claims": [],
        "alternative_claims": [claim],
        "galleries": [Gallery(HOSTILE, (shown,), (shown,), (shown,))],
        "estimator": "cocoa_sp",
        "notes": [HOSTILE],
        "plots": {HOSTILE: "<svg></svg>"},
    }
    return Report(**fields | changes)


def test_the_page_escapes_every_text_and_loads_nothing_from_elsewhere():
    page = report.html(a_report())
    assert "<script" not in page
    assert "49" not in page.partition("</style>")[2], "texts are no templates"
    assert page.count("&lt;script&gt;") >= 20
    assert "<svg></svg>" in page
    for word in ("http:", "https:", "src=", "@import", "url("):
        assert word not in page, word


def test_the_page_shows_claims_answers_and_their_samples():
    page = report.html(a_report())
    for text in ("9 \u00d7", "(empty)", "reference:", "3 / 1 of 17", "+.100", "-.050 … +.200"):
        assert text in page, text
    for verdict in ("supported", "refuted", "undecided"):
        assert f'class="verdict {verdict}" title=' in page


def test_markdown_escapes_the_bar_between_cells():
    lines = [
        line
        for line in report.markdown(a_report()).splitlines()
        if "script" in line and line.startswith("| ")
    ]
    assert lines
    assert all("\\|" in line for line in lines)


def test_samples_are_counted_the_most_frequent_first():
    assert report.shown_samples(["a", "b", "b", ""]) == (("b", 2), ("a", 1), ("", 1))
