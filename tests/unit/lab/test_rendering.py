"""Markdown, and an HTML page that lets no text become markup."""

import numpy as np

from cocoa_lab import rendering, report
from cocoa_lab.claims import Claim
from cocoa_lab.comparison import Measured
from cocoa_lab.metrics import Interval
from cocoa_lab.report import Gallery, Report, Shown


def measured(value):
    return Measured(value, np.full(20, value))


def row(values):
    return {name: measured(value) for name, value in values.items()}


def a_table(**columns):
    return {task: row(values) for task, values in columns.items()}


def test_a_method_without_a_value_leaves_its_cell_empty():
    grid = report.grid("PRR", a_table(facts={"sp": 0.5, "ppl": 0.1}, sums={"sp": 0.5}))
    assert [line.cells[1] is None for line in grid.lines] == [False, True]
    assert "| `ppl` | <u>.100</u> [.100, .100] | - |" in rendering.markdown(a_report(grids=[grid]))


def test_markdown_marks_best_second_arrows_and_intervals():
    row = {"sp": Measured(0.5, np.linspace(0.4, 0.6, 1001)), "cocoa_sp": measured(0.7)}
    text = rendering.markdown(a_report(grids=[report.grid("PRR, greedy answers", {"facts": row})]))
    assert "| method | facts |" in text
    assert "| `sp` | <u>.500</u> [.405, .595] |" in text
    assert "| `cocoa_sp` | **.700** ↑ [.700, .700] |" in text


HOSTILE = "<script>alert('x')</script> \"quoted\" & | {{ 7 * 7 }}"


def a_report(**changes):
    shown = Shown(HOSTILE, HOSTILE, 1.25, 0.0, (HOSTILE,), ((HOSTILE, 9), ("", 1)))
    pair = "cocoa_sp", "sp"
    claim = Claim(
        "above its base", "greedy", HOSTILE, *pair, Interval(0.1, -0.05, 0.2), "undecided"
    )
    counted = Interval(-0.1, -0.2, -0.05), "refuted", 17, 3, 1
    many = Claim("above every baseline", "greedy", "facts", *pair, *counted)
    best = Claim("best on average", "greedy", "mean", *pair, Interval(0.1, 0.05, 0.2), "supported")
    fields = {
        "title": HOSTILE,
        "command": f"cocoa evaluate {HOSTILE}",
        "facts": {"model": HOSTILE},
        "tasks": [{"task": HOSTILE, "prompts": "3"}],
        "methods": [{"method": "`sp`", "what it is": "Sequence probability"}],
        "costs": [{"estimators": HOSTILE}],
        "grids": [report.grid(HOSTILE, a_table(facts={"sp": 0.5, "cocoa_sp": 0.7}))],
        "claims": [claim, many, best],
        "similarity_grids": [],
        "similarity_claims": [],
        "sample_grids": [],
        "sample_claims": [],
        "rao_blackwell_claims": [],
        "alternative_claims": [claim],
        "galleries": [Gallery(HOSTILE, (shown,), (shown,), (shown,))],
        "estimator": "cocoa_sp",
        "notes": [HOSTILE],
        "recommendation": HOSTILE,
        "plots": {HOSTILE: "<svg></svg>"},
    }
    return Report(**fields | changes)


def test_the_page_escapes_every_text_and_loads_nothing_from_elsewhere():
    page = rendering.html(a_report())
    assert "<script" not in page
    assert "49" not in page.partition("</style>")[2], "texts are no templates"
    assert page.count("&lt;script&gt;") >= 20
    assert "<svg></svg>" in page
    for word in ("http:", "https:", "src=", "@import", "url("):
        assert word not in page, word


def test_the_page_shows_claims_answers_and_their_samples():
    page = rendering.html(a_report())
    for text in ("9 \u00d7", "(empty)", "reference:", "3 / 1 of 17", "+.100", "-.050 … +.200"):
        assert text in page, text
    for verdict in ("supported", "refuted", "undecided"):
        assert f'class="verdict {verdict}" title=' in page


def test_markdown_escapes_the_bar_between_cells():
    rows = [line for line in rendering.markdown(a_report()).splitlines() if line.startswith("| ")]
    lines = [line for line in rows if "script" in line]
    assert lines
    assert all("\\|" in line for line in lines)
