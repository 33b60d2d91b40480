"""What people send on their first day, and what they are told."""

import json

import pytest

from tests.conftest import GENERATE

pytestmark = pytest.mark.anyio

SCORE, CHAT = "/score", "/v1/chat/completions"
HI = [{"role": "user", "content": "Hi"}]
A_CHAT = {"model": "cocoa", "messages": HI}
OBJECT, EXTRA = "must be an object", "Extra inputs are not permitted"

# id: (path, body, field, the whole message)
TOLD = {
    "an answer alone": (
        SCORE,
        {"answer": "Paris"},
        "prompt",
        "nothing to score the answer by: send its prompt or messages, for the model here to read, "
        "or samples, answer_token_logprobs or documents, for scores without a model",
    ),
    "samples as strings": (
        SCORE,
        {"answer": "Paris", "samples": ["Paris", "Lyon"]},
        "samples.0",
        OBJECT + ', such as {"text": "…"}',
    ),
    "messages as strings": (
        GENERATE,
        {"messages": ["Hi"]},
        "messages.0",
        OBJECT + ', such as {"role": "…", "content": "…"}',
    ),
    "uncertainty as a string": (CHAT, A_CHAT | {"uncertainty": "high"}, "uncertainty", OBJECT),
    "a list": (GENERATE, ["Hi"], None, "the body must be a JSON object"),
    "a string to score": (SCORE, "Paris", None, "the body must be a JSON object"),
    "null": (GENERATE, None, None, "the body is missing: send a JSON object"),
    "a mistyped estimator": (
        GENERATE,
        {"prompt": "Hi", "estimators": ["cocoa_sp", "coca_ppl"]},
        "estimators.1",
        "unknown estimator; did you mean cocoa_ppl? GET /estimators lists all",
    ),
    "an estimator like none": (
        GENERATE,
        {"prompt": "Hi", "estimator": "zebra"},
        "estimator",
        "unknown estimator; GET /estimators lists all",
    ),
    "a mistyped field": (
        GENERATE,
        {"prompt": "Hi", "strateg": "sample"},
        "strateg",
        f"{EXTRA}; did you mean strategy?",
    ),
    "a field of the other endpoint": (GENERATE, {"prompt": "Hi", "answr": "Paris"}, "answr", EXTRA),
    "a mistyped field of a message": (
        GENERATE,
        {"messages": [HI[0] | {"contents": "Hi"}]},
        "messages.0.contents",
        f"{EXTRA}; did you mean content?",
    ),
    "a mistyped field of a sample": (
        SCORE,
        {"answer": "a", "samples": [{"text": "b", "logprobs": [-1]}]},
        "samples.0.logprobs",
        f"{EXTRA}; did you mean token_logprobs?",
    ),
    "a mistyped field of uncertainty": (
        CHAT,
        A_CHAT | {"uncertainty": {"num_sample": 3}},
        "uncertainty.num_sample",
        f"{EXTRA}; did you mean num_samples?",
    ),
    "a mistyped field of uncertainty, outside of it": (
        CHAT,
        A_CHAT | {"num_sample": 3},
        "num_sample",
        f"{EXTRA}; did you mean uncertainty.num_samples?",
    ),
    "a mistyped field of a label": (
        "/feedback",
        {"id": "a", "correkt": True, "quality": 1.0},
        "correkt",
        f"{EXTRA}; did you mean correct?",
    ),
    "a field of 900 kB": (GENERATE, {"prompt": "Hi", "n" * 900_000: 1}, "n" * 64, EXTRA),
}


def told(response):
    """Field and message of a refusal, whichever endpoint it is of."""
    error = response.json()["error"]
    return error.get("param", error.get("field")), error["message"]


@pytest.mark.parametrize(("path", "body", "field", "message"), TOLD.values(), ids=list(TOLD))
async def test_a_newcomer_is_told_what_to_send(service, path, body, field, message):
    response = await service.client.post(path, json=body)
    assert (response.status_code, *told(response)) == (422, field, message)


@pytest.mark.parametrize("path", [GENERATE, SCORE, CHAT, "/feedback"])
@pytest.mark.parametrize("headers", [{}, {"Content-Type": "application/json"}], ids=str)
async def test_a_body_left_out_is_missed_in_words(service, path, headers):
    response = await service.client.post(path, headers=headers)
    assert response.status_code == 422
    assert told(response) == (None, "the body is missing: send a JSON object")


async def test_an_item_that_is_a_string_is_told_what_an_item_is(service):
    response = await service.client.post(SCORE, json={"items": ["Paris", {"answer": "Paris"}]})
    errors = [one["error"]["message"] for one in response.json()["results"]]
    assert errors[0] == "the body must be a JSON object"
    assert errors[1].startswith("nothing to score the answer by")


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("coco", "this model is not served here; did you mean cocoa? GET /v1/models lists all"),
        ("gpt-9", "this model is not served here; GET /v1/models lists all"),
        ("c" * 257, "String should have at most 256 characters"),
    ],
)
async def test_a_mistyped_model_is_told_which_one_is_served(service, model, message):
    response = await service.client.post(CHAT, json=A_CHAT | {"model": model})
    assert told(response) == ("model", message)
    assert json.dumps(model) not in response.text
