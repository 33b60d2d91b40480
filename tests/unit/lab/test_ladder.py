"""What runs of the ladder say of each form, and the table of all."""

import json
import lzma
from dataclasses import replace

import numpy as np
import pytest

from cocoa_lab import ladder
from cocoa_lab.atlas.questions import FORMS
from cocoa_lab.comparison import Column
from cocoa_lab.datasets import ATLAS, ATLAS_OF_PARTS
from cocoa_lab.ladder import DEFAULT, Form, rung, table
from cocoa_lab.overwriting import GENERATIONS, RESULTS
from cocoa_lab.plots import answered_figure

PRR = {"value": 0.5, "low": 0.4, "high": 0.6}
LEAD = {"value": 0.1, "low": -0.1, "high": 0.3}


def of_parts(tmp_path, **changes):
    metrics = {"cocoa_root_sp": {"prr": PRR}, "sp": {"prr": {**PRR, "value": 0.4}, "lead": LEAD}}
    found = {"primary": "cocoa_root_sp", "num_parts": 40, "num_right": 30, "metrics": metrics}
    (tmp_path / RESULTS).write_text(json.dumps(found | changes))
    return rung(Form("atlas-json", 130, "fields"), tmp_path)


def test_of_parts_the_run_itself_says_what_its_own_default_is_worth(tmp_path):
    one = of_parts(tmp_path)

    assert (one.num_answers, one.share_right) == (40, 0.75)
    assert (one.prr[DEFAULT].value, one.lead["sp"].low) == (0.5, -0.1)
    row = table([one]).splitlines()[-1]
    assert row.startswith("| `atlas-json` | 40 | .750 | - | .500 [.400, .600] | .400 [")
    assert row.endswith("| +.100 [-.100, +.300] `sp` |")


def test_the_last_row_is_the_mean_of_forms_with_a_lead(tmp_path):
    one = of_parts(tmp_path)
    documents = of_parts(tmp_path, metrics={"ungrounded": {"prr": PRR}})
    row = table([one, documents, one]).splitlines()[-1]
    assert row.startswith("| `mean of 2` | 80 | .750 | - | .500 [.429, .571] | .400 [")
    assert row.endswith("| +.100 [-.041, +.241] `sp` |")
    assert len(table([one, documents]).splitlines()) == 4


def test_answers_at_a_temperature_have_rows_and_no_part_in_the_mean(tmp_path):
    one = of_parts(tmp_path)
    drawn = replace(one, form=Form("atlas", 150, answer_temperature=0.2))
    rows = table([one, drawn, one]).splitlines()
    assert rows[3].startswith("| `atlas-at-0.2` | 40 | ")
    assert rows[-1].startswith("| `mean of 2` | ")


def test_over_documents_the_score_is_that_of_documents(tmp_path):
    metrics = {"ungrounded": {"prr": PRR, "lead": LEAD}, "sp": {"prr": PRR, "lead": LEAD}}
    one = of_parts(tmp_path, metrics={"cocoa_root_sp": {"prr": None}, **metrics})

    assert one.prr[DEFAULT].value == 0.5
    assert one.lead == {}


def test_of_whole_answers_the_default_leads_by_resamples_of_its_own_prompts(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    wrong = (rng.random(200) < 0.4).astype(float)
    scores = {DEFAULT: wrong + rng.random(200), "sp": rng.random(200)}
    column = Column("atlas", 1 - wrong, is_binary=True, scores=scores)
    monkeypatch.setattr(ladder, "answers_of", lambda folder, of_every_task: column)

    one = rung(Form("atlas", 900), tmp_path)

    assert (one.num_answers, one.share_right) == (200, column.mean_quality)
    assert one.prr.keys() == {DEFAULT, "sp"}
    surest = np.argsort(scores[DEFAULT])[:100]
    assert one.by_halves[0] == pytest.approx(1 - wrong[surest].mean())
    assert one.by_halves[0] > one.by_halves[1]
    assert one.lead["sp"].low > 0
    assert one.lead["sp"].value == pytest.approx(one.prr[DEFAULT].value - one.prr["sp"].value)


def test_what_ranks_nothing_is_no_row(tmp_path, monkeypatch):
    scores = {DEFAULT: np.arange(50.0)}
    column = Column("atlas", np.arange(50) < 9, is_binary=True, scores=scores)
    monkeypatch.setattr(ladder, "answers_of", lambda folder, of_every_task: column)
    assert rung(Form("atlas", 900), tmp_path) is None
    assert of_parts(tmp_path, metrics={"cocoa_root_sp": {"prr": None}}) is None


def test_every_form_is_one_that_evaluate_knows_and_asks_once():
    assert len({form.name for form in ladder.FORMS}) == len(ladder.FORMS) == 15
    assert {form.dataset for form in ladder.FORMS} == {*ATLAS, *ATLAS_OF_PARTS}
    assert {*FORMS, "atlas-code"} == set(ATLAS)
    assert {form.dataset for form in ladder.FORMS if form.units} == set(ATLAS_OF_PARTS)


def test_answers_at_a_temperature_are_drawn_at_it(tmp_path):
    form = Form("atlas", 150, answer_temperature=0.2)
    command = ladder._command(form, tmp_path, "10", is_recorded=False)
    assert command[-4:] == ["--answers", "sample", "--answer-temperature", "0.2"]


def test_programs_are_run_only_where_the_form_is_named(tmp_path, monkeypatch):
    commands = []
    monkeypatch.setattr(ladder.subprocess, "run", lambda command, check: commands.append(command))
    ladder.main(tmp_path, num_samples="10", is_read=False)
    assert len(commands) == len(ladder.FORMS) - 2
    assert not any("run_code" in command for command in commands)

    commands.clear()
    ladder.main(tmp_path, only=["atlas-code"], num_samples="10", is_read=False)
    [command] = commands
    assert command[-4:] == ["--quality", "run_code", "--answers", "greedy"]


@pytest.mark.parametrize("is_read", [True, False])
def test_a_finished_run_is_read_and_others_are_run_only_where_asked(tmp_path, monkeypatch, is_read):
    run = []
    monkeypatch.setattr(ladder.subprocess, "run", lambda command, **_: run.append(command))
    (tmp_path / "atlas-documents").mkdir()
    of_parts(tmp_path / "atlas-documents")

    ladder.main(tmp_path, ["atlas-documents", "atlas-call"], "10,5", is_read)

    assert [command[2] for command in run] == ([] if is_read else ["atlas-call"])
    assert all(command[-4:] == ["--limit", "130", "--units", "fields"] for command in run)


def test_the_share_that_is_right_is_drawn_by_the_share_answered(tmp_path, monkeypatch):
    wrong = np.arange(60) % 3 == 0
    column = Column("atlas", 1.0 - wrong, is_binary=True, scores={DEFAULT: wrong + 0.0})
    monkeypatch.setattr(ladder, "answers_of", lambda folder, of_every_task: column)
    drawn = []

    def drawing(columns, name):
        figure = answered_figure(columns, name)
        for axes in figure.axes:
            [line, mean] = axes.get_lines()
            drawn.append((axes.get_title("left"), line.get_xydata(), mean.get_ydata()[0]))
        return figure

    monkeypatch.setattr(ladder, "answered_figure", drawing)
    for form in ("atlas", "atlas-persona"):
        (tmp_path / form).mkdir()
        (tmp_path / form / "results.json").write_text("{}")
    ladder.main(tmp_path, ["atlas", "atlas-persona"], "10", is_read=True)

    assert [title for title, _, _ in drawn] == ["few words (60)", "persona (60)"]
    for _, points, mean in drawn:
        assert mean == pytest.approx(2 / 3)
        assert points[0] == pytest.approx([1.0, 2 / 3])
        assert points[points[:, 0] < 2 / 3 - 1e-9, 1] == pytest.approx(1.0)
    assert (tmp_path / "answered.svg").exists()


def test_what_was_recorded_is_scored_in_place_of_a_model(tmp_path, monkeypatch):
    run, out = [], tmp_path / "out"
    monkeypatch.setattr(ladder.subprocess, "run", lambda command, **_: run.append(command))
    (tmp_path / "atlas-turn.jsonl.xz").write_bytes(lzma.compress(b"written\n"))

    ladder.main(out, num_samples="10", recorded=tmp_path, is_read=False, without=["mte"])

    [command] = run
    assert (command[2], command[-2]) == ("atlas-turn", "--estimators")
    assert command[-1].split(",") == [DEFAULT, *(one for one in ladder.RIVALS if one != "mte")]
    assert {"--rescore", "greedy"} <= {*command}
    assert "--limit" not in command
    assert (out / "atlas-turn" / GENERATIONS).read_bytes() == b"written\n"
