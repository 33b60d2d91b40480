"""What benchmarks store of their rounds."""

from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def report(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import report

    monkeypatch.setattr(report, "_RESULTS", tmp_path)
    monkeypatch.setattr(report, "_commit", lambda: "0123456789ab")
    monkeypatch.setattr(report, "_others_share", lambda: 0.0)
    monkeypatch.setattr(report, "machine", lambda cores: {"cores": cores})
    return report


def measured(report, rounds, values, **settings):
    """The rounds of a part; `values` are what is left to measure, an exception ends the program."""
    left = iter(values)

    def measure(number):
        value = next(left)
        if isinstance(value, BaseException):
            raise value
        return {"ours": float(value), "theirs": 2.0}

    def figures(found):
        return [report.ratio(found, "ours", "theirs", 4.0)]

    stored = report.Report("some", 1, settings)
    return stored.measure("part", rounds, partial(nullcontext, measure), figures)


def test_a_benchmark_that_was_stopped_goes_on_where_it_was(report):
    with pytest.raises(KeyboardInterrupt):
        measured(report, 3, [1, 2, KeyboardInterrupt()])
    found = measured(report, 3, [5])
    assert [values["ours"] for values in found] == [1.0, 2.0, 5.0]


def test_what_was_measured_is_not_measured_again(report):
    measured(report, 2, [1, 2])
    assert len(measured(report, 2, [])) == 2


def test_other_settings_begin_anew(report):
    measured(report, 1, [1], model="one")
    [values] = measured(report, 1, [7], model="other")
    assert values["ours"] == 7.0


def test_each_round_is_printed_and_a_stop_tells_the_figures_so_far(report, capsys):
    with pytest.raises(KeyboardInterrupt):
        measured(report, 3, [6, 10, KeyboardInterrupt()])
    told = capsys.readouterr().out
    assert "part, round 2 of 3" in told
    assert "ours / theirs: 4 x [3, 5], wanted ≤ 4: met" in told


def test_a_limit_that_is_missed_is_told(report):
    assert "NOT MET" in str(report.ratio([{"a": 9.0, "b": 1.0}], "a", "b", 8.0))
    assert "NOT MET" not in str(report.ratio([{"a": 9.0, "b": 1.0}], "a", "b", 8.0, at_least=True))


@pytest.mark.parametrize(("bound", "code"), [("at_least = 3.0", 0), ("at_most = 3.0", 1)])
def test_the_exit_code_tells_whether_ratios_keep_the_bounds_of_the_file(
    report, monkeypatch, tmp_path, capsys, bound, code
):
    bounds = tmp_path / "bounds.toml"
    bounds.write_text(f'[some]\n"a / b" = {{ {bound} }}\n')
    monkeypatch.setattr(report, "_BOUNDS", bounds)
    stored = report.Report("some", 1, {})
    start = partial(nullcontext, lambda number: {"a": 8.0, "b": 2.0})
    stored.measure("part", 1, start, lambda rounds: [report.bounded("some", rounds, "a", "b")])
    assert stored.exit_code == code
    assert ("NOT MET" in capsys.readouterr().out) == bool(code)


def test_sides_take_turns_in_who_goes_first(report):
    order = []
    sides = {name: partial(order.append, name) for name in "ab"}
    for number in range(2):
        report.in_turn(sides, number, rest_s=0)
    assert order == ["a", "b", "b", "a"]


def test_what_a_later_part_needs_is_asked_for_before_anything_is_measured(report):
    report.check_installed(["json"], "install it")
    with pytest.raises(SystemExit, match=r"no_such_package not installed, nothing .*: install it"):
        report.check_installed(["json", "no_such_package"], "install it")
