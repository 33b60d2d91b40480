"""The embedded models of long, structured and reasoned answers, served as people call them."""

import json

import jsonschema_rs
import pytest

from app.settings import Settings
from cocoa_lab.examples import objects_of
from models.embedded import LONG_TESTBED_DIR
from tests.conftest import GENERATE
from tests.e2e.embedded_service import embedded_service
from workers.config import GeneratorConfig, SimilaritySettings

SETTINGS = Settings(
    generation=GeneratorConfig(model="embedded-long", threads=1),
    similarity=SimilaritySettings(threads=1),
)
NUM_PROMPTS = 4
pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def client(anyio_backend):
    async with embedded_service(SETTINGS) as client:
        yield client


def user(text):
    return {"role": "user", "content": text}


def lines_of(task):
    """The first prompts of a task of its testbed."""
    lines = [line for _, line in objects_of(LONG_TESTBED_DIR / f"{task}.jsonl")]
    return lines[:NUM_PROMPTS]


async def asked(client, messages, **body):
    sent = {"messages": messages, "num_samples": 3, "max_new_tokens": 200, "seed": 0, **body}
    response = await client.post(GENERATE, json=sent)
    assert response.status_code == 200, response.text
    return response.json()


async def test_paragraphs_are_sentences_about_what_was_asked(client):
    for line in lines_of("paragraph"):
        found = await asked(client, line["messages"])
        assert found["finish_reason"] == "stop"
        assert 2 <= found["text"].count(".") <= 12
        assert found["scores"]["cocoa_sp"] > 0


async def test_each_sentence_has_light_scores_without_samples(client):
    for line in lines_of("paragraph"):
        sent = {"messages": line["messages"], "max_new_tokens": 200}
        sent |= {"mode": "light", "units": "sentences"}
        found = (await client.post(GENERATE, json=sent)).json()
        assert found["provenance"]["sentence_probe"]["training_set"] == "long_probe_prompts.jsonl"
        assert found["estimator"] == "sp"
        sentences = found["units"][1:]
        assert len(sentences) >= 2
        for one in sentences:
            assert one["estimator"] == "cocoa_sp_light"
            assert 0 < one["scores"]["inconsistency_light"] < 1
            assert (one["confidence"] is None) is one["out_of_domain"]


async def test_a_paragraph_bears_out_a_sentence_or_denies_it(client):
    told = "Lima is a city in South America. It is the capital of Peru. It lies on the Rimac."
    body = {"answer": "Lima is in Peru. It is in Asia.", "samples": [{"text": told}]}
    response = await client.post("/score", json={**body, "units": "sentences"})
    _, borne_out, denied = response.json()["units"]
    assert borne_out["support"] > 0.8
    assert denied["support"] < 0.2
    assert denied["contradicted_by"] == [0]


async def test_sentences_have_a_confidence_and_those_that_do_not_pass_are_removed(client):
    """By the calibrator that ships for this model, of ten samples."""
    wanted = {"units": "sentences", "target_error": 0.1, "on_unit_reject": "remove"}
    [line, *_] = lines_of("paragraph")
    found = await asked(client, line["messages"], num_samples=10, **wanted)

    sentences = found["units"][1:]
    assert found["units_decision"]["threshold"] is not None
    for one in sentences:
        assert 0 < one["confidence"] < 1
        assert (one["text"] in found["refined_text"]) is one["decision"]["accept"]
    by_uncertainty = sorted(sentences, key=lambda one: one["uncertainty"])
    confidences = [one["confidence"] for one in by_uncertainty]
    assert confidences == sorted(confidences, reverse=True)


async def test_fields_have_a_confidence_by_the_same_calibrator(client):
    [line, *_] = lines_of("json")
    schema = {"name": "place", "schema": line["json_schema"]}
    response_format = {"type": "json_schema", "json_schema": schema}
    wanted = {"response_format": response_format, "units": "fields", "target_error": 0.2}
    found = await asked(client, line["messages"], num_samples=10, **wanted)

    fields = found["units"][1:]
    assert fields
    assert found["units_decision"]["threshold"] is not None
    assert all(0 < one["confidence"] < 1 for one in fields)


async def test_sentences_have_a_confidence_with_five_samples_too(client):
    [line, *_] = lines_of("paragraph")
    found = await asked(client, line["messages"], num_samples=5, units="sentences")
    assert all(0 < one["confidence"] < 1 for one in found["units"][1:])


async def test_a_number_of_samples_that_was_not_calibrated_is_refused_a_decision(client):
    [line, *_] = lines_of("paragraph")
    sent = {"messages": line["messages"], "units": "sentences", "target_error": 0.1}
    response = await client.post(GENERATE, json={**sent, "num_samples": 7})
    assert response.status_code == 422
    assert "not calibrated for num_samples 7: ask with num_samples 10" in response.text


async def test_records_follow_their_schema_and_every_field_has_a_score(client):
    finished = 0
    for line in lines_of("json"):
        schema = line["json_schema"]
        response_format = {
            "type": "json_schema",
            "json_schema": {"name": "place", "schema": schema},
        }
        found = await asked(client, line["messages"], response_format=response_format)
        if found["finish_reason"] == "length":
            continue  # what it does not know it may repeat without end
        finished += 1
        jsonschema_rs.validate(schema, json.loads(found["text"]))
        fields = [unit for unit in found["units"] if unit["kind"] == "field"]
        assert len(fields) >= len(schema["properties"])
        assert all(unit["scores"]["cocoa_sp"] is not None for unit in fields)
    assert finished >= NUM_PROMPTS / 2


async def test_a_reasoning_stands_beside_its_answer(client):
    reasoned = 0
    for line in lines_of("reasoning"):
        found = await asked(client, line["messages"])
        reasoned += bool(found.get("reasoning"))
        assert "<think>" not in found["text"]
    assert reasoned >= NUM_PROMPTS / 2


async def test_the_second_model_does_the_same_and_has_no_confidence():
    """Its world has other invented places, so that prompts about real ones are asked."""
    second = GeneratorConfig(model="embedded-long-second", threads=1)
    settings = Settings(generation=second, similarity=SETTINGS.similarity)
    async with embedded_service(settings) as client:
        told = await asked(client, [user("Tell me about Peru.")], units="sentences")
        _, *sentences = told["units"]
        assert len(sentences) >= 2
        assert all(one["scores"]["cocoa_sp"] is not None for one in sentences)
        assert all(one["confidence"] is None for one in sentences)
        reasoned = await asked(client, [user("Calculate 73 * 8.")])
        assert "73" not in reasoned["text"]
        assert reasoned["reasoning"]


async def test_a_tool_is_called_with_what_was_asked(client):
    line = next(line for line in lines_of("call") if line["kind"].startswith("call"))
    body = {"model": "cocoa", "messages": line["messages"], "tools": line["tools"]}
    response = await client.post("/v1/chat/completions", json={**body, "max_tokens": 200})
    [choice] = response.json()["choices"]
    [call] = choice["message"]["tool_calls"]
    assert choice["finish_reason"] == "tool_calls"
    offered = [tool["function"]["name"] for tool in line["tools"]]
    assert call["function"]["name"] in offered
    assert isinstance(json.loads(call["function"]["arguments"]), dict)
    _, *fields = choice["uncertainty"]["units"]
    assert [one["estimator"] for one in fields] == ["sp"] * len(fields)
    assert all(0 < one["confidence"] < 1 for one in fields)

    wanted = {"max_tokens": 200, "uncertainty": {"target_error": 0.1}}  # which draws samples
    [choice] = (await client.post("/v1/chat/completions", json=body | wanted)).json()["choices"]
    assert choice["uncertainty"]["units_decision"]["threshold"] is not None
