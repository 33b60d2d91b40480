"""`POST /v1/responses`, by its bodies; tests/clients has the clients themselves."""

import json
from dataclasses import replace
from functools import partial

import pytest

from cocoa_lab.calibration.calibrating import to_json
from models.errors import EngineError
from tests.api.openai_calls import CHAT, QUESTION, answered
from tests.api.test_api_calibration import NOTHING_PASSES, bound_to_fakes
from tests.api.test_api_openai_tools import TOOLS
from tests.api.test_api_stream import fails_after_tokens
from tests.conftest import serving
from tests.events import events_of

pytestmark = pytest.mark.anyio
PLACEMENTS = ["embedded", "remote"]
RESPONSES = "/v1/responses"
FUNCTIONS = [{"type": "function", **tool["function"]} for tool in TOOLS]
HOME = {"type": "namespace", "name": "home", "description": "A house.", "tools": FUNCTIONS}
SEARCH = {"type": "web_search", "external_web_access": False}
ASKED = {"model": "cocoa", "input": QUESTION, "max_output_tokens": 64}
OF_A_TOOL = {"cache_control": {"type": "x"}, "output_schema": {}, "defer_loading": False}
OF_A_TOOL |= {"async": False, "allowed_callers": ["direct"]}
IMAGE = {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "original"}
LOGPROBS = {"include": ["message.output_text.logprobs"], "top_logprobs": 2}


async def responded(service, **body):
    response = await service.client.post(RESPONSES, json=ASKED | body)
    assert response.status_code == 200, response.text
    return response.json()


def said(body):
    texts = []
    for item in body["output"]:
        texts += [part.get("text") for part in item.get("content", ())]
    return texts


async def test_it_says_what_a_chat_says(service):
    wanted = {"num_samples": 4, "estimators": ["cocoa_sp", "sp"]}
    body = await responded(service, uncertainty=wanted, temperature=0.7, seed=3)
    chat = await answered(service, CHAT, uncertainty=wanted, temperature=0.7, seed=3)
    [choice] = chat["choices"]
    assert said(body) == [choice["message"]["content"]]
    assert body["status"] == "completed"
    assert body["uncertainty"]["scores"] == choice["uncertainty"]["scores"]
    assert body["output"][-1]["uncertainty"] == body["uncertainty"]
    assert body["usage"]["input_tokens"] == chat["usage"]["prompt_tokens"]
    assert body["usage"]["total_tokens"] == chat["usage"]["total_tokens"]
    assert (body["temperature"], body["store"], body["previous_response_id"]) == (0.7, False, None)


INPUTS = {
    "a text": (QUESTION, [{"role": "user", "content": QUESTION}]),
    "items with what clients keep beside them": (
        [
            {"role": "developer", "content": [{"type": "input_text", "text": "Be brief."}]},
            {"type": "message", "role": "user", "content": "Hi"},
            {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": None},
            {
                "type": "message",
                "id": "m",
                "status": "completed",
                "role": "assistant",
                "phase": None,
                "content": [
                    {"type": "output_text", "text": "Hello", "annotations": [], "logprobs": []},
                    {"type": "refusal", "refusal": "!"},
                ],
                "uncertainty": {"value": 1},
            },
            {"role": "user", "content": QUESTION},
        ],
        [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "Hello!"},
            {"role": "user", "content": QUESTION},
        ],
    ),
    "reasonings": (
        [
            {"role": "user", "content": "Now?"},
            {
                "type": "reasoning",
                "summary": [{"type": "summary_text", "text": "A clock."}],
                "content": [{"type": "reasoning_text", "text": "I need a clock."}],
            },
            {"role": "assistant", "content": "Let me see."},
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Call it."}]},
            {"type": "function_call", "call_id": "1", "name": "now", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "1", "output": "noon"},
        ],
        [
            {"role": "user", "content": "Now?"},
            {
                "role": "assistant",
                "content": "Let me see.",
                "reasoning_content": "I need a clock.\nCall it.",
                "tool_calls": [{"id": "1", "function": {"name": "now", "arguments": "{}"}}],
            },
            {"role": "tool", "tool_call_id": "1", "content": "noon"},
        ],
    ),
    "calls beside each other and what they gave": (
        [
            {"role": "user", "content": "Now?"},
            {"role": "assistant", "content": "Let me see."},
            {"type": "function_call", "id": "x", "call_id": "1", "name": "now", "arguments": "{}"},
            {
                "type": "function_call",
                "call_id": "2",
                "name": "now",
                "arguments": '{"a":1}',
                "caller": {"type": "direct"},
                "created_by": "x",
            },
            {"type": "function_call_output", "call_id": "1", "output": "noon"},
            {
                "type": "function_call_output",
                "call_id": "2",
                "output": [{"type": "input_text", "text": "one"}],
            },
        ],
        [
            {"role": "user", "content": "Now?"},
            {
                "role": "assistant",
                "content": "Let me see.",
                "tool_calls": [
                    {"id": "1", "function": {"name": "now", "arguments": "{}"}},
                    {"id": "2", "function": {"name": "now", "arguments": '{"a":1}'}},
                ],
            },
            {"role": "tool", "tool_call_id": "1", "content": "noon"},
            {"role": "tool", "tool_call_id": "2", "content": "one"},
        ],
    ),
}


@pytest.mark.parametrize(("given", "messages"), INPUTS.values(), ids=list(INPUTS))
async def test_items_are_the_messages_of_a_chat(service, given, messages):
    body = await responded(service, input=given, tools=FUNCTIONS, seed=1)
    chat = await answered(service, CHAT, messages=messages, tools=TOOLS, seed=1)
    assert chat["choices"][0]["uncertainty"]["cached"], "the model is shown the same"
    assert "".join(said(body)) == (chat["choices"][0]["message"]["content"] or "")


async def test_instructions_are_a_system_message_before_the_input(service):
    body = await responded(service, instructions="Be brief.")
    system = {"role": "system", "content": "Be brief."}
    chat = await answered(service, CHAT, messages=[system, {"role": "user", "content": QUESTION}])
    assert chat["choices"][0]["uncertainty"]["cached"]
    assert body["instructions"] == "Be brief."


async def test_calls_are_items_that_can_be_sent_back(service):
    body = await responded(service, tools=FUNCTIONS, seed=1)
    calls = [item for item in body["output"] if item["type"] == "function_call"]
    chat = await answered(service, CHAT, tools=TOOLS, seed=1)
    told = [call["function"] for call in chat["choices"][0]["message"]["tool_calls"]]
    assert [{"name": one["name"], "arguments": one["arguments"]} for one in calls] == told
    assert [tool["name"] for tool in body["tools"]] == ["get_weather", "now"]
    results = [
        {"type": "function_call_output", "call_id": one["call_id"], "output": "7"} for one in calls
    ]
    again = [{"role": "user", "content": QUESTION}, *body["output"], *results]
    assert (await responded(service, tools=FUNCTIONS, input=again))["status"] == "completed"


@pytest.mark.parametrize("stream", [False, True])
async def test_functions_of_a_namespace_are_called_by_two_names(service, stream):
    asked = ASKED | {"tools": [HOME, *FUNCTIONS[1:]], "seed": 1, "stream": stream}
    response = await service.client.post(RESPONSES, json=asked)
    body = events_of(response.text)[-1].data["response"] if stream else response.json()
    calls = [item for item in body["output"] if item["type"] == "function_call"]
    names = [(call.get("namespace"), call["name"]) for call in calls]
    assert names == [("home", "get_weather"), ("home", "now"), (None, "now")]
    again = [{"role": "user", "content": QUESTION}, *body["output"]]
    for call in calls:
        again.append({"type": "function_call_output", "call_id": call["call_id"], "output": "7"})
    shown = []
    service.before_generating(partial(note, shown))
    await responded(service, tools=asked["tools"], input=again)
    [request] = shown
    joined = ["home__get_weather", "home__now", "now"]
    assert [tool["function"]["name"] for tool in request.tools] == joined
    [called] = [message for message in request.messages if "tool_calls" in message]
    assert [call["function"]["name"] for call in called["tool_calls"]] == joined


async def note(shown, request):
    shown.append(request)


async def test_a_search_of_the_web_is_left_out_with_a_warning(service):
    plain = await responded(service, tools=FUNCTIONS, seed=1)
    body = await responded(service, tools=[SEARCH, *FUNCTIONS], seed=1, ignore_eos=True)
    assert body["uncertainty"]["cached"], "the model is shown the same"
    assert body["uncertainty"]["warnings"] == ["ignore_eos_left_out", "tools_left_out"]
    assert plain["uncertainty"]["warnings"] == []
    assert body["tools"][0] == SEARCH


@pytest.mark.parametrize("stream", [False, True])
async def test_tools_are_told_again_with_integers_of_any_size(service, stream):
    parameters = {"type": "object", "properties": {"id": {"const": 2**64, "default": -(2**70)}}}
    tools = [{"type": "function", "name": "get", "parameters": parameters}]
    response = await service.client.post(RESPONSES, json=ASKED | {"tools": tools, "stream": stream})
    assert response.status_code == 200, response.text
    assert str(2**64) in response.text
    assert str(-(2**70)) in response.text
    assert "internal_error" not in response.text


@pytest.mark.parametrize("asked", [{}, LOGPROBS, {"tools": FUNCTIONS, "seed": 1}], ids=str)
async def test_a_stream_ends_with_the_whole_response(service, asked):
    asked = asked | {"uncertainty": {"cache": False, "num_samples": 2}}
    whole = await responded(service, **asked)
    response = await service.client.post(RESPONSES, json=ASKED | asked | {"stream": True})
    events = events_of(response.text)
    assert [one.data["sequence_number"] for one in events] == list(range(len(events)))
    assert all(one.name == one.data["type"] for one in events)
    assert [one.name for one in events[:2]] == ["response.created", "response.in_progress"]
    assert events[-1].name == "response.completed"
    body = events[-1].data["response"]
    assert body["uncertainty"]["scores"] == whole["uncertainty"]["scores"]
    assert body["usage"] == whole["usage"]
    assert [item["type"] for item in body["output"]] == [item["type"] for item in whole["output"]]
    for item, other in zip(body["output"], whole["output"], strict=True):
        assert item.get("content") == other.get("content")
        assert item.get("arguments") == other.get("arguments")
    done = [one.data["item"] for one in events if one.name == "response.output_item.done"]
    assert [item["id"] for item in done] == [item["id"] for item in body["output"]]
    pieces = [one.data["delta"] for one in events if one.name == "response.output_text.delta"]
    assert "".join(pieces) == "".join(filter(None, said(body)))


async def test_an_answer_that_is_cut_is_incomplete(service):
    for stream in (False, True):
        sent = ASKED | {"max_output_tokens": 1, "stream": stream}
        response = await service.client.post(RESPONSES, json=sent)
        body = response.json() if not stream else events_of(response.text)[-1].data["response"]
        assert body["status"] == body["output"][-1]["status"] == "incomplete"
        assert body["incomplete_details"] == {"reason": "max_output_tokens"}


async def test_without_a_limit_as_many_tokens_as_fit_are_asked_for_without_a_warning(service):
    asked = []

    async def note(request):
        asked.append(request.sampling.max_new_tokens)

    service.before_generating(note)
    body = await responded(service, max_output_tokens=None)
    assert (asked, body["uncertainty"]["warnings"]) == ([4096], []), "512 fit the model's context"
    for _ in range(2):  # neither is told what is kept of the other
        told = await responded(service, max_output_tokens=4096)
        assert told["uncertainty"]["warnings"] == ["max_new_tokens_clamped"]
        body = await responded(service, max_output_tokens=None)
        assert body["uncertainty"]["warnings"] == []


async def test_an_answer_that_is_held_back_is_a_refusal(tmp_path):
    path = tmp_path / "made.json"
    made = await bound_to_fakes(NOTHING_PASSES)
    [part] = made.parts
    of_chats = replace(part, binding=replace(part.binding, input="messages"))
    path.write_text(to_json(replace(made, parts=(of_chats,))))
    async with serving(calibrator=str(path)) as service:
        body = await responded(service, uncertainty={"target_error": 0.05, "on_reject": "abstain"})
    [item] = body["output"]
    [part] = item["content"]
    assert part["type"] == "refusal"
    assert "held back" in part["refusal"]


async def test_a_repeated_request_has_its_own_id(service):
    first, second, third = [await responded(service) for _ in range(3)]
    assert len({one["id"] for one in (first, second, third)}) == 3
    assert third["uncertainty"]["cached"]
    assert said(first) == said(third)


async def test_a_stream_that_fails_ends_with_the_error_as_each_client_reads_it(service):
    fails_after_tokens(service, EngineError("broken"))
    response = await service.client.post(RESPONSES, json=ASKED | {"stream": True})
    *_, error, failed = events_of(response.text)
    told = {name: error.data[name] for name in ("code", "message")}
    assert (error.name, error.data["code"]) == ("error", "engine_error")
    body = failed.data["response"]
    assert (failed.name, body["status"], body["error"]) == ("response.failed", "failed", told)
    assert said(body)[0], "what was written before"


async def test_a_stream_that_does_not_begin_is_an_error_response(service):
    sent = ASKED | {"stream": True, "input": "word " * 600}
    response = await service.client.post(RESPONSES, json=sent)
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (400, "context_length_exceeded")
    assert error["param"] == "input"


REFUSED = [
    ({"previous_response_id": "a"}, "previous_response_id"),
    ({"conversation": "a"}, "conversation"),
    ({"store": True}, "store"),
    ({"background": True}, "background"),
    ({"truncation": "auto"}, "truncation"),
    ({"tools": [{"type": "custom", "name": "apply_patch"}]}, "tools.0"),
    ({"tools": [SEARCH, HOME | {"tools": [{"type": "custom", "name": "a"}]}]}, "tools.1.tools.0"),
    ({"tools": [HOME | {"name": "a" * 56}]}, "tools.0.name"),
    ({"tools": [HOME, HOME]}, "tools"),
    ({"tools": [SEARCH], "tool_choice": "required"}, "tool_choice"),
    ({"tools": FUNCTIONS, "tool_choice": {"type": "function", "name": "no"}}, "tool_choice"),
    ({"tool_choice": {"type": "mcp"}}, "tool_choice"),
    ({"input": []}, "input"),
    ({"input": ""}, "input"),
    ({"input": [{"type": "reasoning", "summary": []}]}, "input"),
    ({"input": [{"role": "user", "content": "a"}, {"type": "reasoning", "summary": []}]}, "input"),
    ({"input": [{"type": "item_reference", "id": "x"}]}, "input.0"),
    ({"input": [{"role": "user", "content": [{"type": "input_file"}]}]}, "input.0.content.0"),
    (
        {
            "instructions": "Be brief.",
            "input": [
                {"type": "reasoning", "summary": []},
                {"type": "function_call", "call_id": "1", "name": "f", "arguments": "no"},
            ],
        },
        "input.1",
    ),
    ({"text": {"format": {"type": "json_schema", "schema": {}}}}, "text.format.name"),
    ({"text": {"format": {"type": "xml"}}}, "text.format"),
    ({"text": {"verbosity": "low"}}, "text.verbosity"),
    ({"reasoning": {"effort": "huge"}}, "reasoning.effort"),
    ({"reasoning": {"mode": "pro"}}, "reasoning.mode"),
    ({"reasoning": {"context": "all_turns"}}, "reasoning.context"),
    ({"instructions": "x", "input": [{"role": "user", "content": [IMAGE]}]}, "input.0"),
    (
        {"temperature": 1, "uncertainty": {"temperature": 1, "strategy": "mbr"}},
        "uncertainty.temperature",
    ),
    ({"metadata": {"a": "\ud800"}}, "metadata"),
    ({"tools": [SEARCH | {"a": ["\ud800"]}]}, "tools.0"),
    ({"tools": [SEARCH | {"a": float("nan")}]}, "tools.0.a.float"),
    ({"max_tokens": 3}, "max_tokens"),
    ({"include": ["message.output_text.logprob"]}, "include.0"),
    ({"stream_options": {"continuous_usage_stats": True}}, "stream_options.continuous_usage_stats"),
]


@pytest.mark.parametrize(("body", "param"), REFUSED, ids=[str(one[0]) for one in REFUSED])
async def test_what_is_not_here_is_refused_by_its_name(service, body, param):
    calls = service.engine.num_calls
    response = await service.client.post(RESPONSES, content=json.dumps(ASKED | body))
    error = response.json()["error"]
    assert (response.status_code, error["param"]) == (422, param), error
    assert service.engine.num_calls == calls


async def test_what_asks_for_nothing_means_nothing(service):
    harmless = {
        "store": False,
        "previous_response_id": None,
        "truncation": "disabled",
        "include": ["reasoning.encrypted_content"],
        "metadata": {"team": "a"},
        "reasoning": {"effort": "none", "summary": "auto", "context": "auto", "mode": "standard"},
        "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "tools": [{**FUNCTIONS[0], **OF_A_TOOL}],
        "tool_choice": "none",
        "service_tier": "auto",
        "max_tool_calls": 3,
        "prompt_cache_key": "x",
        "presence_penalty": 0,
        "frequency_penalty": 0.0,
        "top_k": -1,
        "plugins": [],
        "stream_options": {"include_usage": True, "include_obfuscation": False},
        "client_metadata": {"session_id": "x"},
        "best_of": None,
        "n": 1,
    }
    plain = await responded(service)
    body = await responded(service, **harmless)
    assert said(body) == said(plain)
    assert json.dumps(body["text"]["format"]) == '{"type": "text"}'


async def test_whole_numbers_may_be_written_as_json_writes_any_number(service):
    body = await responded(service, max_output_tokens=64.0, seed=3.0)
    assert said(body) == said(await responded(service, seed=3))
    for field, number in {"max_output_tokens": 1.5, "seed": 1e300, "top_logprobs": 0.5}.items():
        response = await service.client.post(RESPONSES, json=ASKED | {field: number})
        assert (response.status_code, response.json()["error"]["param"]) == (422, field)
