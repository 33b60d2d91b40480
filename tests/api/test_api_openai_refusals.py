"""What OpenAI's endpoints take and ignore, and what they refuse."""

import pytest

from app.scoring.ask import Ask
from models.errors import ChatTemplateError, EngineError, InvalidLogits, Overloaded
from models.images import PARTS
from tests.api.openai_calls import (
    CHAT,
    INPUTS,
    QUESTION,
    TEXT,
    answered,
    both,
    post,
    text_of,
    uncertainty_of,
)
from tests.conftest import serving

pytestmark = pytest.mark.anyio
PLACEMENTS = ["embedded", "remote"]


# What clients send unasked.
HARMLESS = {
    "n": 1,
    "frequency_penalty": 0,
    "presence_penalty": 0.0,
    "logit_bias": {},
    "user": "someone",
    "stream": False,
    "stream_options": None,
    "stop": None,
    "seed": None,
    "top_p": 1,
    "temperature": 0,
}
HARMLESS_IN = {
    CHAT: {
        "logprobs": False,
        "top_logprobs": None,
        "tools": [],
        "tool_choice": "none",
        "functions": [],
        "function_call": "auto",
        "parallel_tool_calls": True,
        "response_format": {"type": "text"},
        "store": False,
        "metadata": {"team": "a"},
        "modalities": ["text"],
        "service_tier": "auto",
        "prediction": None,
        "audio": None,
        "reasoning_effort": None,
        "safety_identifier": "x",
        "prompt_cache_key": "x",
        "web_search_options": None,
    },
    TEXT: {
        "best_of": 1,
        "echo": False,
        "suffix": None,
        "logprobs": False,
        "top_logprobs": 0,
        "response_format": {"type": "text"},
        "truncate_prompt_tokens": -1,
        "cache_salt": "x",
    },
}


@both
async def test_fields_that_ask_for_nothing_mean_nothing(service, path):
    plain = await answered(service, path)
    body = await answered(service, path, **HARMLESS, **HARMLESS_IN[path])
    assert text_of(body) == text_of(plain)
    assert uncertainty_of(body)["cached"]


async def test_an_answer_that_a_client_sends_back_is_taken_as_it_is(service):
    message = (await answered(service, CHAT))["choices"][0]["message"]
    message |= {"tool_calls": None, "function_call": None, "audio": None, "annotations": []}
    question = {"role": "user", "content": "Are you sure?", "name": None}
    await answered(service, CHAT, messages=[*INPUTS[CHAT]["messages"], message, question])


@pytest.mark.parametrize("name", ["Bo", "x" * 64])
async def test_the_name_of_a_speaker_is_accepted(service, name):
    question = INPUTS[CHAT]["messages"][0]
    named = await answered(service, CHAT, messages=[{**question, "name": name}])
    assert text_of(named)
    body = {"messages": [{**question, "name": name}]}
    response = await service.client.post("/generate-with-uncertainty", json=body)
    assert response.status_code == 200


@both
async def test_an_end_that_is_to_be_ignored_is_heeded_with_a_warning(service, path):
    plain, body = await answered(service, path), await answered(service, path, ignore_eos=True)
    assert text_of(body) == text_of(plain)
    assert uncertainty_of(body)["cached"]
    assert uncertainty_of(body)["warnings"] == ["ignore_eos_left_out"]


DRAWN = {"n": 3, "temperature": 1}


def shown(**part):
    return {"messages": [{"role": "user", "content": [part]}]}


UNSUPPORTED = [
    (CHAT, {"n": 2, "temperature": 0.01}, "n"),
    (CHAT, {"n": 65, "temperature": 1}, "n"),
    (CHAT, {"n": 2, "temperature": 1, "uncertainty": {"mode": "light"}}, "temperature"),
    (CHAT, {"frequency_penalty": 0.5}, "frequency_penalty"),
    (CHAT, {"presence_penalty": -1}, "presence_penalty"),
    (CHAT, {"logit_bias": {"50": 1}}, "logit_bias"),
    (CHAT, {"functions": [{"name": "f"}]}, "functions"),
    (CHAT, {"response_format": {"type": "xml"}}, "response_format"),
    (CHAT, {"store": True}, "store"),
    (CHAT, {"modalities": ["text", "audio"]}, "modalities"),
    (CHAT, {"reasoning_effort": "huge"}, "reasoning_effort"),
    (CHAT, {"service_tier": "flex"}, "service_tier"),
    (CHAT, {"verbosity": "low"}, "verbosity"),
    (CHAT, {"web_search_options": {}}, "web_search_options"),
    (CHAT, {"max_tokens": 3, "max_completion_tokens": 4}, "max_tokens"),
    (CHAT, {"stream": True, "stream_options": {"chunks": 1}}, "stream_options.chunks"),
    (CHAT, {"ignore_eos": "yes"}, "ignore_eos"),
    (TEXT, {"min_tokens": True}, "min_tokens"),
    (CHAT, {"messages": [{"role": "user", "content": None}]}, "messages.0.content"),
    (CHAT, shown(type="image_url", image_url={}), "messages.0.content.0.image_url.url"),
    (CHAT, shown(type="file", file={}), "messages.0.content.0"),
    (TEXT, {"prompt": ["a", ""]}, "prompt.1"),
    (TEXT, {"prompt": ["a", 1]}, "prompt.1"),
    (TEXT, {"prompt": [None]}, "prompt.0"),
    (TEXT, {"prompt": []}, "prompt"),
    (TEXT, {"prompt": ["a"] * 129}, "prompt"),
    (TEXT, {"prompt": [1, 2]}, "prompt"),
    (TEXT, {"prompt": [[1], [2]]}, "prompt.0"),
    (TEXT, {"prompt": ["a", "b"], "stream": True}, "stream"),
    (TEXT, {"prompt": ""}, "prompt"),
    (TEXT, {"best_of": 2}, "best_of"),
    (TEXT, {"echo": True}, "echo"),
    (TEXT, {"echo": True, "stream": True}, "stream"),
    (TEXT, {"echo": True, "max_tokens": 0, "n": 2}, "n"),
    (TEXT, {"echo": True, "max_tokens": 0, "uncertainty": {"num_samples": 2}}, "uncertainty"),
    (TEXT, {"echo": True, "max_tokens": False}, "max_tokens"),
    (TEXT, {"echo": True, "max_tokens": -2}, "max_tokens"),
    (CHAT, {"max_tokens": 0}, "max_tokens"),
    (CHAT, {"max_tokens": -2}, "max_tokens"),
    (TEXT, {"suffix": "."}, "suffix"),
    (TEXT, {"n": True}, "n"),
    (TEXT, DRAWN | {"uncertainty": {"num_samples": 1}}, "uncertainty.num_samples"),
    (TEXT, {"uncertainty": {"num_samples": "auto"}}, "uncertainty.num_samples"),
    (CHAT, {"uncertainty": {"stop_mass": 0.5}}, "uncertainty.stop_mass"),
    (CHAT, {"max_samples": 5}, "max_samples"),
    (TEXT, DRAWN | {"uncertainty": {"strategy": "greedy"}}, "uncertainty.strategy"),
    (TEXT, DRAWN | {"uncertainty": {"on_reject": "abstain"}}, "uncertainty.on_reject"),
    (TEXT, {"max_tokens": 0}, "max_tokens"),
    (TEXT, {"temperature": 2.5}, "temperature"),
    (TEXT, {"top_k": 5}, "top_k"),
    (TEXT, {"max_new_tokens": 5}, "max_new_tokens"),
    (TEXT, {"max_tokens": 2**63}, "max_tokens"),
    (TEXT, {"uncertainty": {"num_samples": 65}}, "uncertainty.num_samples"),
    (TEXT, {"uncertainty": {"estimators": ["no_such"]}}, "uncertainty.estimators.0"),
    (TEXT, {"uncertainty": {"similarity": "no_such"}}, "uncertainty.similarity"),
    (TEXT, {"uncertainty": {"target_error": 0.05}}, "uncertainty.target_error"),
    (TEXT, {"uncertainty": {"prompt": "a"}}, "uncertainty.prompt"),
    (TEXT, DRAWN | {"uncertainty": {"temperature": 1}}, "uncertainty.temperature"),
    (TEXT, {"uncertainty": {"strategy": "sample"}}, "uncertainty.strategy"),
    (TEXT, {"temperature": 1, "uncertainty": {"mode": "light"}}, "temperature"),
    (TEXT, {"uncertainty": {"mode": "light", "strategy": "mbr"}}, "uncertainty.strategy"),
    (TEXT, {"uncertainty": {"mode": "light", "num_samples": 5}}, "uncertainty.num_samples"),
    (CHAT, {"uncertainty": {"mode": "light", "temperature": 1}}, "uncertainty.temperature"),
    (TEXT, {"stream": True, "uncertainty": {"strategy": "mbr"}}, "uncertainty.strategy"),
    (TEXT, {"model": "cocoa:light", "uncertainty": {"mode": "full"}}, "uncertainty.mode"),
]


@pytest.mark.parametrize(
    ("path", "body", "param"), UNSUPPORTED, ids=[str(c[1]) for c in UNSUPPORTED]
)
async def test_what_is_not_supported_is_refused_by_its_name(service, path, body, param):
    calls = service.engine.num_calls
    response = await post(service, path, **body)
    error = response.json()["error"]

    assert (response.status_code, error["param"]) == (422, param), error
    assert error["type"] == "invalid_request_error"
    assert error["code"] in ("invalid_request", "not_calibrated")
    assert service.engine.num_calls == calls


@pytest.mark.parametrize(
    ("field", "meant"),
    [
        ("max_new_tokens", "max_tokens"),
        ("num_samples", "uncertainty.num_samples"),
        ("max_completion_token", "max_completion_tokens"),
        ("skip_special_tokens", "true"),
        ("add_special_tokens", "false"),
    ],
)
async def test_an_unknown_field_is_told_what_it_may_have_meant(service, field, meant):
    error = (await post(service, CHAT, **{field: 3})).json()["error"]
    assert error["param"] == field
    assert error["message"].endswith((f"did you mean {meant}?", f"or send {meant}"))


async def test_a_text_that_may_be_sent_is_told_in_quotes(service):
    error = (await post(service, TEXT, suffix="x")).json()["error"]
    assert error["message"].endswith("leave it out, or send ''")


async def test_tokens_are_not_told_of_models_elsewhere(service):
    for method, path, body in (
        ("GET", "/tokenizer_info", None),
        ("POST", "/tokenize", {"prompt": "a"}),
    ):
        response = await service.client.request(method, path, json=body)
        assert (response.status_code, response.json()["error"]["code"]) == (422, "invalid_request")
        assert "in this process or in a worker of ours" in response.json()["error"]["message"]


async def test_errors_are_of_openais_shape_whoever_finds_them(service):
    client = service.client
    found = {
        "invalid_json": await client.post(CHAT, content=b"{", headers=JSON),
        "unsupported_media_type": await client.post(CHAT, content=b"a=b", headers=FORM),
        "method_not_allowed": await client.get(CHAT),
        "not_found": await client.post("/v1/embeddings", json={}),
        "body_too_large": await client.post(CHAT, content=b"x" * 1_000_001, headers=JSON),
        "model_not_found": await post(service, CHAT, model="gpt-9"),
        "invalid_request": await post(service, CHAT, messages=[]),
    }
    for code, response in found.items():
        error = response.json()["error"]
        assert error.keys() == {"message", "type", "param", "code", "request_id"}, code
        assert (error["code"], error["type"]) == (code, "invalid_request_error")
        assert error["request_id"] == response.headers["x-request-id"]
        assert int(response.headers["content-length"]) == len(response.content)
    assert found["model_not_found"].status_code == 404
    assert found["model_not_found"].json()["error"]["param"] == "model"


JSON, FORM = {"Content-Type": "application/json"}, {"Content-Type": "text/plain"}


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (Overloaded("full", retry_after_s=7), 429, "rate_limit_error"),
        (EngineError("broken"), 503, "server_error"),
        (InvalidLogits("NaN"), 500, "server_error"),
        (RuntimeError("zanzibar"), 500, "server_error"),
    ],
    ids=["overloaded", "engine", "logits", "defect"],
)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_errors_of_the_core_keep_status_code_and_time_to_come_back(
    service, placement, error, status, kind, stream
):
    code = getattr(error, "code", "internal_error")
    if placement == "remote" and type(error) is RuntimeError:
        status, code = 503, "engine_error"  # a defect of the worker is its model's failure here
    service.generation_raises(error)
    response = await post(service, CHAT, stream=stream)
    told = response.json()["error"]

    assert (response.status_code, told["type"]) == (status, kind)
    assert told["code"] == code
    assert response.headers.get("retry-after") == {429: "7", 503: "1"}.get(status)
    assert "zanzibar" not in response.text


async def test_before_the_models_are_loaded_it_is_not_ready():
    async with serving(ready=False) as service:
        for response in (await post(service, CHAT), await service.client.get("/v1/models")):
            assert response.status_code == 503
            assert response.json()["error"]["code"] == "not_ready"


async def test_a_deadline_of_its_own_ends_it(service):
    service.generation_takes(5)
    response = await post(service, CHAT, uncertainty={"timeout_s": 0.05})
    assert (response.status_code, response.json()["error"]["code"]) == (504, "deadline_exceeded")


@pytest.mark.parametrize(
    ("asked", "same_as"),
    [
        ({"temperature": 0.01}, {}),
        ({"temperature": 0.049, "uncertainty": {"temperature": 0.7}}, {}),
        ({"seed": -1}, {}),
        ({"reasoning_effort": "none"}, {}),
        ({"repetition_penalty": 1.0, "min_p": 0}, {}),
        ({"top_k": -1, "provider": {}, "transforms": [], "thinking": None}, {}),
        ({"top_k": 0, "best_of": None, "images": []}, {}),
        ({"ignore_eos": False, "min_tokens": 0, "best_of": 1, "suffix": ""}, {}),
        ({"skip_special_tokens": True, "echo": False, "stream_options": {"echo": False}}, {}),
        ({"stream_options": {"include_usage": True, "continuous_usage_stats": True}}, {}),
        ({"add_special_tokens": False, "separate_reasoning": True, "cache_prompt": True}, {}),
        ({"response_format": {"type": "text", "json_schema": None}, "n_predict": -1}, {}),
    ],
    ids=str,
)
async def test_what_asks_for_nothing_by_its_value_means_nothing(service, asked, same_as):
    plain, body = await answered(service, CHAT), await answered(service, CHAT, **asked)
    assert text_of(body) == text_of(plain)
    assert uncertainty_of(body)["provenance"]["strategy"] == "greedy"


@both
async def test_several_choices_without_a_temperature_are_drawn_at_1(service, path):
    told = []
    for temperature in (None, 1):
        body = await answered(service, path, n=3, seed=5, temperature=temperature)
        assert uncertainty_of(body)["provenance"]["strategy"] == "sample"
        told.append([one["message"] if path == CHAT else one["text"] for one in body["choices"]])
    assert told[0] == told[1]
    assert len(told[0]) == 3


@pytest.mark.parametrize(
    "body",
    [
        {"repetition_penalty": 1.1},
        {"min_p": 0.1},
        {"seed": -2},
        {"top_k": 40},
        {"thinking": False},
        {"best_of": 0},
    ],
    ids=str,
)
async def test_what_asks_for_something_else_is_refused(service, body):
    response = await post(service, CHAT, **body)
    assert response.status_code == 422
    assert response.json()["error"]["param"] == next(iter(body))


@both
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_prompt_too_long_is_told_as_clients_with_fallbacks_expect(service, path, stream):
    question = "word " * 600
    own = {CHAT: {"messages": [{"role": "user", "content": question}]}, TEXT: {"prompt": question}}
    response = await post(service, path, stream=stream, **own[path])
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (400, "context_length_exceeded")
    assert error["message"].startswith("This model's maximum context length is")
    assert "prompt is too long" in error["message"]
    assert "512" in error["message"]
    elsewhere = await service.generate(prompt=question)
    assert (elsewhere.status_code, elsewhere.json()["error"]["code"]) == (422, "prompt_too_long")


# What clients send back of an answer beside its content.
ECHOED = [
    {"provider_specific_fields": None, "thinking_blocks": None, "cache_control": None},
    {"provider_specific_fields": {"refusal": None}, "reasoning_details": None},
    {"parsed": {"a": 1}, "uncertainty": {"value": 0.5}, "annotations": []},
    {"images": [], "cache": {}, "audio": None, "executed_tools": [{"type": "search"}]},
    {"annotations": [{"type": "url_citation", "url_citation": {"url": "https://a"}}]},
    {"content": [{"type": "text", "text": "Paris", "cache_control": {"type": "ephemeral"}}]},
    {"id": "msg_1", "type": "message", "weight": 1, "cache_control": 3, "ignore_eos": False},
    {"createdAt": "2026-01-01", "is_error": False, "prefix": False, "partial": False},
]


@pytest.mark.parametrize("fields", ECHOED, ids=lambda fields: ",".join(fields))
async def test_what_clients_keep_of_an_answer_may_be_sent_back(service, fields):
    said = {"role": "assistant", "content": "Paris"}
    told = []
    for answer in (said, said | fields):
        messages = [*INPUTS[CHAT]["messages"], answer, {"role": "user", "content": "Sure?"}]
        body = await answered(service, CHAT, messages=messages)
        told.append(text_of(body))
    assert told[0] == told[1]
    assert uncertainty_of(body)["cached"], "the model is shown the same"


async def test_a_part_of_another_type_is_told_which_types_are_read(service):
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "So"}]}]
    messages = [{"role": "assistant", "content": parts}, {"role": "user", "content": "Sure?"}]
    error = (await post(service, CHAT, messages=messages)).json()["error"]
    assert error["param"] == "messages.0.content.0"
    assert error["message"].startswith("Input should be of type text, image_url or refusal")


async def test_an_unknown_field_that_says_something_is_refused_in_messages_too(service):
    for name, value in {"priority": 1, "prefix": True, "other": 0, "another": False}.items():
        message = {"role": "user", "content": "Hi", name: value}
        error = (await post(service, CHAT, messages=[message])).json()["error"]
        assert error["param"] == f"messages.0.{name}"


async def test_a_refusal_of_the_history_is_what_was_said(service):
    told = []
    part = {"type": "refusal", "refusal": "No."}
    for answer in ({"content": "No."}, {"content": None, "refusal": "No."}, {"content": [part]}):
        messages = [
            *INPUTS[CHAT]["messages"],
            {"role": "assistant", **answer},
            {"role": "user", "content": "Why?"},
        ]
        told.append(uncertainty_of(await answered(service, CHAT, messages=messages))["cached"])
    assert told == [False, True, True]
    of_a_user = {"role": "user", "content": "Hi", "refusal": "No."}
    error = (await post(service, CHAT, messages=[of_a_user])).json()["error"]
    assert error["param"] == "messages.0.refusal"


SYSTEM = {"role": "system", "content": "Be brief."}


def takes_no_system(service, shown):
    """Have the chat template refuse system messages, as Gemma's does."""

    async def render(request):
        messages = request.messages or ()
        if any(message["role"] == "system" for message in messages):
            raise ChatTemplateError("System role not supported", field="messages.0")
        shown.append([message["content"] for message in messages])

    service.before_generating(render)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_system_message_that_the_template_does_not_take_goes_before_the_first_user_message(
    service, stream
):
    shown = []
    takes_no_system(service, shown)
    question, again = INPUTS[CHAT]["messages"][0], {"role": "user", "content": "Sure?"}
    messages = [SYSTEM, {"role": "developer", "content": "Be kind."}, question, again]
    response = await post(service, CHAT, messages=messages, stream=stream)
    assert response.status_code == 200
    assert "system_merged" in response.text
    assert shown[0] == [f"Be brief.\n\nBe kind.\n\n{question['content']}", "Sure?"]


@pytest.mark.parametrize("most", [64, 32_000, 2**63 - 1])
async def test_more_tokens_than_fit_are_as_many_as_fit_and_elsewhere_refused(service, most):
    warnings = ["max_new_tokens_clamped"] * (most > 64)
    for path in INPUTS:
        told = await answered(service, path, max_tokens=most)
        assert uncertainty_of(told)["warnings"] == warnings
    given = {"model": "cocoa", "input": QUESTION, "max_output_tokens": most}
    response = await service.client.post("/v1/responses", json=given)
    assert response.json()["uncertainty"]["warnings"] == warnings
    native = await service.generate(prompt=QUESTION, max_new_tokens=most)
    assert native.status_code == (422 if warnings else 200), "an answer of /v1 is not taken"
    if warnings:
        assert native.json()["error"]["field"] == "max_new_tokens"


@pytest.mark.parametrize("number", [-1, -1.0])
@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens", "max_output_tokens"])
async def test_a_length_of_minus_1_is_none(service, field, number):
    paths = {"max_tokens": [CHAT, TEXT], "max_completion_tokens": [CHAT]}
    for path in paths.get(field, ["/v1/responses"]):
        given = {"model": "cocoa", "input": QUESTION}
        if path in INPUTS:
            given = {"model": "cocoa"} | INPUTS[path]
        plain = await service.client.post(path, json=given)
        response = await service.client.post(path, json=given | {field: number})
        assert (plain.status_code, response.status_code) == (200, 200), response.text
        assert response.json()["usage"] == plain.json()["usage"]


async def test_an_image_stays_behind_a_merged_system_message():
    parts = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]
    user = {"role": "user", "content": "", PARTS: parts}
    merged = Ask(messages=(SYSTEM, user)).with_system_merged()
    assert merged.messages[0][PARTS] == [{"type": "text", "text": "Be brief.\n\n"}, *parts]
    assert merged.unheeded == ("system_merged",)
    assert Ask(messages=(user,)).with_system_merged() is None
    assert Ask(messages=(SYSTEM,)).with_system_merged() is None


async def test_the_setting_refuses_system_messages_as_the_template_does():
    shown = []
    async with serving(access={"merge_system": False}) as service:
        takes_no_system(service, shown)
        response = await post(service, CHAT, messages=[SYSTEM, *INPUTS[CHAT]["messages"]])
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (422, "chat_template_error")
    assert error["param"] == "messages.0"
    assert shown == []
