"""Bodies just below the default limit that were slow to refuse, by what they hold."""

import json

QUESTION = {"messages": [{"role": "user", "content": "Where?"}]}
GENERATE, SCORE = "/generate-with-uncertainty", "/score"


def numbers(count):
    """Log-probs that are none: above 0."""
    return {"text": "a", "token_logprobs": [1] * count}


def unknown_keys(count):
    return {f"key_{number}": 1 for number in range(count)}


def template_variable(value):
    return QUESTION | {"chat_template_kwargs": {"a": value}}


# what is sent: path, body, the field and the limit or the fault that are told
LARGE = {
    "64 samples of 7,400 wrong numbers": (
        SCORE,
        {"answer": "a", "samples": [numbers(7400)] * 64},
        "samples.0.token_logprobs.0",
        "less than or equal to 0",
    ),
    "65,000 unknown keys": (GENERATE, unknown_keys(65_000), None, "64 fields"),
    "1,024 messages of 60 unknown keys": (
        GENERATE,
        {"messages": [unknown_keys(60)] * 1024},
        "messages.0.role",
        "required",
    ),
    "template variables of 65,000 keys": (
        GENERATE,
        QUESTION | {"chat_template_kwargs": unknown_keys(65_000)},
        "chat_template_kwargs",
        "10000 values",
    ),
    "a template variable of 240,000 NaN": (
        GENERATE,
        template_variable([float("nan")] * 240_000),
        "chat_template_kwargs",
        "10000 values",
    ),
    "a template variable of 300,000 empty lists": (
        GENERATE,
        template_variable([[]] * 300_000),
        None,
        "20000 lists and objects",
    ),
    "300,000 empty items": (SCORE, {"items": [[]] * 300_000}, None, "20000 lists and objects"),
    "an item of 300,000 empty lists": (
        SCORE,
        {"items": [[[]] * 300_000]},
        None,
        "20000 lists and objects",
    ),
    "480,000 estimators": (
        GENERATE,
        {"prompt": "a", "estimators": [1] * 480_000},
        "estimators.0",
        "string",
    ),
}


def content_of(body):
    content = json.dumps(body, separators=(",", ":")).encode()
    assert 600_000 < len(content) < 1_000_000
    return content
