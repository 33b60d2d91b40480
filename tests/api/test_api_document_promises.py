"""The promise over documents: labels of what they say, a calibrator of these, and its decisions."""

from dataclasses import replace

import numpy as np
import pytest

from app.plugins.labels.protocol import FeedbackConfig
from cocoa_lab.calibration.calibrating import calibrate, to_json
from cocoa_lab.calibration.feedback import read_feedback, stored_labels
from models.calibration import ALL, Part, Threshold
from tests.api.test_api_calibration import bound_to_fakes
from tests.conftest import serving
from tests.made_calibrators import calibration

pytestmark = pytest.mark.anyio

CHAT = [{"role": "user", "content": "What is told of Lima?"}]
WORDS = ["harbour", "river", "mountain", "winter", "garden", "market", "bridge", "castle"]
KNOWN = " ".join(WORDS)
DOCUMENTS = [KNOWN]
NAMED = {"estimator": "ungrounded", "documents": DOCUMENTS, "messages": CHAT}


def sentence(num_said):
    """One of eight words of which so many stand in the documents."""
    said = WORDS[:num_said] + [f"zq{chr(97 + i)}" for i in range(8 - num_said)]
    return f"We {' '.join(said)}."


async def score(service, **body):
    return await service.client.post("/score", json=body)


@pytest.fixture
async def promised(anyio_backend, tmp_path):
    """A calibrator by labels of 240 sentences: some of answers that a model has read."""
    config, rng = FeedbackConfig(path=str(tmp_path / "labels.jsonl")), np.random.default_rng(0)
    async with serving(feedback=config) as service:
        for i in range(80):
            text = " ".join(sentence(k) for k in rng.integers(9, size=3))
            asked = {"documents": DOCUMENTS, "messages": CHAT, "answer": text}
            if i % 2:
                asked["estimators"] = ["ungrounded", "sp"]
            answer = (await score(service, **asked)).json()
            said = []
            for unit in answer["units"][1:]:
                grounded = bool(unit["scores"]["ungrounded"] < 0.4)
                if i < 4:  # people do not agree with the rule in all
                    grounded = not grounded
                said.append({"span": unit["span"], "grounded": grounded})
            body = {"id": answer["id"], "units": said}
            assert (await service.client.post("/feedback", json=body)).status_code == 200
    assert len(stored_labels(config.path, config).labels) == 80
    parts, source, notes = read_feedback(config.path, config)
    assert notes == []
    made = tmp_path / "made.json"
    made.write_text(to_json(calibrate({source: parts}).calibrator))
    async with serving(calibrator=str(made)) as service:
        yield service


async def test_sentences_pass_by_labels_of_what_documents_say_and_no_model_is_asked(promised):
    calls = promised.engine.num_calls
    text = f"{sentence(8)} {sentence(0)}"
    asked = NAMED | {"answer": text, "target_error": 0.2}
    body = (await score(promised, **asked, on_unit_reject="remove")).json()

    first, second = body["units"][1:]
    assert first["confidence"] > 0.8 > 0.3 > second["confidence"]
    assert [one["decision"]["accept"] for one in (first, second)] == [True, False]
    assert body["refined_text"] == sentence(8)
    decision = body["units_decision"]
    assert decision["accept"] is False
    assert (
        "20 % of the parts that pass say what the documents do not, with" in decision["guarantee"]
    )
    held_back = (await score(promised, **asked, on_unit_reject="abstain")).json()
    assert held_back["units"] is None
    assert "a part of it does not pass" in held_back["reasons"]["units"]
    without_question = {name: value for name, value in asked.items() if name != "messages"}
    again = (await score(promised, **without_question)).json()
    assert again["units"][1]["decision"] == {"accept": True}
    assert promised.engine.num_calls == calls


async def test_a_model_that_reads_beside_it_changes_no_decision(promised):
    asked = NAMED | {"answer": sentence(8), "target_error": 0.2}
    by_rules = (await score(promised, **asked)).json()
    read = (await score(promised, **asked, estimators=["ungrounded", "sp"], num_samples=3)).json()
    assert read["scores"]["sp"] is not None
    for name in ("confidence", "decision"):
        assert read["units"][1][name] == by_rules["units"][1][name]


async def test_sentences_that_an_nli_model_judges_are_not_promised_by_labels_of_words(promised):
    asked = NAMED | {"answer": sentence(8), "similarity": "nli", "num_samples": 3}
    read = (await score(promised, **asked, estimators=["ungrounded", "cocoa_sp"])).json()
    assert read["units"][1]["confidence"] is None
    refused = (await score(promised, **asked, target_error=0.2)).json()["error"]
    assert refused["code"] == "not_calibrated"
    assert "documents judged by words" in refused["message"]


async def test_who_names_another_score_or_none_is_not_judged_by_documents(promised):
    asked = {"documents": DOCUMENTS, "messages": CHAT, "answer": sentence(8)}
    for named in ({}, {"estimators": ["sp", "ungrounded"]}, {"estimator": "sp"}):
        body = (await score(promised, **asked, **named)).json()
        assert body["units"][1]["confidence"] is None
        refused = (await score(promised, **asked, **named, target_error=0.2)).json()["error"]
        assert (refused["code"], refused["field"]) == ("not_calibrated", "target_error")


async def test_answers_of_another_writer_are_not_promised_by_labels_of_given_ones(promised):
    response = await promised.generate(prompt=None, **NAMED, target_error=0.2)
    error = response.json()["error"]
    assert error["code"] == "not_calibrated"
    assert "not calibrated for strategy greedy" in error["message"]


async def test_sentences_that_documents_say_less_than_ever_are_warned_of(tmp_path):
    one = calibration(
        0.5,
        knots=np.array([0.0, 1.0]),
        confidences=np.array([1.0, 0.0]),
        quantiles=np.linspace(0, 0.3, 201),
        thresholds=(Threshold(0.1, 0.5, 0.5, 0.06, None, 0.08),),
    )
    made = await bound_to_fakes()
    binding = replace(made.parts[0].binding, unit="sentence", strategy="given")
    part = Part(binding, {ALL: {"ungrounded": one}})
    path = tmp_path / "made.json"
    path.write_text(to_json(replace(made, parts=(*made.parts, part))))
    async with serving(calibrator=str(path)) as service:
        warnings = []
        for number in range(100):
            text = f"{sentence(number % 3)} {sentence(1)}"
            body = (await score(service, **NAMED, answer=text, cache=False)).json()
            warnings.append("calibration_shift" in body["warnings"])
        name = 'cocoa_calibration_shift_ratio{estimator="ungrounded",group="all"}'
        metrics = (await service.client.get("/metrics")).text
    assert (warnings[0], warnings[-1]) == (False, True)
    [line] = (line for line in metrics.splitlines() if line.startswith(name))
    assert float(line.split()[-1]) > 1
