"""Collections on disk, and the way from prompts over the fake engine to a probe.

The probe is then compared with samples.
"""

import asyncio
import json
from dataclasses import replace

import numpy as np
import pytest

from app.lab.datasets import Example
from app.lab.probes.collecting import Collecting, candidate_layers, collect
from app.lab.probes.collection import AnotherCollection, CollectionLog, Header, Row, read
from app.lab.probes.comparing import COUNTERPARTS, SEEN, UNSEEN, within_bounds
from app.lab.probes.from_collection import Training, examples_of, train_probe
from app.lab.probes.outputs import Evaluation, evaluate_probe, write_evaluation
from app.settings import Settings
from models.engines.fake import FakeEngine
from models.engines.protocol import EngineConfig
from models.probes.card import ProbeMismatch
from models.similarity.protocol import NliConfig, SimilarityConfig

SETTINGS = Settings(
    generation=EngineConfig(engine="fake"),
    similarity=SimilarityConfig(name="fake"),
    nli=NliConfig(name="fake_nli", model="fake"),
)
HEADER = Header(
    prompts="prompts.jsonl",
    model="fake",
    revision="1",
    dtype="float64",
    layers=(1, 2),
    dimension=3,
    sampling={"num_samples": 2},
    seed=0,
    compared_by={"similarity": "fake"},
)


def row(number, **changes):
    values = {
        "id": f"p{number}",
        "task": "facts",
        "text": "é",
        "num_tokens": 2,
        "scores": {"consistency": 0.5},
    }
    return Row(**values | changes)


def features(number):
    return np.full((2, 3), number, dtype=np.float32)


def written(folder, numbers, header=HEADER):
    with CollectionLog(folder, header) as log:
        for position, number in enumerate(numbers):
            log.put(position, row(number), features(number))


def test_what_was_put_is_read_in_the_order_of_positions(tmp_path):
    with CollectionLog(tmp_path, HEADER) as log:
        for position in (1, 0, 2):
            log.put(position, row(position), features(position))
    found = read(tmp_path)

    assert found.header == HEADER
    assert [one.id for one in found.rows] == ["p0", "p1", "p2"]
    np.testing.assert_array_equal(found.features[:, 0, 0], [0, 1, 2])


@pytest.mark.parametrize("cut_rows", [0, 5], ids=["whole line", "half line"])
@pytest.mark.parametrize("cut_features", [0, 7], ids=["whole features", "half features"])
def test_a_half_written_answer_is_dropped_and_written_again(tmp_path, cut_rows, cut_features):
    written(tmp_path, [0, 1, 2])
    for name, cut in (("rows.jsonl", cut_rows), ("features.f32", cut_features)):
        data = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(data[: len(data) - cut])
    with CollectionLog(tmp_path, HEADER) as log:
        missing = [number for number in range(4) if f"p{number}" not in log.ids]
        for position, number in enumerate(missing):
            log.put(position, row(number), features(number))
    found = read(tmp_path)

    assert missing == ([3] if not cut_rows and not cut_features else [2, 3])
    assert [one.id for one in found.rows] == ["p0", "p1", "p2", "p3"]
    np.testing.assert_array_equal(found.features[:, 1, 2], [0, 1, 2, 3])


def test_prompts_without_an_answer_are_remembered_and_left_out(tmp_path):
    with CollectionLog(tmp_path, HEADER) as log:
        log.put(0, row(0), features(0))
        log.put(1, row(1, error="prompt_too_long", scores={}), None)
        log.put(2, row(2), features(2))
    with CollectionLog(tmp_path, HEADER) as log:
        assert log.ids == {"p0", "p1", "p2"}
    found = read(tmp_path)

    assert [one.id for one in found.rows] == ["p0", "p2"]
    np.testing.assert_array_equal(found.features[:, 0, 0], [0, 2])


@pytest.mark.parametrize(
    "change", [{"seed": 1}, {"revision": "2"}, {"layers": (1, 3)}], ids=lambda c: next(iter(c))
)
def test_the_collection_of_another_run_is_refused_by_its_first_difference(tmp_path, change):
    written(tmp_path, [0])
    with pytest.raises(AnotherCollection, match=next(iter(change))):
        CollectionLog(tmp_path, replace(HEADER, **change))


def test_a_folder_without_a_collection_is_refused(tmp_path):
    with pytest.raises(AnotherCollection):
        read(tmp_path)
    (tmp_path / "collection.json").write_text(json.dumps({"format": 9}))
    with pytest.raises(AnotherCollection, match="format 1"):
        read(tmp_path)


def examples(tasks=("facts", "sums"), count=150):
    return [
        Example(f"{task}-{i}", task, f"What about {task} number {i}?", ("Paris",), max_new_tokens=8)
        for i in range(count)
        for task in tasks
    ]


def collected(folder, prompts, **changes):
    values = {
        "prompts": "p",
        "examples": prompts,
        "folder": folder,
        "num_samples": 4,
        "seed": 0,
        "layers": None,
    }
    done = []
    asyncio.run(collect(Collecting(**values | changes), SETTINGS, lambda: done.append(1)))
    assert len(done) == len(prompts)
    return read(folder)


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    return collected(tmp_path_factory.mktemp("training"), examples())


def test_a_collection_holds_features_of_every_layer_and_what_samples_showed(collection):
    assert collection.header.layers == (1, 2, 3) == candidate_layers(FakeEngine.num_layers)
    assert collection.features.shape == (300, 3, 8)
    assert {one.task for one in collection.rows} == {"facts", "sums"}
    assert all(0 <= one.scores["consistency"] <= 1 for one in collection.rows)
    assert all(one.scores["semantic_entropy"] is not None for one in collection.rows)


def test_an_interrupted_collection_goes_on_without_asking_again(tmp_path, collection, monkeypatch):
    prompts = examples()[:20]
    collected(tmp_path, prompts[:12])
    asked = []
    generate = FakeEngine.generate

    async def counted(self, request, on_token=None):
        asked.append(request.prompt)
        return await generate(self, request, on_token)

    monkeypatch.setattr(FakeEngine, "generate", counted)
    found = collected(tmp_path, prompts)

    assert set(asked) - {"Hello"} == {example.prompt for example in prompts[12:]}
    assert [one.id for one in found.rows] == [example.id for example in prompts]
    by_id = {one.id: i for i, one in enumerate(collection.rows)}
    for i, one in enumerate(found.rows):
        assert one == collection.rows[by_id[one.id]]
        np.testing.assert_array_equal(found.features[i], collection.features[by_id[one.id]])


def test_a_prompt_that_never_fits_is_recorded_as_such(tmp_path):
    too_long = Example("long", "facts", "word " * 600, ())
    found = collected(tmp_path, [too_long, *examples(count=1)])

    assert [one.id for one in found.rows] == ["facts-0", "sums-0"]
    assert '"error":"prompt_too_long"' in (tmp_path / "rows.jsonl").read_text()


@pytest.mark.parametrize("target", ["consistency", "semantic_entropy"])
def test_a_probe_says_what_it_was_trained_on_and_is_compared_on_other_prompts(
    tmp_path, collection, target
):
    training = Training(target, "small", (2,))
    probe, _ = train_probe(collection, training, None, lambda epoch: None)
    card = probe.save(tmp_path / "probe")
    measured = [
        Example(f"new-{e.id}", e.task, f"New: {e.prompt}", ("Paris",)) for e in examples(count=40)
    ]
    answers = collected(tmp_path / "answers", measured, layers=(1, 2, 3))
    asked = Evaluation(
        probe, answers, measured, collection, "exact_match", num_resamples=50, seed=0
    )
    epochs = []
    outcome = evaluate_probe(asked, tmp_path, epochs.append)
    again = evaluate_probe(asked, tmp_path, lambda epoch: pytest.fail("trained again"))
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
        assert within_bounds(one) == all(
            lost.value >= (-0.03 if column == "mean" else -0.05)
            for column, lost in one.differences.items()
        )
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
    probe, _ = train_probe(
        collection, Training("consistency", "small", (2,)), None, lambda epoch: None
    )
    probe.card = replace(probe.card, revision="2")
    with pytest.raises(ProbeMismatch):
        evaluate_probe(
            Evaluation(probe, collection, examples(), None, None, 50, 0),
            tmp_path,
            lambda epoch: None,
        )


def test_the_target_and_layers_have_to_be_in_the_collection(collection):
    with pytest.raises(ValueError, match="not 7"):
        examples_of(collection, "consistency", (2, 7))
    bare = type(collection)(
        collection.header, (row(0, scores={"consistency": None}),), collection.features[:1]
    )
    with pytest.raises(ValueError, match="no answer"):
        examples_of(bare, "consistency")
