"""Labels of parts of answers: by path or by span, of an answer that told them."""

import json

import numpy as np
import pytest

from app.plugins.labels.protocol import FeedbackConfig, PartLabel
from cocoa_lab.calibration.calibrating import calibrate, to_json
from cocoa_lab.calibration.feedback import read_feedback, stored_labels
from tests.conftest import serving
from tests.fakes import engine
from tests.fakes.engine import _pseudo

pytestmark = pytest.mark.anyio

INVOICE = '{"number": "A-117", "total": 118.5, "lines": [{"a/b": "paper"}]}'


@pytest.fixture
def config(tmp_path):
    return FeedbackConfig(path=str(tmp_path / "labels.jsonl"))


@pytest.fixture
async def collecting(anyio_backend, config, monkeypatch):
    """The service over a model that writes an invoice, with labels in a file."""
    monkeypatch.setattr(engine, "_ANSWERS", (INVOICE,) * 6)
    async with serving(feedback=config) as running:
        yield running


async def answered(service, **body):
    return (await service.generate(**{"seed": 1, "units": "fields"} | body)).json()


async def label(service, answer_id, **body):
    return await service.client.post("/feedback", json={"id": answer_id, **body})


async def test_parts_are_labelled_by_path_and_by_span_and_kept_with_their_scores(
    collecting, config
):
    answer = await answered(collecting)
    number, total, name = answer["units"][1:]
    said = [{"path": "/lines/0/a~1b", "correct": False}, {"span": total["span"], "correct": True}]
    response = await label(collecting, answer["id"], units=said, task="invoices")

    assert response.json() == {"id": answer["id"], "quality": None, "units": 2, "task": "invoices"}
    [one] = stored_labels(config.path, config).labels
    labelled = [(part.part, part.correct) for part in one.parts]
    assert labelled == [(2, False), (1, True)]
    for i, unit in enumerate((number, total, name)):
        assert one.answer.parts[i].scores == pytest.approx(unit["scores"])
    assert (one.answer.parts_binding.unit, one.answer.parts_binding.schema_use) == ("field", "none")
    assert one.quality is None


CHAT = [{"role": "user", "content": "Where is Lima?"}]
LIMA = {"messages": CHAT, "answer": "It is in Peru. It is in 3 seas."}
DOCUMENTS = ["Lima is in Peru."]


async def looked_up(service, **fields):
    body = {**LIMA, "documents": DOCUMENTS, "estimators": ["ungrounded", "sp"], **fields}
    response = await service.client.post("/score", json=body)
    assert response.status_code == 200, response.text
    return response.json()


async def test_sentences_are_labelled_by_what_the_documents_say_beside_what_is_right(
    collecting, config
):
    answer = await looked_up(collecting)
    first, second = (unit["span"] for unit in answer["units"][1:])
    said = [
        {"span": second, "grounded": False},
        {"span": first, "grounded": True, "correct": False},
    ]
    response = await label(collecting, answer["id"], units=said)

    assert response.json()["units"] == 2
    [one] = stored_labels(config.path, config).labels
    assert one.parts == (PartLabel(1, None, False), PartLabel(0, False, True))
    assert [part.scores["ungrounded"] for part in one.answer.parts] == [0.0, 1.0]


@pytest.mark.parametrize(
    "fields",
    [{"documents": [], "units": "sentences"}, {"estimators": ["sp"]}],
    ids=["without documents", "without the score"],
)
async def test_what_was_not_looked_up_in_documents_is_not_said_by_them(collecting, config, fields):
    answer = await looked_up(collecting, **fields)
    span = answer["units"][1]["span"]
    said = [{"span": span, "correct": True, "grounded": True}]
    refused = (await label(collecting, answer["id"], units=said)).json()["error"]
    assert refused["field"] == "units.0.grounded"
    assert "served with documents" in refused["message"]
    assert stored_labels(config.path, config).labels == []
    said = [{"span": span, "correct": True}]
    assert (await label(collecting, answer["id"], units=said)).status_code == 200


async def test_the_whole_and_its_parts_are_labelled_together(collecting, config):
    answer = await answered(collecting)
    said = [{"path": "/total", "correct": True}]
    await label(collecting, answer["id"], correct=False, units=said)

    [one] = stored_labels(config.path, config).labels
    assert (one.quality, len(one.parts)) == (0.0, 1)


async def test_no_key_of_an_answer_is_kept(collecting, tmp_path):
    answer = await answered(collecting)
    await label(collecting, answer["id"], units=[{"path": "/number", "correct": True}])

    [file] = tmp_path.iterdir()
    kept = file.read_text()
    assert "A-117" not in kept
    assert "/number" not in kept
    assert "a~1b" not in kept


async def test_a_later_label_takes_the_place_of_the_earlier_with_its_parts(collecting, config):
    answer = await answered(collecting)
    for path, correct in (("/total", True), ("/number", False)):
        await label(collecting, answer["id"], units=[{"path": path, "correct": correct}])

    [one] = stored_labels(config.path, config).labels
    assert [(part.part, part.correct) for part in one.parts] == [(0, False)]


TOTAL = {"path": "/total", "correct": True}
BAD = {
    "an unknown path": ([TOTAL, {"path": "/vat", "correct": True}], "units.1.path"),
    "an array's path": ([{"path": "/lines", "correct": True}], "units.0.path"),
    "an unknown span": ([{"span": [0, 1], "correct": True}], "units.0.span"),
    "a path twice": ([TOTAL, TOTAL], "units.1.path"),
    "nothing that names it": ([{"correct": True}], "units.0.path"),
    "both names": ([{**TOTAL, "span": [0, 1]}], "units.0.path"),
    "no label": ([{"path": "/total"}], "units.0.correct"),
    "null labels": ([{"path": "/total", "correct": None, "grounded": None}], "units.0.correct"),
    "another kind of label": ([{"path": "/total", "grounded": 1}], "units.0.grounded"),
    "a field beside no document": ([{"path": "/total", "grounded": True}], "units.0.grounded"),
    "degrees": ([{"path": "/total", "correct": 0.5}], "units.0.correct"),
    "no parts": ([], "units"),
    "half a span": ([{"span": [1], "correct": True}], "units.0.span"),
}


@pytest.mark.parametrize(("units", "field"), BAD.values(), ids=list(BAD))
async def test_what_names_no_part_is_refused_with_its_place(collecting, config, units, field):
    answer = await answered(collecting)
    response = await label(collecting, answer["id"], units=units)

    assert response.status_code == 422
    assert response.json()["error"]["field"] == field
    assert stored_labels(config.path, config).labels == []


async def test_parts_that_were_not_asked_for_or_are_held_back_cannot_be_labelled(collecting):
    answer = await answered(collecting, units="answer")
    response = await label(collecting, answer["id"], units=[TOTAL])

    assert (response.status_code, response.json()["error"]["field"]) == (422, "units.0.path")


async def test_labels_of_parts_calibrate_the_fields_of_later_answers(config, monkeypatch, tmp_path):
    rng, asked = np.random.default_rng(0), {"max_new_tokens": 64, "units": "fields", "seed": 1}
    async with serving(feedback=config) as service:
        for i in range(60):
            word = f"w{rng.integers(10_000)}"
            text = json.dumps({"a": word, "b": f"v{i}"})
            body = {"prompt": "Which?", "answer": text, **asked}
            answer = (await service.client.post("/score", json=body)).json()
            [logprob] = _pseudo([f' "{word}",'], -1.0)
            said = [{"path": "/a", "correct": bool(rng.random() < np.exp(2 * logprob))}]
            assert (await label(service, answer["id"], units=said)).status_code == 200
    parts, source, _ = read_feedback(config.path, config)
    fitted = calibrate({source: parts}).calibrator
    [part] = fitted.parts
    assert (part.binding.unit, part.binding.strategy) == ("field", "given")
    made = tmp_path / "made.json"
    made.write_text(to_json(fitted))
    async with serving(calibrator=str(made)) as service:
        body = {"prompt": "Which?", "answer": '{"a": "w1", "b": "v2"}', **asked}
        told = (await service.client.post("/score", json=body)).json()

    assert all(0 < unit["confidence"] < 1 for unit in told["units"][1:])


async def test_a_sentence_is_labelled_by_its_span(collecting, config):
    answer = await answered(collecting, units="sentences")
    [_, sentence] = answer["units"]
    said = [{"span": sentence["span"], "correct": False}]
    response = await label(collecting, answer["id"], units=said)

    assert response.json()["units"] == 1
    [one] = stored_labels(config.path, config).labels
    assert [(part.part, part.correct) for part in one.parts] == [(0, False)]
