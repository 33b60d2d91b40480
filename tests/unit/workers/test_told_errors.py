"""What the operator's log has of a server's error: its own words, and none of the request's."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from workers.told_errors import words_of

SECRET = "swordfish-4711"
BODY = {
    "model": "small",
    "max_tokens": 8,
    "messages": [{"role": "user", "content": f"My word is {SECRET}, è così."}],
    "response_format": {"schema": {"properties": {"salary_of_anna": {"enum": ["blue whale"]}}}},
}


def error(**fields):
    return json.dumps({"error": fields}).encode()


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (
            error(message="Unsupported parameter", param="max_tokens", code="unsupported"),
            "code unsupported; parameter max_tokens; Unsupported parameter",
        ),
        (error(message="Too\nlong", type="BadRequest", code=None), "code BadRequest; Too long"),
        (b'{"error": "the model `small` is loading"}', "the model `small` is loading"),
        (b'{"detail": "Not Found"}', "Not Found"),
        (b"<h1>Bad Gateway</h1>", "<h1>Bad Gateway</h1>"),
        (b"", ""),
        (b"\xff\x1b[31m", "\ufffd [31m"),
        (error(message="x" * 900), "x" * 200),
    ],
)
def test_code_parameter_and_the_beginning_of_the_message_are_told(content, expected):
    assert words_of(content, BODY) == expected


@pytest.mark.parametrize(
    "quoted",
    [
        SECRET,
        "SWORDFISH",
        "a swordfis…",
        "4711",
        "word is swordfish",
        "salary_of_anna",
        "blue whale",
        repr(BODY),
        json.dumps(BODY),
        "è così",
        json.dumps("così"),
    ],
)
@pytest.mark.parametrize("place", ["message", "param", "code"])
def test_nothing_of_the_request_is_told_wherever_it_stands(quoted, place):
    told = words_of(error(**{"message": "refused", place: f"not allowed: {quoted}"}), BODY)
    assert "not allowed" in told
    for word in ("sword", "fish", "4711", "salary", "anna", "whale", "ì", "cos"):
        assert word not in told.casefold()


@pytest.mark.parametrize("key", ["Bearer sk-proj-Ab12Cd34Ef56", "Bearer hushhush"])
@pytest.mark.parametrize("shown", [slice(None), slice(0, 12), slice(-6, None)])
def test_no_part_of_a_key_is_told(key, shown):
    secret = key.removeprefix("Bearer ")
    told = words_of(error(message=f"Incorrect API key: ****{secret[shown]}"), BODY, key)
    assert told.startswith("Incorrect API")
    pieces = [secret[i : i + 4] for i in range(len(secret) - 3)]
    assert not any(piece in told for piece in pieces if piece.isalnum())


def test_token_ids_are_of_the_request_and_its_limits_are_not_hidden():
    body = {"model": "small", "prompt": [17, 30999, 4]}
    told = words_of(error(message="token 30999 of [17, 30999, 4] exceeds 2048"), body)
    assert told == "token … of […, …, …] exceeds 2048"


@given(st.text(min_size=1), st.text(max_size=40), st.text(max_size=40))
@example("hunter2", "\\", "")
def test_property_a_prompt_of_one_long_word_is_never_told(prompt, before, after):
    word = "".join(prompt.split())
    told = words_of(
        error(message=f"{before} {prompt} {after}"),
        {"prompt": prompt, "model": before + after},
    )
    if len(word) >= 4 and word.isascii() and word.isalnum() and word not in before + after:
        assert word not in told
