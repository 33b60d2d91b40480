"""The candidates for a default by cell, and what the rule says of the best."""

import json

import numpy as np
import pytest

from cocoa_lab.choosing import answers_of, candidates, choose, markdown, mixed
from cocoa_lab.comparison import MEAN, Column, table
from cocoa_lab.metrics import prr
from cocoa_lab.recordings import RecordingHeader, RecordingLog
from tests.unit.lab.test_controls import LENGTHS, RIGHT, a_prompt, results_of

RNG = np.random.default_rng(1)
CORRECT = (RNG.random(300) < 0.5).astype(float)
WRONG = 1 - CORRECT
NOISE = RNG.random((4, 300))


def a_cell(name, **scores):
    return Column(name, CORRECT, is_binary=True, scores=scores)


def test_candidates_are_those_of_the_run_and_the_trials_by_their_formulas():
    column = Column(
        "words",
        np.array([1.0, 0.0, 1.0]),
        is_binary=True,
        scores={
            "sp": np.array([4.0, 2.0, 1.0]),
            "mte": np.array([0.3, np.nan, 0.1]),
            "inconsistency": np.array([0.5, 0.5, 0.2]),
            "rb_inconsistency": np.array([0.5, 1.0, 0.0]),
        },
        num_tokens=np.array([4.0, 1.0, 0.0]),
    )
    found = candidates(column)
    assert found["sp / T^½ * rb_inconsistency"].tolist() == [1.0, 2.0, 0.0]
    # mte ranks them 1.5, 2.5 (missing: the least certain), .5; inconsistency 2, 2, .5.
    assert found["ranks of mte and inconsistency"].tolist() == [1.75, 2.25, 0.5]
    assert "rb_inconsistency" not in found


def test_of_cells_that_are_mixed_as_many_answers_are_drawn_of_each():
    long = Column("long", CORRECT, True, {"sp": np.full(300, 9.0)}, np.full(300, 20.0))
    short = Column("short", CORRECT[:50], True, {"sp": np.full(50, 1.0)}, np.full(50, 2.0))
    both = mixed("mixed", [long, short])
    assert len(both.quality) == 100
    assert sorted(both.scores["sp"].tolist()) == [1.0] * 50 + [9.0] * 50
    assert mixed("alone", [short]).quality.tolist() == CORRECT[:50].tolist()


def test_a_winner_holds_that_is_above_the_baselines_and_loses_little_anywhere():
    good, fair = WRONG + 0.9 * NOISE[0], 0.3 * WRONG + NOISE[1]
    baselines = {"sp": fair, "mte": 0.2 * WRONG + NOISE[2], "inconsistency": 0.2 * WRONG + NOISE[3]}
    verdict = choose(
        table(prr, [a_cell("a", **baselines, x=good), a_cell("b", **baselines, x=good)])
    )
    assert (verdict.winner, verdict.holds) == ("x", True)
    assert verdict.not_worse == ["x"]
    there = {"sp": WRONG, "mte": fair, "inconsistency": fair, "x": WRONG + 1.6 * NOISE[0]}
    poor_there = choose(table(prr, [a_cell("a", **baselines, x=good), a_cell("b", **there)]))
    assert poor_there.winner == "x"
    assert not poor_there.holds
    assert list(poor_there.losses) == ["b"]
    same = baselines | {"sp": good, "x": good}
    alike = choose(table(prr, [a_cell("a", **same), a_cell("b", **same)]))
    assert alike.not_above == ["sp"]
    assert {"sp", "x"} <= set(alike.not_worse)


def test_the_table_has_a_row_for_each_candidate_the_best_first():
    prrs = table(prr, [a_cell("a", sp=WRONG, mte=NOISE[0]), a_cell("b", sp=WRONG, mte=NOISE[0])])
    rows = markdown(prrs).splitlines()
    assert rows[0] == "|  | a | b | mean | against the first |"
    assert rows[2].startswith("| `sp` | **1.000** | **1.000** | **1.000** | +.000 [+.000, +.000]")
    assert prrs[MEAN]["mte"].value == pytest.approx(prr(NOISE[0], CORRECT))


def test_a_run_is_read_without_what_ranks_nothing(tmp_path):
    scores = 1 - RIGHT + 0.1 * RNG.random(len(RIGHT))
    header = results_of(tmp_path, scores)["header"]
    with RecordingLog(tmp_path / "generations.jsonl", RecordingHeader(**header)) as log:
        for number in range(len(RIGHT)):
            log.put(number, a_prompt(number, 0.0).recording)
    assert list(answers_of(tmp_path).scores) == ["sp"]
    np.testing.assert_allclose(answers_of(tmp_path).scores["sp"], scores)
    np.testing.assert_array_equal(answers_of(tmp_path).quality, RIGHT)
    np.testing.assert_array_equal(answers_of(tmp_path).num_tokens, LENGTHS)
    results = json.loads((tmp_path / "results.json").read_text())
    results["tasks"][0]["left_out"] = {"greedy": "3 right"}
    (tmp_path / "results.json").write_text(json.dumps(results))
    with pytest.raises(ValueError, match="no task ranks anything"):
        answers_of(tmp_path)
