"""Prompts over fake models to a collection, with hidden states and what samples showed."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from cocoa_lab.examples import Example
from cocoa_lab.probes.collecting import candidate_layers, collect_and_measure
from cocoa_lab.probes.from_collection import TrainingSpec, train_probe
from cocoa_lab.quality import QUALITY
from models.probes.card import SENTENCE_POOLING, ProbeMismatch
from models.similarity.protocol import NliConfig
from tests.aligned import align_scores
from tests.fakes.engine import FakeEngine
from tests.fakes.pair_models import FakeNliModel
from tests.made_collections import SETTINGS, collected, collection_spec, made_examples


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    return collected(tmp_path_factory.mktemp("collected"), made_examples())


@pytest.fixture
def prompts_seen(monkeypatch):
    """Prompts that the fake engine generated for, but the warm-up's."""
    seen = []
    prepare = FakeEngine.prepare

    def noted(self, request, *, streams=False):
        if request.prompt != "Hello":
            seen.append(request.prompt)
        return prepare(self, request, streams=streams)

    monkeypatch.setattr(FakeEngine, "prepare", noted)
    return seen


def test_a_collection_holds_features_of_every_layer_and_what_samples_showed(collection):
    assert collection.header.layers == (1, 2, 3) == candidate_layers(FakeEngine().info.num_layers)
    assert collection.features.shape == (300, 3, 8)
    assert {one.task for one in collection.answers} == {"facts", "sums"}
    assert all(0 <= one.scores["inconsistency"] <= 1 for one in collection.answers)
    assert all(one.scores["semantic_entropy"] is not None for one in collection.answers)


def test_an_interrupted_collection_goes_on_without_asking_again(tmp_path, collection, prompts_seen):
    examples = made_examples()[:20]
    collected(tmp_path, examples[:12])
    prompts_seen.clear()
    found = collected(tmp_path, examples)

    assert set(prompts_seen) == {example.prompt for example in examples[12:]}
    assert [one.id for one in found.answers] == [example.id for example in examples]
    by_id = {one.id: i for i, one in enumerate(collection.answers)}
    for i, one in enumerate(found.answers):
        assert one == collection.answers[by_id[one.id]]
        np.testing.assert_array_equal(found.features[i], collection.features[by_id[one.id]])


def test_a_prompt_that_never_fits_is_recorded_as_such(tmp_path):
    too_long = Example("long", "facts", "word " * 600, ())
    found = collected(tmp_path, [too_long, *made_examples(count=1)])

    assert [one.id for one in found.answers] == ["facts-0", "sums-0"]
    assert '"error":"prompt_too_long"' in (tmp_path / "rows.jsonl").read_text()


def test_answers_are_measured_while_the_models_run_each_by_the_measure_of_its_task(tmp_path):
    examples = [Example("long", "facts", "word " * 600, ("Paris",)), *made_examples(count=3)]
    measures = {"facts": QUALITY["align"], "sums": QUALITY["exact_match"]}
    spec = collection_spec(tmp_path, examples)
    quality = asyncio.run(collect_and_measure(spec, measures, SETTINGS, lambda: None))
    answers = collected(tmp_path, examples).answers

    assert [one.task for one in answers] == ["facts", "sums"] * 3
    for answer, value in zip(answers[::2], quality.values[::2], strict=True):
        assert [value] == align_scores(FakeNliModel(), [("Paris", answer.text)])
    assert quality.values[1::2].tolist() == [one.text == "Paris" for one in answers[1::2]]
    assert not quality.is_binary


def test_a_measure_without_the_nli_model_that_it_needs_is_refused_before_anything_is_collected(
    tmp_path, prompts_seen
):
    settings = SETTINGS.model_copy(update={"nli": NliConfig(model="")})
    spec = collection_spec(tmp_path / "never", made_examples(count=2))
    measures = {"facts": QUALITY["align"], "sums": QUALITY["exact_match"]}
    with pytest.raises(ValueError, match="needs a pair model"):
        asyncio.run(collect_and_measure(spec, measures, settings, lambda: None))

    assert prompts_seen == []
    assert not (tmp_path / "never").exists()


@pytest.mark.parametrize(
    ("change", "named"),
    [({"revision": "2"}, "revision"), ({"dimension": 9}, "dimension"), ({"layer": 4}, "layer 4")],
    ids=["revision", "dimension", "layer"],
)
def test_another_models_probe_is_refused_before_anything_is_collected(
    tmp_path, collection, prompts_seen, change, named
):
    probe, _ = train_probe(collection, TrainingSpec("inconsistency", "small", (2,)), None, str)
    spec = collection_spec(tmp_path / "never", made_examples(count=2))
    card = replace(probe.card, **change)
    with pytest.raises(ProbeMismatch, match=named):
        asyncio.run(collect_and_measure(spec, {}, SETTINGS, lambda: None, card))

    assert prompts_seen == []
    assert not (tmp_path / "never").exists()


def test_sentences_are_collected_under_the_id_of_their_answer_and_a_probe_learns_from_them(
    tmp_path,
):
    found = collected(tmp_path, made_examples(), units="sentences")

    assert found.header.pooling == SENTENCE_POOLING
    assert found.features.shape == (len(found.answers), 3, 8)
    for one in found.answers:
        assert one.scores.keys() == {"sentence_inconsistency", "sp", "mte"}
        assert 0 <= one.scores["sentence_inconsistency"] <= 1
        assert one.text.endswith(("Paris", ".", "Lyon"))
    probe, _ = train_probe(
        found, TrainingSpec("sentence_inconsistency", "small", (2,)), None, lambda epoch: None
    )
    assert probe.card.pooling == SENTENCE_POOLING
    with pytest.raises(ValueError, match="no answer of the collection has a inconsistency"):
        train_probe(found, TrainingSpec("inconsistency", "small", (2,)), None, lambda epoch: None)
