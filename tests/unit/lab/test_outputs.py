"""The files of a run whose scores and qualities were made up."""

import csv
import json
import re

import numpy as np
import pytest

from cocoa_lab import exports, outputs
from cocoa_lab.examples import Example
from cocoa_lab.recordings import Recording, RecordingHeader
from cocoa_lab.report import Grid
from cocoa_lab.run import AnswerScores, Cost, Origin, Run, ScoredPrompt, Variant

STRATEGIES = ["greedy", "most_probable", "mbr"]
VARIANTS = [Variant(strategy, "fake", "10") for strategy in STRATEGIES]
VARIANTS += [Variant("greedy", "jaccard", "10")]
VARIANTS += [Variant(strategy, "fake", draw) for draw in ("3", "20") for strategy in STRATEGIES]
ESTIMATORS = ["sp", "ppl", "degmat", "inconsistency", "cocoa_sp", "cocoa_ppl", "additive_cocoa_sp"]
ESTIMATORS += ["rb_cocoa_sp"]
COMPARED = ["inconsistency", "cocoa_sp", "cocoa_ppl", "rb_cocoa_sp"]
NUM_PROMPTS = 48
HEADER = RecordingHeader(
    dataset="made",
    model="fake",
    revision="1",
    seed=3,
    sampling={"num_samples": 2, "temperature": 1.0},
    statistics=("sample_texts",),
    asks_p_true=False,
)

ORIGIN = Origin(
    generator="fake",
    comparers={"fake": "fake pairs"},
    nli=None,
    max_new_tokens=64,
    share_cut=0.0,
    stop=(),
)


def prompt(number, rng):
    task = "facts" if number % 2 else "numbers"
    example = Example(f"{task}-{number}", task, f"Question {number}?", ("Paris",))
    answers = []
    for strategy, similarity, draw in VARIANTS:
        names = ESTIMATORS if similarity == "fake" else COMPARED
        scores = {name: float(rng.random()) for name in names}
        reasons = {}
        if number == 0:
            scores["inconsistency"], reasons["inconsistency"] = None, "no samples"
        answers.append(
            AnswerScores(
                id=example.id,
                strategy=strategy,
                similarity=similarity,
                draw=draw,
                num_samples=int(draw),
                text="Rome",
                sample=None,
                scores=scores,
                reasons=reasons,
            )
        )
    return ScoredPrompt(example, Recording(example.id, example.prompt, None), answers)


def a_run(without_quality, measure_names, **told):
    """Of made-up prompts; those of some numbers or tasks have no quality."""
    rng = np.random.default_rng(0)
    prompts = [prompt(number, rng) for number in range(NUM_PROMPTS)]
    quality = (np.random.default_rng(1).random(NUM_PROMPTS) < 0.5).astype(float)
    for number, one in enumerate(prompts):
        if {number, one.example.task} & set(without_quality):
            quality[number] = np.nan
    return Run(
        header=HEADER,
        prompts=prompts,
        qualities=dict.fromkeys(VARIANTS, quality),
        measure_names=measure_names,
        binary_tasks=frozenset({"facts", "numbers"}),
        origin=ORIGIN,
        **{"num_failed": 0, "errors": [], "models": {}, "speed": {}} | told,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    run = a_run(
        [1],
        {"facts": "exact_match", "numbers": "judge"},
        num_failed=2,
        errors=["prompt_too_long"],
        models={"similarity fake": "fake (1)"},
        speed={"prompts_per_s": 12.34, "seconds": 4.0, "cores": 2},
        foreign=["similarity fake"],
        costs=[Cost(("sar",), ("token_relevance",), 71.2), Cost(("sp", "ppl"), (), 0.3)],
    )
    out = tmp_path_factory.mktemp("out")
    outputs.write(run, out, "cocoa evaluate made", num_resamples=20)
    return out


def test_the_results_hold_every_metric_task_and_strategy(folder):
    results = json.loads((folder / "results.json").read_text())

    assert set(results["prr"]) == set(results["auroc"]) == set(STRATEGIES)
    assert set(results["prr"]["greedy"]) == {"facts", "numbers", "mean", "pooled"}
    assert set(results["prr"]["greedy"]["mean"]) == set(ESTIMATORS)
    assert set(results["similarity"]) == {"fake", "jaccard"}
    assert set(results["similarity"]["fake"]["mean"]) == set(COMPARED)
    assert [task["quality"] for task in results["tasks"]] == ["exact_match", "judge"]
    assert [task["num_prompts"] for task in results["tasks"]] == [24, 24]
    assert {claim["claim"] for claim in results["similarity_claims"]} == {"fake above jaccard"}
    assert results["header"]["seed"] == 3


def test_the_tables_are_written_for_other_programs_and_for_a_paper(folder):
    results = json.loads((folder / "results.json").read_text())
    with (folder / "tables.csv").open(encoding="utf-8", newline="") as file:
        rows = {(row["table"], row["method"], row["column"]): row for row in csv.DictReader(file)}
    row = rows["PRR, greedy answers", "cocoa_sp", "facts"]
    told = results["prr"]["greedy"]["facts"]["cocoa_sp"]
    assert {name: float(row[name]) for name in ("value", "low", "high")} == told

    text = (folder / "tables.tex").read_text()
    assert (
        text.count(r"\begin{tabular}") == text.count(r"\bottomrule") == text.count(r"\end{table}")
    )
    assert r"\caption{PRR, greedy answers}" in text
    [line] = set(re.findall(r"^cocoa\\_sp & .*", text, re.MULTILINE)[:1])
    assert line.endswith(r" \\")
    assert line.count("&") == len(results["prr"]["greedy"])


def test_a_table_of_latex_holds_any_name_of_a_task(tmp_path):
    exports.write_tables([Grid("PRR", ("a\\b {c} ~d^2 & 5 %",), ())], tmp_path)
    written = r"a\textbackslash{}b \{c\} \textasciitilde{}d\textasciicircum{}2 \& 5 \%"
    assert written in (tmp_path / "tables.tex").read_text()


def test_the_first_note_names_a_pair_model_that_does_not_know_the_answers(folder):
    first, *_ = json.loads((folder / "results.json").read_text())["notes"]
    assert first.startswith("similarity fake: the embedded pair model does not know the answers of")
    assert "COCOA_SIMILARITY__MODEL" in first


def test_every_draw_is_compared_with_the_first_under_every_strategy(folder):
    results = json.loads((folder / "results.json").read_text())

    assert set(results["samples"]) == set(STRATEGIES)
    greedy = results["samples"]["greedy"]
    assert list(greedy) == ["10", "3", "20"]
    assert greedy["10"]["prr"] == results["prr"]["greedy"]
    assert {claim["claim"] for claim in results["sample_claims"]} == {
        "samples: 10 above 3",
        "samples: 10 above 20",
    }
    assert {claim["method"] for claim in results["sample_claims"]} == set(COMPARED)
    assert results["settings"]["num_samples"] == "10,3,20"


def test_rao_blackwell_is_compared_with_what_it_is_made_of_everywhere(folder):
    claims = json.loads((folder / "results.json").read_text())["rao_blackwell_claims"]

    assert {(claim["method"], claim["rival"]) for claim in claims} == {("rb_cocoa_sp", "cocoa_sp")}
    assert {claim["strategy"] for claim in claims} == {
        *STRATEGIES,
        *(f"{strategy}, samples {draw}" for strategy in STRATEGIES for draw in ("3", "20")),
        "greedy, jaccard",
    }
    tables, page = (folder / "report.md").read_text(), (folder / "report.html").read_text()
    assert "PRR by samples, mbr answers" in tables
    assert "| method | M = 10 | M = 3 | M = 20 |" in tables
    assert 'id="samples"' in page
    assert 'id="rao-blackwell"' in page


def test_what_is_missing_stands_in_the_notes(folder):
    _, *notes = json.loads((folder / "results.json").read_text())["notes"]
    assert notes == [
        "Fewer than 50 prompts with a quality say little about which estimator is better: "
        "facts 23, numbers 24.",
        "2 prompts have no generation and are left out: prompt_too_long.",
        "inconsistency has no value for 1 prompts, which count as least certain.",
    ]


def test_there_is_a_line_for_each_prompt_strategy_and_similarity_function(folder):
    lines = [json.loads(line) for line in (folder / "scores.jsonl").read_text().splitlines()]

    assert len(lines) == NUM_PROMPTS * len(VARIANTS)
    assert {line["quality"] for line in lines} == {0.0, 1.0, None}
    assert lines[0]["scores"]["inconsistency"] is None
    assert lines[0]["reasons"] == {"inconsistency": "no samples"}


def test_tables_and_page_name_command_and_speed(folder):
    tables, page = (folder / "report.md").read_text(), (folder / "report.html").read_text()

    assert "cocoa evaluate made" in tables
    assert "12.3 prompts a second on 2 cores" in tables
    assert "| sar | token_relevance | 71.2 |\n| sp, ppl | nothing more | 0.3 |" in tables
    assert "<td>sar</td><td>token_relevance</td><td>71.2</td>" in page
    assert len(page) > 10_000
    assert page.count("<svg") == 4, "of the first strategy"
    assert "Ordered by <code>cocoa_sp</code>" in page


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("kind", ["prr", "rejection", "reliability", "samples"])
def test_every_strategy_has_its_plots(folder, strategy, kind):
    paths = (folder / "plots").glob(f"{kind}-{strategy}.*")

    assert {path.suffix for path in paths} == {".png", ".svg"}


@pytest.mark.parametrize("without_quality", [["numbers"], ["facts", "numbers"]], ids=len)
def test_tasks_without_any_quality_do_not_end_the_report(tmp_path, without_quality):
    run = a_run(without_quality, {"facts": "judge", "numbers": "judge"})
    page = outputs.write(run, tmp_path, "cocoa evaluate made", num_resamples=20)

    results = json.loads((tmp_path / "results.json").read_text())
    tasks = {task["task"]: task for task in results["tasks"]}
    assert tasks["numbers"]["mean_quality"]["greedy"] is None
    assert tasks["numbers"]["left_out"]["greedy"] == "no quality"
    assert any("no quality (greedy, most_probable, mbr)" in note for note in page.notes)
    why = "no task ranks anything" if len(without_quality) == 2 else "24 prompts with a quality"
    assert page.recommendation.startswith(f"No estimator is recommended, since {why}")
