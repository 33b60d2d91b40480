"""From a collection over the fake engine to a probe that is compared with samples."""

import json
from dataclasses import replace

import numpy as np
import pytest

from cocoa_lab.metrics import Interval
from cocoa_lab.probes.collecting import AnswerQuality
from cocoa_lab.probes.collection import CollectedAnswer
from cocoa_lab.probes.comparing import COUNTERPARTS, SEEN, UNSEEN, Contrast, within_bounds
from cocoa_lab.probes.evaluation import ProbeEvaluationSpec, evaluate_probe
from cocoa_lab.probes.from_collection import TrainingSpec, save, train_probe
from cocoa_lab.probes.notes import num_own_prompts
from cocoa_lab.probes.outputs import write_evaluation
from models.probes.card import ProbeMismatch
from tests.made_collections import collected, made_examples


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    return collected(tmp_path_factory.mktemp("training"), made_examples())


def anew(example):
    return replace(example, id=f"new-{example.id}", prompt=f"New: {example.prompt}")


@pytest.mark.parametrize("target", ["inconsistency", "semantic_entropy"])
def test_a_probe_says_what_it_was_trained_on_and_is_compared_on_other_prompts(
    tmp_path, collection, target
):
    spec = TrainingSpec(target, "small", (2,))
    probe, _ = train_probe(collection, spec, None, lambda epoch: None)
    card = save(probe, tmp_path / "probe")
    measured = map(anew, made_examples(count=40))
    answers = collected(tmp_path / "answers", list(measured), layers=(1, 2, 3))
    right = np.array([float(answer.text == "Paris") for answer in answers.answers])
    quality = AnswerQuality(right, is_binary=True)
    wanted = ProbeEvaluationSpec(
        probe, answers, quality, training=collection, num_resamples=50, seed=0
    )
    epochs = []
    outcome = evaluate_probe(wanted, tmp_path, epochs.append)
    again = evaluate_probe(wanted, tmp_path, lambda epoch: pytest.fail("trained again"))
    write_evaluation(outcome, tmp_path, "cocoa probe evaluate", "p", 0)

    assert epochs
    np.testing.assert_array_equal(again.by_probe[UNSEEN].values, outcome.by_probe[UNSEEN].values)
    assert (card.model_id, card.revision, card.layer, card.tasks) == (
        "fake",
        "1",
        2,
        ("facts", "sums"),
    )
    assert card.compared_by["similarity"] == "fake"
    assert outcome.by_probe.keys() == {SEEN, UNSEEN}
    assert not np.isnan(outcome.by_probe[UNSEEN].values).any()
    assert {one.name for one in outcome.contrasts} == COUNTERPARTS[target].keys()
    assert all(one.differences.keys() == {"facts", "sums", "mean"} for one in outcome.contrasts)
    for one in outcome.contrasts:
        for column, lost in one.differences.items():
            assert lost.value == pytest.approx(one.light[column].value - one.full[column].value)
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["agreement"][SEEN].keys() == {"facts", "sums", "all"}
    assert [one["within_bounds"] for one in results["contrasts"]] == [
        within_bounds(one) for one in outcome.contrasts
    ]
    assert (results["num_own_prompts"], results["notes"]) == (
        0,
        [
            "Fewer than 50 prompts with a quality say little about which estimator is better: "
            "facts 40, sums 40."
        ],
    )
    report = (tmp_path / "report.md").read_text()
    assert "none of them to its own prompts" in report
    assert SEEN in report
    assert UNSEEN in report


def test_a_probe_of_another_model_is_not_compared(tmp_path, collection):
    spec = TrainingSpec("inconsistency", "small", (2,))
    probe, _ = train_probe(collection, spec, None, lambda epoch: None)
    probe.card = replace(probe.card, revision="2")
    quality = AnswerQuality(np.zeros(len(collection.answers)), is_binary=True)
    wanted = ProbeEvaluationSpec(probe, collection, quality, None, 50, 0)
    with pytest.raises(ProbeMismatch):
        evaluate_probe(wanted, tmp_path, lambda epoch: None)


def stored_answers(folder):
    lines = (folder / "answers" / "rows.jsonl").read_text().splitlines()
    return [CollectedAnswer(**json.loads(line)) for line in lines]


def the_probe(collection):
    return train_probe(collection, TrainingSpec("inconsistency", "small", (2,)), None, str)[0]


def measured_on(folder, collection, examples, quality=None, training=None):
    """The outcome, its report and its results."""
    answers = collected(folder / "answers", examples, layers=(1, 2, 3))
    right = np.array([float(answer.text == "Paris") for answer in answers.answers])
    values = right if quality is None else np.full(len(right), quality)
    probe = the_probe(collection)
    save(probe, folder / "probe")
    wanted = ProbeEvaluationSpec(probe, answers, AnswerQuality(values, True), training, 50, 0)
    outcome = evaluate_probe(wanted, folder, lambda epoch: None)
    write_evaluation(outcome, folder, "cocoa probe evaluate", "p", 0)
    results = json.loads((folder / "results.json").read_text())
    return outcome, (folder / "report.md").read_text(), results


def test_a_task_that_the_probe_never_saw_is_announced_and_not_repeated(tmp_path, collection):
    examples = map(anew, made_examples(tasks=("facts", "poems"), count=60))
    outcome, report, results = measured_on(
        tmp_path, collection, list(examples), training=collection
    )
    poems = np.array([answer.task == "poems" for answer in stored_answers(tmp_path)])
    assert np.isnan(outcome.by_probe[UNSEEN].values).tolist() == poems.tolist()
    assert outcome.agreements[SEEN].keys() == {"facts", "poems", "all"}
    assert outcome.agreements[UNSEEN].keys() == {"facts", "all"}
    assert {one.columns for one in outcome.contrasts if one.probe == UNSEEN} == {("facts",)}
    note = "The probe was trained on no prompt of poems: its figures there are those of a task "
    assert note in report
    assert any(one.startswith(note) for one in results["notes"])


def test_only_tasks_that_the_probe_never_saw_are_measured_once(tmp_path, collection):
    examples = made_examples(tasks=("poems",), count=60)
    outcome, _, _ = measured_on(tmp_path, collection, examples, training=collection)
    assert outcome.by_probe.keys() == {SEEN}
    assert not (tmp_path / "left-out").exists()


def test_prompts_of_the_probes_own_collection_are_counted(tmp_path, collection):
    own, others = made_examples(count=10), map(anew, made_examples(count=15))
    _, report, results = measured_on(tmp_path, collection, [*own, *others], training=collection)
    assert results["num_own_prompts"] == 20
    assert "measured on 50 answers, 20 of them to its own prompts" in report
    assert "20 of 50 answers are to prompts that the probe was made with" in report


def test_without_its_collection_nothing_is_said_of_its_own_prompts_but_the_name(
    tmp_path, collection
):
    _, report, results = measured_on(tmp_path, collection, made_examples(count=20))
    assert results["num_own_prompts"] is None
    assert "only its collection (`--collected`) tells" in report
    assert "The probe was made with prompts of this name, p." in report


def test_prompts_are_the_same_by_text_and_by_id_where_a_text_is_not_known(collection):
    def changed(**changes):
        answers = tuple(replace(answer, **changes) for answer in collection.answers)
        return replace(collection, answers=answers)

    assert num_own_prompts(changed(id="other"), collection) == 300
    assert num_own_prompts(changed(prompt_digest="other"), collection) == 0
    assert num_own_prompts(changed(prompt_digest=None), collection) == 300
    assert num_own_prompts(changed(prompt_digest=None, id="other"), collection) == 0
    assert num_own_prompts(collection, changed(prompt_digest=None)) == 300


def test_answers_of_one_quality_are_reported_without_a_verdict(tmp_path, collection):
    _, report, results = measured_on(tmp_path, collection, made_examples(count=60), quality=1.0)
    assert {one["within_bounds"] for one in results["contrasts"]} == {"cannot be judged"}
    assert "facts ranks nothing and is left out of means and claims" in report
    assert "60 right, 0 wrong" in report
    assert "facts (left out): full, light, difference" in report


def contrast(columns=("facts", "mean"), left_out=(), **differences):
    intervals = {name: Interval(np.mean(ends), *ends) for name, ends in differences.items()}
    reasons = dict.fromkeys(left_out, "1 right, 9 wrong")
    return Contrast(SEEN, "cocoa_sp", columns, reasons, {}, {}, intervals)


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        pytest.param(contrast(facts=(-0.05, 0.1), mean=(-0.03, 0.1)), "yes", id="at the bounds"),
        pytest.param(
            contrast(facts=(-0.314, 0.288), mean=(-0.01, 0.0)), "cannot be judged", id="wide"
        ),
        pytest.param(contrast(facts=(0.0, 0.1), mean=(-0.04, 0.0)), "cannot be judged", id="mean"),
        pytest.param(contrast(facts=(-0.2, -0.06), mean=(0.0, 0.1)), "no", id="one below"),
        pytest.param(contrast(facts=(-0.2, -0.05), mean=(0, 0)), "cannot be judged", id="touches"),
        pytest.param(contrast(facts=(-0.2, -0.06), mean=(-0.9, 0.9)), "no", id="below and wide"),
        pytest.param(contrast(), "cannot be judged", id="no differences"),
        pytest.param(contrast(columns=()), "cannot be judged", id="no columns"),
        pytest.param(contrast(facts=(0.0, 0.1)), "cannot be judged", id="one missing"),
        pytest.param(
            contrast(left_out=("facts",), facts=(0.0, 0.0), mean=(0.0, 0.1)),
            "cannot be judged",
            id="one that ranks nothing",
        ),
        pytest.param(
            contrast(left_out=("facts",), facts=(-0.9, -0.8), mean=(0.0, 0.1)),
            "cannot be judged",
            id="a loss on what ranks nothing",
        ),
    ],
)
def test_a_bound_is_kept_or_not_by_the_interval(one, expected):
    assert within_bounds(one) == expected
