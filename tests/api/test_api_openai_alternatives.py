"""Likeliest tokens in the place of each of an answer's, as OpenAI's endpoints tell them."""

import json

import pytest

from app.http.openai.responses import Known, chat_logprobs, without_blank
from tests.api.openai_calls import (
    CHAT,
    INPUTS,
    TEXT,
    answered,
    both,
    post,
    said_at,
    text_of,
    uncertainty_of,
)

pytestmark = pytest.mark.anyio
PLACEMENTS = ["embedded", "remote"]
ALTERNATIVES = {CHAT: {"logprobs": True, "top_logprobs": 3}, TEXT: {"logprobs": 3}}


async def test_a_chat_tells_as_many_as_are_asked_for(service):
    body = await answered(service, CHAT, logprobs=True, top_logprobs=3)
    tokens = body["choices"][0]["logprobs"]["content"]
    assert "".join(token["top_logprobs"][0]["token"] for token in tokens) == text_of(body)
    for token in tokens:
        tops = token["top_logprobs"]
        assert len(tops) == 3
        assert tops[0]["token"] == token["token"]
        assert tops[0]["logprob"] == token["logprob"]
        assert bytes(tops[0]["bytes"]).decode() == tops[0]["token"]


def chosen_of(logprobs):
    """Each token that is shown: its name, its log-prob, and the likeliest in its place."""
    if "tokens" in logprobs:
        names, numbers = logprobs["tokens"], logprobs["token_logprobs"]
        return list(zip(names, numbers, logprobs["top_logprobs"], strict=True))
    found = []
    for one in logprobs["content"]:
        tops = {top["token"]: top["logprob"] for top in one["top_logprobs"]}
        found.append((one["token"], one["logprob"], tops))
    return found


@both
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_token_has_one_number_and_one_name_at_every_endpoint(service, path, stream):
    response = await post(service, path, **ALTERNATIVES[path], max_tokens=200, stream=stream)
    bodies = [response.text]
    if stream:
        bodies = [line[6:] for line in response.text.splitlines() if line][:-1]
    told = []
    for choice in [choice for body in bodies for choice in json.loads(body)["choices"]]:
        told += chosen_of(choice["logprobs"]) if choice.get("logprobs") else []
        end = choice["finish_reason"]
    for token, logprob, tops in told:
        assert tops[token] == logprob == max(tops.values())
    assert (end, told[-1][0]) == ("stop", "")  # the token that ended it adds no text

    asked = INPUTS[path] | {"max_new_tokens": 200, "return_tokens": True}
    native = await service.client.post("/generate-with-uncertainty", json=asked)
    tokens = native.json()["tokens"]
    assert [token["logprob"] for token in tokens] == [logprob for _, logprob, _ in told]
    whole = said_at(path, "".join(token["text"] for token in tokens))
    assert whole == "".join(token for token, _, _ in told)


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


@both
@pytest.mark.parametrize("drawn", [{}, {"temperature": 1, "seed": 3}], ids=["greedy", "drawn"])
async def test_chunks_tell_what_the_whole_response_tells(service, path, drawn):
    asked = drawn | ALTERNATIVES[path] | {"uncertainty": {"cache": False, "num_samples": 3}}
    whole = (await answered(service, path, **asked))["choices"][0]["logprobs"]
    response = await post(service, path, stream=True, **asked)
    *chunks, end = [line[6:] for line in response.text.splitlines() if line]
    assert end == "[DONE]"
    told = []
    for chunk in chunks:
        told += [choice["logprobs"] for choice in json.loads(chunk)["choices"]]
    joined = {}
    for one in filter(None, told):
        for name, values in one.items():
            joined[name] = joined.get(name, []) + (values or [])
    assert joined | {"refusal": None} == whole | {"refusal": None}


@both
async def test_a_drawn_answer_has_those_of_the_raw_law(service, path):
    asked = ALTERNATIVES[path] | {"temperature": 1.5, "seed": 11, "n": 3}
    body = await answered(service, path, **asked)
    assert len(body["choices"]) == 3
    for choice in body["choices"]:
        logprobs = choice["logprobs"]
        if path == CHAT:
            chosen = [(one["token"], one["logprob"]) for one in logprobs["content"]]
            tops = [
                {t["token"]: t["logprob"] for t in one["top_logprobs"]}
                for one in logprobs["content"]
            ]
        else:
            chosen = list(zip(logprobs["tokens"], logprobs["token_logprobs"], strict=True))
            tops = logprobs["top_logprobs"]
        assert len(tops) == len(chosen) > 0
        for (token, value), likeliest in zip(chosen, tops, strict=True):
            assert len(likeliest) == 3
            assert value <= max(likeliest.values()) + 1e-4
            if token in likeliest:
                assert likeliest[token] == pytest.approx(value, abs=1e-4)


REFUSED = [
    (CHAT, {"top_logprobs": 2}, "top_logprobs"),
    (CHAT, {"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
    (
        CHAT,
        {"logprobs": True, "top_logprobs": 2, "uncertainty": {"strategy": "mbr"}},
        "top_logprobs",
    ),
    (TEXT, {"logprobs": 6}, "logprobs"),
    (TEXT, {"logprobs": 1, "uncertainty": {"strategy": "most_probable"}}, "logprobs"),
]


@pytest.mark.parametrize(("path", "body", "param"), REFUSED)
async def test_they_are_told_of_greedy_and_of_drawn_answers_alone(service, path, body, param):
    error = (await post(service, path, **body)).json()["error"]
    assert (error["code"], error["param"]) == ("invalid_request", param), error


def test_two_alternatives_that_differ_by_the_blank_alone_stay_two():
    known = [Known(" Lima", -0.1, ((" Lima", -0.1), ("Lima", -3.0), (" The", -4.0)))]
    [token] = chat_logprobs(without_blank(known))["content"]
    assert token["token"] == token["top_logprobs"][0]["token"] == "Lima"
    told = [(one["token"], bytes(one["bytes"])) for one in token["top_logprobs"]]
    assert told == [("Lima", b" Lima"), ("Lima", b"Lima"), ("The", b"The")]


def test_a_part_of_a_character_has_its_bytes():
    known = [Known("€", -0.1, ((r"bytes:\xe2", -0.1), (r"bytes:\xe2\x82", -3.0)))]
    [token] = chat_logprobs(known)["content"]
    assert [one["bytes"] for one in token["top_logprobs"]] == [[0xE2], [0xE2, 0x82]]
