"""Answers under JSON schemas behind a real vLLM with llguidance, held to the engine in process."""

import json
import os
from contextlib import AsyncExitStack
from functools import partial

import jsonschema_rs
import pytest

from models.embedded import LANGUAGE_MODEL_DIR
from tests.conftest import GENERATE
from tests.vllm import reference
from tests.vllm.agreement import at_once
from tests.vllm.reasoner import FOLDER, held_out_sums, padded_model
from tests.vllm.server import serving
from tests.vllm.test_vllm_reasoning import PARSER, Apart, ask, service
from workers.config import GeneratorConfig

pytestmark = pytest.mark.anyio

NUM_PROMPTS = int(os.environ.get("COCOA_TEST_STRUCTURED_PROMPTS", "500"))
WITHIN = 1e-4
BACKEND = ("--enforce-eager", "--structured-outputs-config.backend", "guidance")


def closed(properties, **more):
    names = {"required": list(properties), "additionalProperties": False}
    return {"type": "object", "properties": properties} | names | more


SHORT = {"type": "string", "maxLength": 10}
SCHEMAS = [
    closed({"answer": SHORT, "certain": {"type": "boolean"}}),
    closed({"kind": {"enum": ["city", "number", "word"]}, "value": {"type": ["string", "null"]}}),
    closed({"total": {"type": "number", "minimum": 0, "maximum": 999}, "day": {"format": "date"}})
    | {"$comment": "a date is a string"},
    closed({"lines": {"type": "array", "maxItems": 2, "items": closed({"name": SHORT})}}),
    {"anyOf": [{"type": "integer", "minimum": 0, "maximum": 99}, {"const": None}, {"enum": ["?"]}]},
    closed(
        {
            "code": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{2,4}$"},
            "tree": {"$ref": "#/$defs/t"},
        }
    )
    | {"$defs": {"t": closed({"leaf": {"anyOf": [{"$ref": "#/$defs/t"}, {"type": "null"}]}})}},
]
SCHEMAS[2]["properties"]["day"]["type"] = "string"


@pytest.fixture(scope="module")
async def both(anyio_backend, tmp_path_factory):
    """The service over vLLM, and over the same model in process."""
    folder = tmp_path_factory.mktemp("structured")
    async with AsyncExitStack() as stack:
        running = serving(folder, "structured", *BACKEND, probes=())
        server = await stack.enter_async_context(running)
        over = GeneratorConfig(url=str(server.client.base_url), api="openai")
        here = GeneratorConfig(model=str(LANGUAGE_MODEL_DIR), dtype="float32", threads=1)
        yield [await stack.enter_async_context(service(one)) for one in (over, here)]


def held_to(schema):
    return {"type": "json_schema", "json_schema": {"name": "test", "schema": schema}}


async def test_texts_and_log_probs_are_those_in_process_and_all_that_ended_is_valid(both):
    apart, counts = Apart(), dict.fromkeys(["answers", "cut", "samples", "cut samples"], 0)
    other_texts = []

    async def compare(number, prompt):
        schema = SCHEMAS[number % len(SCHEMAS)]
        body = {"prompt": prompt, "response_format": held_to(schema), "seed": number}
        body |= {"num_samples": 3, "max_new_tokens": 64, "return_tokens": True}
        body |= {"return_samples": True, "estimators": ["sp", "mte", "inconsistency"]}
        found, expected = [await ask(client, **body) for client in both]
        for one in (found, expected):
            for kind, texts in (("answers", [one]), ("samples", one["samples"])):
                for text in texts:
                    is_cut = text["finish_reason"] == "length"
                    name = {"answers": "cut", "samples": "cut samples"}[kind] if is_cut else kind
                    counts[name] += 1
                    if not is_cut:
                        assert jsonschema_rs.is_valid(schema, json.loads(text["text"]))
        if found["text"] != expected["text"]:
            other_texts.append((prompt, found["text"], expected["text"]))
            return
        assert found["finish_reason"] == expected["finish_reason"]
        apart.see_tokens(found["tokens"], expected["tokens"])
        assert [one.get("path") for one in found["units"]] == [
            one.get("path") for one in expected["units"]
        ]

    prompts = reference.testbed_prompts(min(NUM_PROMPTS, 600))
    await at_once(4, [partial(compare, *numbered) for numbered in enumerate(prompts)])
    print(f"\n{len(prompts)} prompts, both: {counts}, apart {apart.largest}", flush=True)
    print(f"other texts: {other_texts}", flush=True)
    assert not other_texts
    assert counts["samples"] > len(prompts)
    assert max(apart.largest.values()) < WITHIN


async def test_what_vllm_would_ignore_is_refused_before_it_is_asked(both):
    body = {"prompt": "Hi", "response_format": held_to({"not": {"type": "string"}})}
    response = await both[0].post(GENERATE, json=body)
    assert response.status_code == 422
    assert "'not' is not supported" in response.json()["error"]["message"]


async def test_a_schema_that_vllm_cannot_hold_to_is_told_as_the_callers(both):
    body = {"prompt": "Hi", "response_format": held_to({"type": "string", "pattern": "(?=a)"})}
    responses = [await client.post(GENERATE, json=body) for client in both]
    assert [one.status_code for one in responses] == [422, 422]
    assert {one.json()["error"]["field"] for one in responses} == {"response_format"}


async def test_behind_a_reasoning_the_schema_begins_with_the_answer(anyio_backend, tmp_path):
    schema = {"enum": ["low", "high", 7]}
    model = padded_model(tmp_path / "model")
    running = serving(tmp_path, "reasoned", *BACKEND, *PARSER, model=model, probes=())
    apart = Apart()
    async with running as server:
        over = GeneratorConfig(url=str(server.client.base_url), api="openai")
        here = GeneratorConfig(model=str(FOLDER), dtype="float32", threads=1)
        async with service(over) as there, service(here) as client:
            for number, chat in enumerate(held_out_sums(10)):
                body = chat | {"response_format": held_to(schema), "seed": number}
                body |= {"num_samples": 2, "max_new_tokens": 120, "return_tokens": True}
                body |= {"return_samples": True, "estimators": ["sp", "mte"]}
                found, expected = await ask(there, **body), await ask(client, **body)
                assert (found["text"], found["reasoning"]) == (
                    expected["text"],
                    expected["reasoning"],
                )
                apart.see_tokens(found["tokens"], expected["tokens"])
                for text in (found, expected, *found["samples"], *expected["samples"]):
                    assert json.loads(text["text"]) in schema["enum"]
    print(f"\n10 reasoned answers, apart {apart.largest}", flush=True)
    assert max(apart.largest.values()) < WITHIN
