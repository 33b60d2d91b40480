"""From a collection over the fake engine to a probe that is compared with samples."""

import json
from dataclasses import replace

import numpy as np
import pytest

from app.lab.probes.collecting import AnswerQuality
from app.lab.probes.comparing import COUNTERPARTS, SEEN, UNSEEN, within_bounds
from app.lab.probes.evaluation import ProbeEvaluationSpec, evaluate_probe
from app.lab.probes.from_collection import TrainingSpec, train_probe
from app.lab.probes.outputs import write_evaluation
from models.probes.card import ProbeMismatch
from tests.made_collections import collected, made_examples


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    return collected(tmp_path_factory.mktemp("training"), made_examples())


def anew(example):
    return replace(example, id=f"new-{example.id}", prompt=f"New: {example.prompt}")


@pytest.mark.parametrize("target", ["consistency", "semantic_entropy"])
def test_a_probe_says_what_it_was_trained_on_and_is_compared_on_other_prompts(
    tmp_path, collection, target
):
    spec = TrainingSpec(target, "small", (2,))
    probe, _ = train_probe(collection, spec, None, lambda epoch: None)
    card = probe.save(tmp_path / "probe")
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
    write_evaluation(outcome, tmp_path, "cocoa probe evaluate")

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
        bounds = {"facts": -0.05, "sums": -0.05, "mean": -0.03}
        kept = [lost.value >= bounds[column] for column, lost in one.differences.items()]
        assert within_bounds(one) == all(kept)
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["agreement"][SEEN].keys() == {"facts", "sums", "all"}
    report = (tmp_path / "report.md").read_text()
    assert SEEN in report
    assert UNSEEN in report
    assert {file.name for file in (tmp_path / "plots").iterdir()} >= {
        "light-full.png",
        "predictions.svg",
    }


def test_a_probe_of_another_model_is_not_compared(tmp_path, collection):
    spec = TrainingSpec("consistency", "small", (2,))
    probe, _ = train_probe(collection, spec, None, lambda epoch: None)
    probe.card = replace(probe.card, revision="2")
    quality = AnswerQuality(np.zeros(len(collection.answers)), is_binary=True)
    wanted = ProbeEvaluationSpec(probe, collection, quality, None, 50, 0)
    with pytest.raises(ProbeMismatch):
        evaluate_probe(wanted, tmp_path, lambda epoch: None)
