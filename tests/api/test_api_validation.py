"""The limits of each request field over HTTP.

`field` names the field, the message names its limit, and no value is quoted.
"""

import json

import pytest

from app.http.requests.bodies import GenerateRequest
from tests.conftest import GENERATE

pytestmark = pytest.mark.anyio

BASE = {"prompt": "zanzibar-sentinel", "max_new_tokens": 8}
CHAT = {"prompt": None, "messages": [{"role": "user", "content": "zanzibar-sentinel"}]}
ESTIMATED = ["cocoa_sp", "cocoa_ppl", "cocoa_mte", "sp", "ppl", "mte"]
ESTIMATED += ["inconsistency", "mcse", "mcnse"]
NAN = float("nan")
SURROGATE = "zanzibar-sentinel \ud800"


def called(value):
    """A chat with a call whose argument is this JSON."""
    function = {"name": "f", "arguments": f'{{"a": {value}}}'}
    call = {"id": "1", "type": "function", "function": function}
    return chat(role="assistant", tool_calls=[call])


def chat(**message):
    return {
        "prompt": None,
        "messages": [{"role": "user", "content": "zanzibar-sentinel"} | message],
    }


# id: (changes of the body, field, part of the message)
# field: {part of the message: values}
OUT_OF_BOUNDS = {
    "num_samples": {
        "greater than or equal to 1": [0],
        "less than or equal to 64": [65, 10**4000],
        "valid integer": ["10", True, 1.5, "all", NAN],
    },
    "max_new_tokens": {
        "greater than or equal to 1": [0, -2],
        "less than 9223372036854775808": [2**63],
    },
    "temperature": {
        "at least 0.05 where samples are drawn": [0],
        "greater than or equal to 0": [-1.0],
        "less than or equal to 2": [2.01],
        "finite number": [NAN, float("inf")],
        "valid number": ["1.0", True],
        "at least 0.05": [0.04],
    },
    "top_k": {
        "greater than or equal to 0": [-1],
        "less than or equal to 1000": [1001],
        "0 or at least 2": [1],
    },
    "top_p": {"greater than 0": [0], "less than or equal to 1": [1.01], "at least 0.05": [0.04]},
    "seed": {
        "greater than or equal to 0": [-2],
        "less than 9223372036854775808": [2**63],
        "valid integer": ["1"],
    },
    "timeout_s": {
        "greater than 0": [0],
        "less than or equal to 600": [601],
        "finite number": [float("inf")],
    },
    "stop": {"at most 8": [["a"] * 9], "valid list": [5]},
    "prompt": {
        "at least 1 character": [""],
        "valid string": [5, ["zanzibar-sentinel"], SURROGATE],
        "exactly one of prompt and messages": [None],
    },
    "chat_template_kwargs": {"needs messages": [{"a": 1}]},
    "mode": {"'full'": ["lite"]},
    "strategy": {"'greedy'": ["sampled"]},
    "estimators": {"at least 1": [[]], "at most 64": [["sp"] * 65], "valid list": ["sp"]},
    "estimator": {"GET /estimators": ["zanzibar-sentinel"]},
    "return_samples": {"valid boolean": [1]},
    "return_tokens": {"valid boolean": ["true"]},
    "n": {"not permitted": [3]},
}
# id: (changes of the body, field, part of the message)
REFUSED = {
    "max_samples": ({"max_samples": 5}, "max_samples", "not permitted"),
    "claims": ({"units": "claims"}, "units", "'answer', 'fields' or 'sentences'"),
    "temperature 0 for samples that are only returned": (
        {"temperature": 0, "estimators": ["sp"], "return_samples": True},
        "temperature",
        "at least 0.05",
    ),
    "a temperature that is subnormal in float32": (
        {"temperature": 1e-39, "estimators": ["sp"], "return_samples": True},
        "temperature",
        "at least 0.05",
    ),
    "stop with an empty one": ({"stop": ["a", ""]}, "stop.1", "at least 1 character"),
    "stop of 65 characters": ({"stop": ["x" * 65]}, "stop.0", "at most 64 characters"),
    "one stop, empty": ({"stop": ""}, "stop.0", "at least 1 character"),
    "stop with a lone surrogate": ({"stop": [SURROGATE]}, "stop.0", "valid string"),
    "both of them": (CHAT | {"prompt": "a"}, "prompt", "exactly one of prompt and messages"),
    "messages empty": (CHAT | {"messages": []}, "messages", "at least 1"),
    "messages of 1025": (CHAT | {"messages": CHAT["messages"] * 1025}, "messages", "at most 1024"),
    "a message that is text": (
        CHAT | {"messages": ["zanzibar-sentinel"]},
        "messages.0",
        'must be an object, such as {"role": "…", "content": "…"}',
    ),
    "a role that is empty": (chat(role=""), "messages.0.role", "at least 1 character"),
    "a role of 33 characters": (chat(role="x" * 33), "messages.0.role", "at most 32 characters"),
    "a content that is null": (chat(content=None), "messages.0.content", "required"),
    "a content with a surrogate": (chat(content=SURROGATE), "messages.0.content", "valid string"),
    "chat_template_kwargs of 33": (
        CHAT | {"chat_template_kwargs": {str(i): i for i in range(33)}},
        "chat_template_kwargs",
        "at most 32",
    ),
    "a template variable with a lone surrogate": (
        CHAT | {"chat_template_kwargs": {"a": ["x", {"b": SURROGATE}]}},
        "chat_template_kwargs",
        "",
    ),
    "arguments of a call that are nested too deep": (
        called("[" * 900 + "]" * 900),
        "messages.0.tool_calls.0.function.arguments",
        "at most 200 deep",
    ),
    "arguments of a call with half a surrogate pair": (
        called(r'"\ud800"'),
        "messages.0.tool_calls.0.function.arguments",
        "JSON object",
    ),
    "estimators with an unknown one": (
        {"estimators": ["sp", "zanzibar-sentinel"]},
        "estimators.1",
        "GET /estimators",
    ),
    "an unknown field with a long name": ({"n" * 100: 3}, "n" * 64, "not permitted"),
    "an unknown field with a lone surrogate": ({"\ud800": 3}, None, ""),
}
for _field, _parts in OUT_OF_BOUNDS.items():
    for _part, _values in _parts.items():
        for _value in _values:
            REFUSED[f"{_field} {_value!r:.20}"] = ({_field: _value}, _field, _part)


@pytest.mark.parametrize(("change", "field", "part"), REFUSED.values(), ids=list(REFUSED.keys()))
async def test_a_value_out_of_bounds_is_refused_by_field_and_limit(service, change, field, part):
    response = await post(service, BASE | change)
    assert response.status_code == 422, response.text
    error = response.json()["error"]
    assert error["code"] == "invalid_request"
    assert error["request_id"] == response.headers["x-request-id"]
    assert part in error["message"]
    if field is not None:
        assert error["field"] == field
    assert "zanzibar-sentinel" not in response.text
    assert service.engine.num_calls == 1, "only the warm-up"


@pytest.mark.parametrize(
    "body", [[], None, "zanzibar-sentinel", 5], ids=["list", "null", "text", "number"]
)
async def test_a_body_that_is_no_object_is_refused(service, body):
    response = await post(service, body)
    assert response.status_code == 422
    assert response.json()["error"]["code"] == "invalid_request"
    assert "zanzibar-sentinel" not in response.text


ACCEPTED = {
    "the least of everything": {
        "num_samples": 1,
        "max_new_tokens": 1,
        "temperature": 0.05,
        "top_k": 0,
        "top_p": 0.05,
        "seed": 0,
        "stop": [],
    },
    "the most of everything": {
        "num_samples": 64,
        "temperature": 2,
        "top_k": 1000,
        "top_p": 1,
        "seed": 2**63 - 1,
        "timeout_s": 600,
        "stop": ["x" * 64] * 8,
    },
    "top_k 2": {"top_k": 2},
    "messages": CHAT,
    "messages with variables of the template": CHAT
    | {"chat_template_kwargs": {"enable_thinking": False}},
    "a prompt of blanks": {"prompt": " "},
    "estimators named twice": {"estimators": [*ESTIMATED, *ESTIMATED]},
    "an emoji": {"prompt": "🦓"},
    "a NUL": {"prompt": "a\0b"},
    "null for every field but the prompt": dict.fromkeys(
        GenerateRequest.model_fields.keys() - {"prompt", "max_new_tokens"}
    ),
    "temperature 0 without samples": {"temperature": 0, "estimators": ["sp"]},
    "temperature near 0 without samples": {"temperature": 1e-9, "estimators": ["sp"]},
    "top_k 1 without samples": {"top_k": 1, "estimators": ["sp", "ppl", "mte"]},
    "a tiny top_p without samples": {"top_p": 1e-9, "estimators": ["sp"]},
}


@pytest.mark.parametrize("change", ACCEPTED.values(), ids=list(ACCEPTED.keys()))
async def test_a_value_at_its_bound_is_accepted(service, change):
    response = await post(service, BASE | change)
    assert response.status_code == 200, response.text


@pytest.mark.parametrize("depth", [300, 3000])
async def test_deeply_nested_template_variables_end_in_a_typed_answer(service, depth):
    nested = "[" * depth + "]" * depth
    content = json.dumps(BASE | CHAT)[:-1] + f', "chat_template_kwargs": {{"a": {nested}}}}}'
    response = await service.client.post(
        GENERATE, content=content, headers={"content-type": "application/json"}
    )
    assert response.status_code in {200, 400, 422}
    assert "ecursion" not in response.text


async def post(service, body):
    """As text, since httpx refuses NaN and lone surrogates."""
    return await service.client.post(
        GENERATE, content=json.dumps(body).encode(), headers={"content-type": "application/json"}
    )
