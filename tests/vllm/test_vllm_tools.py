"""Calls of tools behind a real vLLM with llguidance, held to the engine in process."""

import json
import shutil
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import jsonschema_rs
import pytest

from models.embedded import LANGUAGE_MODEL_DIR, LONG_LANGUAGE_MODEL_DIR
from tests.tiny_models import TOOL_TEMPLATE
from tests.vllm import reference
from tests.vllm.agreement import at_once
from tests.vllm.server import serving
from tests.vllm.test_vllm_reasoning import Apart, ask, service
from tests.vllm.test_vllm_structured import BACKEND, WITHIN
from workers.config import GeneratorConfig

pytestmark = pytest.mark.anyio

NUM_PROMPTS = 60
CITY = {
    "type": "object",
    "properties": {"city": {"enum": ["Paris", "Lyon"]}, "is_far": {"type": "boolean"}},
    "required": ["city", "is_far"],
    "additionalProperties": False,
}
TOOLS = [{"type": "function", "function": {"name": "find", "parameters": CITY}}]
PATHS = [None, "/0/function/name", "/0/function/arguments/city", "/0/function/arguments/is_far"]


@pytest.fixture(scope="module")
async def both(anyio_backend, tmp_path_factory):
    """The service over vLLM, and in process, of one model whose template takes tools."""
    folder = tmp_path_factory.mktemp("tools")
    model = folder / "model"
    shutil.copytree(LANGUAGE_MODEL_DIR, model)
    (model / "chat_template.jinja").write_text(TOOL_TEMPLATE)
    async with before_vllm_and_here(folder, model) as clients:
        yield clients


@asynccontextmanager
async def before_vllm_and_here(folder, model):
    async with AsyncExitStack() as stack:
        running = serving(folder, "tools", *BACKEND, model=model, probes=())
        server = await stack.enter_async_context(running)
        over = GeneratorConfig(url=str(server.client.base_url), api="openai")
        here = GeneratorConfig(model=str(model), dtype="float32", threads=1)
        yield [await stack.enter_async_context(service(one)) for one in (over, here)]


async def test_calls_that_must_be_made_are_those_in_process_and_valid(both):
    apart = Apart()

    async def compare(number, prompt):
        body = {"model": "cocoa", "messages": [{"role": "user", "content": prompt}], "seed": number}
        body |= {"tools": TOOLS, "tool_choice": "required", "max_tokens": 64}
        path = "/v1/chat/completions"
        choices = [(await ask(one, path, **body))["choices"][0] for one in both]
        calls = [choice["message"]["tool_calls"] for choice in choices]
        for choice, (call,) in zip(choices, calls, strict=True):
            assert choice["finish_reason"] == "tool_calls"
            assert jsonschema_rs.is_valid(CITY, json.loads(call["function"]["arguments"]))
            assert [one.get("path") for one in choice["uncertainty"]["units"]] == PATHS
        found, expected = calls
        assert found[0]["function"] == expected[0]["function"]
        units = [choice["uncertainty"]["units"] for choice in choices]
        for one, other in zip(*units, strict=True):
            apart.see("sp", one["scores"]["sp"], other["scores"]["sp"])

    prompts = reference.testbed_prompts(NUM_PROMPTS)
    await at_once(4, [partial(compare, *numbered) for numbered in enumerate(prompts)])
    print(f"\n{NUM_PROMPTS} calls of both, apart {apart.largest}", flush=True)
    assert max(apart.largest.values()) < WITHIN


# Every other prompt: the model rather writes a number than a call, a call than an object.
FORMATS = [
    {"type": "integer", "minimum": 0, "maximum": 99_999},
    CITY | {"properties": {"n": {"type": "integer", "maximum": 99}}, "required": ["n"]},
]


async def test_calls_or_json_of_a_format_are_those_in_process_and_valid(both):
    seen = []
    for number, prompt in enumerate(reference.testbed_prompts(20)):
        schema = FORMATS[number % 2]
        held = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
        body = {"model": "cocoa", "messages": [{"role": "user", "content": prompt}], "seed": number}
        body |= {"tools": TOOLS, "response_format": held, "max_tokens": 96}
        body |= {"parallel_tool_calls": False, "temperature": 1}
        path = "/v1/chat/completions"
        for client in both:
            [choice] = (await ask(client, path, **body))["choices"]
            seen.append(choice["finish_reason"])
            if choice["finish_reason"] == "tool_calls":
                [call] = choice["message"]["tool_calls"]
                assert jsonschema_rs.is_valid(CITY, json.loads(call["function"]["arguments"]))
            elif choice["finish_reason"] == "stop":
                assert jsonschema_rs.is_valid(schema, json.loads(choice["message"]["content"]))
    print(f"\n{seen}", flush=True)
    assert {"tool_calls", "stop"} <= set(seen)


async def test_what_the_model_says_by_itself_is_read_alike(both):
    body = {"model": "cocoa", "messages": [{"role": "user", "content": "Where is Pirot?"}]}
    body |= {"tools": TOOLS, "max_tokens": 32}
    found, expected = [
        (await ask(one, "/v1/chat/completions", **body))["choices"][0] for one in both
    ]
    assert found["message"] == expected["message"]
    assert found["finish_reason"] == expected["finish_reason"]


async def test_a_model_that_has_tokens_for_calls_makes_them_where_it_may(tmp_path):
    called = []
    strict = [{"type": "function", "function": {**TOOLS[0]["function"], "strict": True}}]
    async with before_vllm_and_here(tmp_path, LONG_LANGUAGE_MODEL_DIR) as clients:
        for city in ("Paris", "Lyon", "Rome", "Lima"):
            asked = {"role": "user", "content": f"What is the weather in {city}?"}
            body = {"model": "cocoa", "messages": [asked], "tools": strict, "max_tokens": 64}
            found, expected = [
                (await ask(one, "/v1/chat/completions", **body))["choices"][0] for one in clients
            ]
            assert found["message"]["content"] == expected["message"]["content"]
            calls = [one["message"].get("tool_calls") or [] for one in (found, expected)]
            for one, other in zip(*calls, strict=True):
                assert one["function"] == other["function"]
                called.append(json.loads(one["function"]["arguments"]))
    print(f"\n{called}", flush=True)
    assert called
    assert all(jsonschema_rs.is_valid(CITY, one) for one in called)
