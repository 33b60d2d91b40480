"""Likeliest tokens in the place of each of an answer's, as OpenAI's endpoints tell them."""

import math

import pytest

from tests.api.openai_calls import CHAT, TEXT, answered, post, text_of, uncertainty_of

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["embedded", "remote"])
def placement(request):
    """Each test once with the models in the service's process, and once behind HTTP."""
    return request.param


async def test_a_chat_tells_as_many_as_are_asked_for(service):
    body = await answered(service, CHAT, logprobs=True, top_logprobs=3)
    tokens = body["choices"][0]["logprobs"]["content"]
    assert "".join(token["top_logprobs"][0]["token"] for token in tokens) == text_of(body)
    for token in tokens:
        tops = token["top_logprobs"]
        assert len(tops) == 3
        assert tops[0]["token"] == token["token"]
        assert math.isclose(tops[0]["logprob"], token["logprob"])
        assert bytes(tops[0]["bytes"]).decode() == tops[0]["token"]


async def test_a_text_tells_them_by_their_texts(service):
    logprobs = (await answered(service, TEXT, logprobs=2))["choices"][0]["logprobs"]
    for token, value, tops in zip(
        logprobs["tokens"], logprobs["token_logprobs"], logprobs["top_logprobs"], strict=True
    ):
        assert len(tops) == 2
        assert tops[token] == pytest.approx(value)
    plain = (await answered(service, TEXT, logprobs=0))["choices"][0]["logprobs"]
    assert plain["top_logprobs"] is None
    assert plain["tokens"] == logprobs["tokens"]


async def test_an_answer_without_them_does_not_serve_a_request_with_them(service):
    found = []
    for num in (0, 2, 2):
        body = await answered(service, CHAT, logprobs=True, top_logprobs=num)
        found.append(uncertainty_of(body)["cached"])
        for token in body["choices"][0]["logprobs"]["content"]:
            assert len(token["top_logprobs"]) == num
    assert found == [False, False, True]


REFUSED = [
    (CHAT, {"top_logprobs": 2}, "top_logprobs"),
    (CHAT, {"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
    (CHAT, {"logprobs": True, "top_logprobs": 2, "temperature": 1}, "top_logprobs"),
    (CHAT, {"logprobs": True, "top_logprobs": 2, "stream": True}, "top_logprobs"),
    (
        CHAT,
        {"logprobs": True, "top_logprobs": 2, "uncertainty": {"strategy": "mbr"}},
        "top_logprobs",
    ),
    (TEXT, {"logprobs": 6}, "logprobs"),
    (TEXT, {"logprobs": 1, "temperature": 1}, "logprobs"),
    (TEXT, {"logprobs": 1, "stream": True}, "logprobs"),
]


@pytest.mark.parametrize(("path", "body", "param"), REFUSED)
async def test_they_are_told_of_a_whole_greedy_answer_alone(service, path, body, param):
    error = (await post(service, path, **body)).json()["error"]
    assert (error["code"], error["param"]) == ("invalid_request", param), error
