"""`cocoa evaluate` as a program: results, what it imports, and what it says is missing."""

import json
import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from app.cli import app
from cocoa_lab.calibration.fitting import CannotCalibrate
from cocoa_lab.calibration.labels import read_labels

pytestmark = pytest.mark.usefixtures("undrawn")

FAKE = {
    "COCOA_GENERATION__ENGINE": "fake",
    "COCOA_SIMILARITY__NAME": "fake",
    "COCOA_NLI__NAME": "fake_nli",
    "COCOA_NLI__MODEL": "fake",
}

# All that the fake model answers; "Paris" is one answer in six.
ANYTHING = ["Paris", "It is Paris.", "The capital is Paris.", "Lyon", "I do not know.", ""]


@pytest.fixture
def cocoa():
    """Run `cocoa` over the fake models, without COCOA_ variables of the machine."""
    unset = {name: None for name in os.environ if name.upper().startswith("COCOA_")}

    def run(*arguments, models=FAKE):
        variables = {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"} | unset | models
        return CliRunner().invoke(app, [*map(str, arguments)], env=variables)

    return run


def rows_of(task, count, references=("Paris",)):
    rows = []
    for i in range(count):
        prompt = f"Question {i} of {task}?"
        row = {"id": f"{task}-{i}", "task": task, "prompt": prompt, "references": references}
        rows.append(row)
    return rows


def dataset_of(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


GREEDY = ["--answers", "greedy"]
QUICK = [
    "--estimators",
    "sp,inconsistency,cocoa_sp",
    "--num-samples",
    "4",
    "--num-resamples",
    "200",
]


def test_a_task_that_ranks_nothing_is_said_and_left_out_of_the_mean(tmp_path, cocoa):
    facts, sums = rows_of("facts", 150), rows_of("sums", 150)
    hopeless = [*rows_of("poems", 1, ANYTHING), *rows_of("poems", 60, ["Rome"])[1:]]
    dataset = dataset_of(tmp_path / "made.jsonl", *facts, *sums, *hopeless)
    out = tmp_path / "out"
    result = cocoa("evaluate", dataset, "--out", out, *GREEDY, *QUICK)
    assert result.exit_code == 0, result.output

    results = json.loads((out / "results.json").read_text())
    prrs = results["prr"]["greedy"]
    assert list(prrs) == ["facts", "sums", "poems", "mean", "pooled"]
    controls = results["controls"]["prr"]["greedy"]
    assert set(controls["facts"]) == set(controls["pooled"]) == {"length", "equal_texts"}
    for name, value in prrs["mean"].items():
        both = prrs["facts"][name]["value"], prrs["sums"][name]["value"]
        assert value["value"] == pytest.approx(sum(both) / 2)
    undefined = results["undefined_resamples"]["greedy"]
    assert undefined["facts"] == undefined["sums"] == 0
    assert 40 < undefined["poems"] < 110  # (59 / 60)^60 = .365 of 200
    assert [task["left_out"] for task in results["tasks"]] == [
        None,
        None,
        {"greedy": "1 right, 59 wrong"},
    ]
    assert not [claim for claim in results["claims"] if claim["column"] == "poems"]
    contained = next(note for note in results["notes"] if "contain a reference" in note)
    told = [
        "poems ranks nothing and is left out of means and claims, as there are fewer than 10 "
        "right or 10 wrong answers, or one quality throughout: 1 right, 59 wrong (greedy).",
        "Means are over facts, sums alone.",
        "poems: PRR is undefined on resamples of equal quality, which are left out of its "
        f"intervals: {undefined['poems']} (greedy) of 200.",
        contained,
    ]
    of_controls = [note for note in results["notes"] if "which is no estimator" in note]
    assert results["notes"] == of_controls + told
    tables, page = (out / "report.md").read_text(), (out / "report.html").read_text()
    assert "| method | facts | sums | poems (left out) | mean | pooled |" in tables
    for text in (tables, page):
        assert "poems (left out)" in text
        assert "equal_texts" in text
        for note in told:
            assert note in text
    for note in told:
        assert f"note: {note}" in result.stdout
    best = max(prrs["mean"], key=lambda name: prrs["mean"][name]["value"])
    assert results["recommendation"]["estimator"] == best
    first_words = tables.partition("## Recommendation\n\n")[2].partition("\n\n## ")[0]
    assert best in first_words
    assert "that it is surest of, " in first_words
    assert first_words in result.stdout
    assert first_words in page


def test_answers_that_contain_their_reference_are_counted_and_the_tolerant_measure_offered(
    tmp_path, cocoa
):
    rows = [*rows_of("facts", 60), *rows_of("sums", 60, ["Rome"])]
    dataset = dataset_of(tmp_path / "made.jsonl", *rows)
    exact, tolerant = tmp_path / "exact", tmp_path / "tolerant"
    result = cocoa("evaluate", dataset, "--out", exact, *GREEDY, *QUICK)
    lines = [json.loads(line) for line in (exact / "scores.jsonl").read_text().splitlines()]
    texts = [line["text"] for line in lines]
    contained = sum("Paris" in text and text != "Paris" for text in texts[:60])
    assert contained > 10
    note = f"{contained} of 120 answers contain a reference without being equal to it"
    assert f"note: {note}, and count as wrong: consider --quality contains." in result.stdout
    assert note in (exact / "report.md").read_text()

    result = cocoa("evaluate", dataset, "--out", tolerant, "--quality", "contains", *GREEDY, *QUICK)
    assert result.exit_code == 0, result.output
    assert "without being equal" not in result.stdout
    facts = json.loads((tolerant / "results.json").read_text())["tasks"][0]
    assert facts["quality"] == "contains"
    assert facts["mean_quality"]["greedy"] == sum("Paris" in text for text in texts[:60]) / 60


def test_a_handful_of_prompts_gets_a_note_and_no_mean(tmp_path, cocoa):
    dataset = dataset_of(tmp_path / "made.jsonl", *rows_of("facts", 6), *rows_of("sums", 2))
    result = cocoa("evaluate", dataset, "--out", tmp_path / "out", *QUICK)
    assert result.exit_code == 0, result.output
    assert "Fewer than 50 prompts with a quality say little" in result.stdout
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert all("mean" not in table for table in results["prr"].values())


def test_results_are_not_replaced_by_a_smaller_or_another_run(tmp_path, cocoa):
    dataset, out = dataset_of(tmp_path / "made.jsonl", *rows_of("facts", 24)), tmp_path / "out"
    once = ["evaluate", dataset, "--out", out, *GREEDY, *QUICK]
    assert cocoa(*once, "--limit", 12).exit_code == 0
    assert cocoa(*once).exit_code == 0, "a larger run"
    assert cocoa(*once, "--rescore", "--answers", "mbr").exit_code == 0, "one as large"
    before = (out / "results.json").read_bytes()
    (out / "generations.jsonl").rename(out / "moved.jsonl")
    refused = {
        "has 24 prompts, this run only 12": ["--limit", 12],
        "has seed = 0, this run has 1": ["--seed", 1],
        "has num_samples = '4', this run has '3'": ["--num-samples", 3],
    }
    for reason, options in refused.items():
        result = cocoa(*once, *options)
        assert (result.exit_code, reason in result.stderr) == (1, True), result.stderr
        assert "--force" in result.stderr
    assert not (out / "generations.jsonl").exists(), "refused before anything was generated"
    assert (out / "results.json").read_bytes() == before
    assert cocoa(*once, "--limit", 12, "--force").exit_code == 0
    assert json.loads((out / "results.json").read_text())["num_prompts"] == 12


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ([], "no prompt has a generation: prompt_too_long"),
        (["--quality", "fields"], "has a reference that is a JSON object"),
        (["--seed", 2**63], "9223372036854775807"),
    ],
)
def test_what_cannot_be_evaluated_is_said_with_its_reason(tmp_path, cocoa, options, told):
    dataset = dataset_of(tmp_path / "made.jsonl", *rows_of("fact " * 1_000, 2))
    result = cocoa("evaluate", dataset, "--out", tmp_path / "out", *QUICK, *options)
    assert (result.exit_code > 0, told in result.stderr) == (True, True), result.stderr
    assert not (tmp_path / "out" / "results.json").exists()


def test_programs_of_answers_are_not_run_unless_the_command_says_so(tmp_path, cocoa):
    result = cocoa("evaluate", "atlas-code", "--out", tmp_path / "out", *QUICK)
    assert (result.exit_code, "add --quality run_code, which runs" in result.stderr) == (1, True)
    assert not (tmp_path / "out").exists()


def test_results_of_another_model_are_kept_and_the_generations_too(tmp_path, cocoa):
    dataset, out = dataset_of(tmp_path / "made.jsonl", *rows_of("facts", 12)), tmp_path / "out"
    once = ["evaluate", dataset, "--out", out, *GREEDY, *QUICK]
    assert cocoa(*once).exit_code == 0
    results = json.loads((out / "results.json").read_text())
    results["settings"]["revision"] = "2"
    (out / "results.json").write_text(json.dumps(results))
    (out / "generations.jsonl").unlink()
    result = cocoa(*once)
    assert (result.exit_code, "has revision = '2', this run has '1'" in result.stderr) == (1, True)
    assert (out / "generations.jsonl").exists()
    assert cocoa(*once, "--rescore", "--force").exit_code == 0


def test_a_file_without_examples_is_refused_before_any_model_is_loaded(
    tmp_path, cocoa, monkeypatch
):
    monkeypatch.setattr("cocoa_lab.loading.build_workers", lambda *_, **__: pytest.fail("loaded"))
    empty = dataset_of(tmp_path / "empty.jsonl")
    for command in (["evaluate", empty], ["probe", "collect", "--prompts", empty]):
        result = cocoa(*command, "--out", tmp_path / "out")
        assert (result.exit_code, "holds no example" in result.stderr) == (1, True), result.output
    assert not (tmp_path / "out").exists()


def test_the_judges_key_and_a_formula_in_a_tasks_name_do_no_harm(tmp_path, cocoa, monkeypatch):
    task = r"$\frac$ \alpha"
    dataset, out = dataset_of(tmp_path / "made.jsonl", *rows_of(task, 24)), tmp_path / "out"
    arguments = ["evaluate", str(dataset), "--out", str(out), "--judge-key=SECRET"]
    arguments += [*GREEDY, *QUICK]
    monkeypatch.setattr("sys.argv", ["cocoa", *arguments])
    result = cocoa(*arguments)
    assert result.exit_code == 0, result.output
    written = [path for path in out.rglob("*") if path.is_file() and path.suffix != ".png"]
    assert len(written) > 6
    for path in written:
        assert b"SECRET" not in path.read_bytes(), path
    assert "--judge-key=…" in (out / "report.md").read_text()
    assert task in (out / "report.html").read_text()


def test_without_the_extra_the_command_says_what_to_install():
    code = "import sys; sys.modules['matplotlib'] = None; from app.cli import main; main()"
    command = [sys.executable, "-c", code, "evaluate", "testbed", "--out", "never"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert result.returncode == 1
    assert "pip install -e 'lab[evaluation]' in the checkout" in result.stderr
    assert "Traceback" not in result.stderr


def test_answers_are_held_to_the_schema_of_their_line_and_bound_to_it(tmp_path, cocoa):
    schema = {
        "type": "object",
        "properties": {"capital": {"enum": ["Rome", "Paris"]}},
        "required": ["capital"],
        "additionalProperties": False,
    }
    rows = [one | {"json_schema": schema} for one in rows_of("facts", 6, ['{"capital": "Rome"}'])]
    out = tmp_path / "out"
    dataset = dataset_of(tmp_path / "made.jsonl", *rows)
    models = FAKE | {"COCOA_GENERATION__ENGINE": "transformers"}  # the fake one follows no schema
    asked = [*GREEDY, *QUICK]
    result = cocoa("evaluate", dataset, "--out", out, "--quality", "fields", *asked, models=models)
    assert result.exit_code == 0, result.output
    lines = [json.loads(line) for line in (out / "scores.jsonl").read_text().splitlines()]
    for line in lines:
        capital = json.loads(line["text"])["capital"]
        assert line["quality"] == (capital == "Rome")
    assert json.loads((out / "results.json").read_text())["origin"]["schema_use"] == "followed"

    again = cocoa("evaluate", dataset, "--out", out, "--rescore", *asked, "--force")
    assert again.exit_code == 0, again.output

    del rows[0]["json_schema"]
    mixed = dataset_of(tmp_path / "mixed.jsonl", *rows)
    result = cocoa("evaluate", mixed, "--out", tmp_path / "both", *asked, models=models)
    assert result.exit_code == 0, result.output
    with pytest.raises(CannotCalibrate, match="some prompts have a JSON schema"):
        read_labels(tmp_path / "both")


def test_a_run_at_other_temperatures_binds_its_labels_to_them(tmp_path, cocoa):
    dataset, out = dataset_of(tmp_path / "made.jsonl", *rows_of("facts", 60)), tmp_path / "out"
    drawn = ["--temperature", "0.2", "--answer-temperature", "0.5", *QUICK]
    assert cocoa("evaluate", dataset, "--out", out, *drawn).exit_code == 0
    parts, _ = read_labels(out, temperature=0.2)
    bindings = [part.bindings[0] for part in parts]
    assert {binding.temperature for binding in bindings} == {0.2}
    answers = {binding.strategy: binding.answer_temperature for binding in bindings}
    assert answers == {"sample": 0.5, "most_probable": 0.0, "mbr": 0.0}
    assert not any(binding.outdated for binding in bindings)

    assert cocoa("evaluate", dataset, "--out", out, "--rescore", "--force", *drawn).exit_code == 0
    greedy = cocoa("evaluate", dataset, "--out", out, "--rescore", "--force", *QUICK)
    assert "were made with --answer-temperature 0.5" in greedy.output
    for contradicted in (["--answers", "sample"], [*drawn, "--answers", "greedy"]):
        refused = cocoa("evaluate", dataset, "--out", tmp_path / "no", *contradicted)
        assert "greedy answers are made without --answer-temperature" in refused.output

    again = cocoa("evaluate", dataset, "--out", out, "--rescore", "--temperature", "0.7", *QUICK)
    refused = cocoa("evaluate", dataset, "--out", out, "--temperature", "0.7", *QUICK)
    other = cocoa("calibrate", "--results", out, "--out", tmp_path / "c", "--temperature", "0.7")
    assert "was drawn at temperature 0.2" in again.output
    assert 0 not in {again.exit_code, refused.exit_code, other.exit_code}
    assert "was drawn at temperature 0.2" in other.output
