"""Five thousand hostile bodies at OpenAI's endpoints: none ends in a 500, and none is quoted."""

import json

import pytest

from app.http.openai.schemas import ChatCompletion, Completion, OpenAIError
from tests.api.hostile_bodies import KINDS, MARKER
from tests.api.openai_calls import CHAT, TEXT
from tests.api.test_api_hostile import REFUSED, ended, refuse_constant

pytestmark = pytest.mark.anyio

ASKED = {"model": "cocoa", "max_tokens": 8, "temperature": 0, "stop": [MARKER], "seed": 1}
ASKED |= {"uncertainty": {"estimators": ["cocoa_ppl"], "num_samples": 2, "timeout_s": 30.0}}
STREAM = {"stream": True, "stream_options": {"include_usage": True}}
MESSAGES = [
    {"role": "system", "content": [{"type": "text", "text": MARKER}]},
    {"role": "user", "content": f"{MARKER}?"},
]
BODIES = {
    CHAT: [ASKED | {"messages": MESSAGES}, ASKED | {"messages": MESSAGES} | STREAM],
    TEXT: [ASKED | {"prompt": f"{MARKER}?"}, ASKED | {"prompt": f"{MARKER}?"} | STREAM],
}
ANSWERS = {CHAT: ChatCompletion, TEXT: Completion}
# Kinds of which some bodies must be answered: else nothing behind the parser is tried.
ANSWERED = {"other_value", "raw_literal", "strange_text", "flipped", "other_type"}
CODES = {code for codes in REFUSED.values() for code in codes}
CODES |= {"model_not_found", "context_length_exceeded"}


def check(path, status, headers, data):
    """A response is one that the endpoint promises."""
    if headers[b"content-type"].startswith(b"text/event-stream"):
        assert status == 200
        assert data.endswith(b"data: [DONE]\n\n")
        for line in data.decode().splitlines():
            if line.startswith("data: {"):
                assert "error" not in json.loads(line[6:], parse_constant=refuse_constant)
        return
    content = json.loads(data, parse_constant=refuse_constant)
    if status == 200:
        ANSWERS[path].model_validate(content)
        return
    error = OpenAIError.model_validate(content, strict=True).error
    assert status in {400, 404, 413, 415, 422, 504}
    assert error.code in CODES
    assert MARKER not in error.message


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
async def test_a_hostile_body_ends_in_openais_shape_and_quotes_nothing(kind):
    statuses = await ended(kind, BODIES, 5_000, check)
    assert statuses[200] or kind.__name__ not in ANSWERED, statuses
    assert set(statuses) - {200}, statuses
