"""Tools of OpenAI's chats: calls in answers, in streams and in histories, and what they score."""

import json
from dataclasses import replace

import pytest

from app.http.openai.requests import ChatRequest, ask_of
from models.errors import ChatTemplateError
from tests.api.openai_calls import CHAT, QUESTION, answered, post, uncertainty_of
from tests.conftest import serving
from tests.events import events_of

pytestmark = pytest.mark.anyio
PLACEMENTS = ["embedded", "remote"]


PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"type": "function", "function": {"name": "get_weather", "parameters": PARAMETERS}}
NOW = {"type": "function", "function": {"name": "now", "description": "The time."}}
TOOLS = [WEATHER, NOW]
SYSTEM = {"role": "system", "content": "Be brief."}
STRICT = {"type": "function", "function": {"name": "set", "strict": True}}


def calls_of(choice):
    said = []
    for call in choice["message"]["tool_calls"]:
        said.append((call["function"]["name"], json.loads(call["function"]["arguments"])))
    return said


async def test_an_answer_that_calls_tools_has_calls_and_no_text(service):
    [choice] = (await answered(service, CHAT, tools=TOOLS))["choices"]
    city = choice["message"]["tool_calls"][0]["function"]["arguments"]
    assert choice["finish_reason"] == "tool_calls"
    assert calls_of(choice) == [("get_weather", json.loads(city)), ("now", {})]
    assert json.loads(city)["city"] in ("Paris", "Lyon")
    assert choice["message"]["content"] in (None, "Let me look.")
    ids = [call["id"] for call in choice["message"]["tool_calls"]]
    assert len(set(ids)) == 2
    assert all(len(one) == 9 and one.isalnum() for one in ids)


async def test_by_default_calls_are_scored_by_their_tokens_and_no_sample_is_drawn(service):
    before = service.engine.num_sequences
    told = uncertainty_of(await answered(service, CHAT, tools=TOOLS, logprobs=True))
    assert service.engine.num_sequences == before + 1
    assert told["estimator"] == "sp"
    assert told["sample_tokens"] == 0
    assert told["warnings"] == []
    whole, *fields = told["units"]
    assert whole["kind"] == "answer"
    assert [unit["path"] for unit in fields] == [
        "/0/function/name",
        "/0/function/arguments/city",
        "/1/function/name",
        "/1/function/arguments",
    ]
    assert {unit["estimator"] for unit in fields} == {"sp"}
    assert told["units_max"] == max(unit["uncertainty"] for unit in fields)


async def test_the_score_of_an_argument_is_that_of_its_tokens(service):
    body = await answered(service, CHAT, tools=TOOLS, logprobs=True)
    tokens = body["choices"][0]["logprobs"]["content"]
    [unit] = [one for one in uncertainty_of(body)["units"] if one.get("path", "").endswith("city")]
    first, behind = unit["tokens"]
    assert unit["text"] in "".join(token["token"] for token in tokens[first:behind])
    total = -sum(token["logprob"] for token in tokens[first:behind])
    assert unit["uncertainty"] == pytest.approx(total)


async def test_with_samples_on_request_arguments_are_compared_as_elements_of_an_array(service):
    wanted = {"num_samples": 8, "return_samples": True}
    told = uncertainty_of(await answered(service, CHAT, tools=TOOLS, seed=2, uncertainty=wanted))
    units = {unit["path"]: unit for unit in told["units"][1:]}
    [city] = [unit for path, unit in units.items() if path.endswith("city")]
    said = [sample["text"] for sample in told["samples"]]
    shares = {one["value"]: one["share"] for one in city["alternatives"]}
    for value, share in shares.items():
        assert share == pytest.approx(sum(value in text for text in said) / 8)
    assert sum(shares.values()) == pytest.approx(1)
    assert units["/0/function/name"]["support"] == 1.0
    assert city["estimator"] == "cocoa_sp"


async def test_a_chat_goes_on_with_the_results_of_its_calls(service):
    [choice] = (await answered(service, CHAT, tools=TOOLS))["choices"]
    asked = []
    prepare = service.engine.prepare

    def remember(request, *, streams):
        asked.append(request)
        return prepare(request, streams=streams)

    service.engine.prepare = remember
    history = [{"role": "user", "content": QUESTION}, choice["message"]]
    for call in choice["message"]["tool_calls"]:
        history.append({"role": "tool", "tool_call_id": call["id"], "content": "21 degrees"})
    body = await answered(service, CHAT, tools=TOOLS, messages=history)

    assert body["choices"][0]["finish_reason"] == "stop"
    assert body["choices"][0]["message"]["content"]
    assert "tool_calls" not in body["choices"][0]["message"]
    [request] = asked
    _, sent, *results = request.messages
    assert sent["tool_calls"] == choice["message"]["tool_calls"]
    assert [result["name"] for result in results] == ["get_weather", "now"]
    assert [tool["function"]["name"] for tool in request.tools] == ["get_weather", "now"]
    # A text is no fault of an answer that may call tools.
    assert "answer_not_json" not in uncertainty_of(body)["warnings"]
    assert [unit["kind"] for unit in uncertainty_of(body)["units"]] == ["answer"]


async def test_other_results_and_other_tools_are_other_entries_of_the_cache(service):
    history = [
        {"role": "user", "content": QUESTION},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "a", "function": {"name": "now", "arguments": ""}}],
        },
        {"role": "tool", "tool_call_id": "a", "content": "noon"},
    ]
    other = json.loads(json.dumps(history))
    other[1]["tool_calls"][0]["function"]["name"] = "get_weather"
    found = []
    for messages, tools in [(history, TOOLS), (history, TOOLS), (other, TOOLS), (history, [NOW])]:
        body = await answered(service, CHAT, tools=tools, messages=messages)
        found.append(uncertainty_of(body)["cached"])
    assert found == [False, True, False, False]


async def test_with_tool_choice_none_the_model_is_shown_no_tools(service):
    plain = await answered(service, CHAT)
    body = await answered(service, CHAT, tools=TOOLS, tool_choice="none")
    assert body["choices"][0]["message"] == plain["choices"][0]["message"]
    assert uncertainty_of(body)["cached"]


@pytest.mark.parametrize("logprobs", [False, True])
async def test_a_stream_tells_the_same_calls_as_a_whole_answer(service, logprobs):
    asked = {"tools": TOOLS, "logprobs": logprobs}
    [whole] = (await answered(service, CHAT, **asked))["choices"]
    response = await post(service, CHAT, stream=True, **asked, uncertainty={"cache": False})
    *events, done = events_of(response.text)
    content, calls, reasons, tokens = "", {}, [], []
    for event in events:
        [choice] = event.data["choices"]
        delta = choice["delta"]
        content += delta.get("content") or ""
        for part in delta.get("tool_calls", ()):
            call = calls.setdefault(part["index"], {"function": {"name": "", "arguments": ""}})
            call |= {name: part[name] for name in ("id", "type") if name in part}
            for name, piece in part["function"].items():
                call["function"][name] += piece
        if choice["logprobs"]:
            tokens += choice["logprobs"]["content"]
        reasons.append(choice["finish_reason"])
    assert done.data == "[DONE]"
    assert (content or None) == whole["message"]["content"]
    assert reasons == [None] * (len(events) - 1) + ["tool_calls"]
    expected = [call["function"] for call in whole["message"]["tool_calls"]]
    assert [calls[i]["function"] for i in range(2)] == expected
    assert all(len(call["id"]) == 9 and call["type"] == "function" for call in calls.values())
    if logprobs:
        assert tokens == whole["logprobs"]["content"]


async def test_a_call_that_is_cut_short_is_text(service):
    body = await answered(service, CHAT, tools=TOOLS, max_tokens=3)
    [choice] = body["choices"]
    assert choice["finish_reason"] == "length"
    assert "tool_calls" not in choice["message"]
    assert "<tool_call>" in choice["message"]["content"] or "Let me" in choice["message"]["content"]


async def test_each_of_several_choices_has_its_calls(service):
    body = await answered(service, CHAT, tools=TOOLS, n=4, temperature=1, seed=1)
    for choice in body["choices"]:
        assert choice["finish_reason"] == "tool_calls"
        assert calls_of(choice)[1] == ("now", {})
    assert (
        uncertainty_of({"choices": body["choices"][:1]})["provenance"]["num_samples"] == 3
    )  # behind the answer


NULLS = {"enum": None, "minLength": None, "required": None, "items": None}


@pytest.mark.parametrize(
    "parameters",
    [
        {**PARAMETERS, "required": None, "minProperties": None},
        {**PARAMETERS, "properties": {"city": {"type": "string", **NULLS}}},
        {"type": "object", "properties": {"city": {"type": "string", "required": True}}},
        {"$ref": "#/x", "x": {"required": 7}},
    ],
    ids=["null", "null within", "a draft of old", "elsewhere"],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_tool_whose_parameters_cannot_be_read_costs_no_answer(service, parameters, stream):
    tool = {"type": "function", "function": {"name": "get_weather", "parameters": parameters}}
    wanted = {"num_samples": 4}
    response = await post(service, CHAT, tools=[tool, NOW], stream=stream, uncertainty=wanted)
    assert response.status_code == 200, response.text
    assert "/0/function/arguments" in response.text
    assert '"error":' not in response.text


async def test_what_a_tool_says_to_another_provider_is_left_out(service):
    said = {"cache_control": {"type": "ephemeral"}, "provider_specific_fields": {}}
    marked = []
    for tool in TOOLS:
        function = {**said, **tool["function"], "output_schema": None, "annotations": {}}
        marked.append({**tool, **said, "function": function})
    await answered(service, CHAT, tools=TOOLS)
    assert uncertainty_of(await answered(service, CHAT, tools=marked))["cached"]


async def test_what_a_tool_gave_may_be_no_parts_at_all(service):
    history = [{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": [CALL]}]
    for content in ("", []):
        told = [*history, {"role": "tool", "tool_call_id": "a", "content": content}]
        body = await answered(service, CHAT, tools=TOOLS, messages=told)
    assert uncertainty_of(body)["cached"]


CALL = {"id": "a", "type": "function", "function": {"name": "now", "arguments": "{}"}}


def history(**message):
    return {"messages": [{"role": "user", "content": "a"}, {"role": "assistant"} | message]}


REFUSED = [
    ({"tools": [{"type": "function"}]}, "tools.0.function"),
    ({"tools": [{"type": "custom", "custom": {}}]}, "tools.0.type"),
    ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools.0.function.name"),
    ({"tools": [NOW, NOW]}, "tools"),
    ({"tools": [NOW] * 129}, "tools"),
    ({"tools": TOOLS, "tool_choice": "sometimes"}, "tool_choice"),
    ({"tools": TOOLS, "parallel_tool_calls": False}, "tools"),  # the fake follows no grammar
    ({"tools": [], "tool_choice": "required"}, "tool_choice"),
    ({"tools": [STRICT]}, "tools"),
    ({"tools": TOOLS, "response_format": {"type": "json_object"}}, "response_format"),
    ({"tools": TOOLS, "tool_choice": "required"}, "tools"),
    (history(content=None), "messages.1.content"),
    (history(tool_calls=[CALL | {"type": "custom"}]), "messages.1.tool_calls.0.type"),
    (history(role="user", content="a", tool_calls=[CALL]), "messages.1.tool_calls"),
    (history(role="user", content="a", tool_call_id="a"), "messages.1.tool_call_id"),
]
for _arguments in ("[]", "{", "7", '"{}"', "[" * 5000):
    _call = CALL | {"function": {"name": "now", "arguments": _arguments}}
    _path = "messages.1.tool_calls.0.function.arguments"
    REFUSED.append((history(tool_calls=[_call]), _path))


@pytest.mark.parametrize(
    ("body", "param"), REFUSED, ids=[f"{i} {c[1]}" for i, c in enumerate(REFUSED)]
)
async def test_what_is_no_tool_and_no_call_is_refused_by_its_name(service, body, param):
    response = await post(service, CHAT, **body)
    error = response.json()["error"]
    assert (response.status_code, error["param"]) == (422, param), error


@pytest.mark.parametrize("choice", ["auto", "required"])
@pytest.mark.parametrize("kind", ["str", "FLOAT", "banana"])
async def test_types_of_tools_are_read_alike_whether_one_may_be_called_or_must(
    service, choice, kind
):
    function = {"name": "f", "parameters": {"properties": {"a": {"type": kind}}}}
    tools = [{"type": "function", "function": function}]
    response = await post(service, CHAT, tools=tools, tool_choice=choice)
    if kind != "banana":  # the fake engine holds no text to a schema
        assert response.status_code == 200 or "by this engine" in response.text
        return
    error = response.json()["error"]
    assert (response.status_code, error["param"]) == (422, "tools.0.function.parameters")
    assert error["message"].startswith("at #/properties/a: type 'banana' is none of")


def takes_no_tools(service):
    """Have the chat template refuse tools and system messages, as Gemma's does."""

    async def render(request):
        if request.tools:
            raise ChatTemplateError("the model's chat template takes no tools", field="tools")
        if (request.messages or ())[0]["role"] == "system":
            raise ChatTemplateError("System role not supported", field="messages.0")

    service.before_generating(render)


async def test_by_the_setting_a_chat_is_answered_as_if_it_had_no_tools():
    chat = {"messages": [SYSTEM, {"role": "user", "content": QUESTION}]}
    async with serving(access={"leave_out_tools": True}) as service:
        takes_no_tools(service)
        told = uncertainty_of(await answered(service, CHAT, tools=TOOLS, **chat))
        plain = uncertainty_of(await answered(service, CHAT, **chat))
        required = await post(service, CHAT, tools=TOOLS, tool_choice="required")
    assert plain["cached"], "the model is asked the same"
    assert plain["warnings"] == ["system_merged"]
    assert told["warnings"] == ["tools_left_out", "system_merged"]
    assert told["scores"] == plain["scores"]
    assert (required.status_code, required.json()["error"]["param"]) == (422, "tools")


@pytest.mark.parametrize("tools", [[NOW], [STRICT]], ids=["free", "strict"])
@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"n": 3, "temperature": 1},
        {"uncertainty": {"num_samples": 2, "estimators": ["sp"]}},
        {"response_format": {"type": "json_object"}},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {}}}},
    ],
    ids=str,
)
def test_the_ask_without_tools_is_that_of_a_chat_that_has_none(asked, tools):
    chat = {"model": "cocoa", "messages": [{"role": "user", "content": QUESTION}], **asked}
    with_tools = ask_of(ChatRequest.model_validate(chat | {"tools": tools}), light=False)
    plain = ask_of(ChatRequest.model_validate(chat), light=False)
    assert with_tools.without_tools() == replace(plain, unheeded=("tools_left_out",))


async def test_without_the_setting_tools_are_refused_where_the_template_takes_none(service):
    takes_no_tools(service)
    response = await post(service, CHAT, tools=TOOLS)
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (422, "chat_template_error")
    assert error["param"] == "tools"
