"""Thousands of hostile bodies: each ends in a documented status and the one error shape.

None ends in a 500.
"""

import asyncio
import json
from collections import Counter
from random import Random

import pytest

from app.http.schemas import ErrorResponse, GenerateResponse, ScoreResults
from app.settings import Limits
from models.errors import answered
from tests.api.hostile_bodies import BODIES, KINDS, LIMIT, MARKER
from tests.conftest import serving

pytestmark = pytest.mark.anyio

REFUSED = {400: {"invalid_json"}, 413: {"body_too_large"}, 415: {"unsupported_media_type"}}
for status in (422, 504):
    REFUSED[status] = {error.code for error in answered() if error.status == status}
# Every kind must reach what it is made for: where the parser refuses all, nothing behind it is
# tried.
REACHES = {
    "other_value": {200, 422},
    "raw_literal": {200, 400, 422},
    "strange_text": {200, 422},
    "strange_key": {200, 422},
    "doubled_key": {422},
    "deep": {200, 400, 413, 422},
    "cut": {400, 422},
    "flipped": {200, 400, 422},
    "not_utf8": {400},
    "other_type": {200, 400, 415},
    "long_list": {200, 413, 422},
    "around_the_limit": {200, 413, 422},
    "noise": {400, 413},
}


async def post(app, path, body, content_type=None, headers=()):
    """Status, headers and body of the response, through the application alone.

    Thousands of clients would be slower.
    """
    headers = list(headers)
    if content_type is not None:
        headers.append((b"content-type", content_type.encode("latin-1")))
    scope = {
        **{
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
        },
        **{
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": headers,
        },
        **{"client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80)},
    }
    sent = []
    parts = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive():
        if parts:
            return parts.pop()
        return await asyncio.get_running_loop().create_future()  # a client that stays

    async def send(message):
        sent.append(message)

    await app(scope, receive, send)
    start, *rest = sent
    return (
        start["status"],
        dict(start["headers"]),
        b"".join(message.get("body", b"") for message in rest),
    )


def refuse_constant(name):
    raise AssertionError(f"{name} is no JSON")


def check_error(status, error):
    """One error's code belongs to its status, and its message quotes nothing."""
    assert error.code in REFUSED[status]
    assert error.message
    assert MARKER not in error.message


def check(path, status, headers, data):
    """A response is one that the document promises."""
    assert headers[b"content-type"] == b"application/json"
    content = json.loads(data, parse_constant=refuse_constant)
    if status != 200:
        error = ErrorResponse.model_validate(content, strict=True, extra="forbid").error
        assert error.request_id == headers[b"x-request-id"].decode()
        return check_error(status, error)
    if "results" not in content:
        GenerateResponse.model_validate(content, extra="forbid")
        return None
    for outcome in ScoreResults.model_validate(content).results:
        assert (outcome.result is None) != (outcome.error is None)
        if outcome.error is not None:
            check_error(status_of(outcome.error), outcome.error)
    return None


def status_of(error):
    return next((status for status, codes in REFUSED.items() if error.code in codes), None)


async def ended(kind, bodies, num_bodies, check):
    """Statuses of this kind's share of so many bodies; each response is checked."""
    random, statuses = Random(kind.__name__), Counter()
    async with serving(limits=Limits(max_body_bytes=LIMIT)) as service:
        for _ in range(-(-num_bodies // len(KINDS))):
            path = random.choice(list(bodies))
            body, content_type = kind(random, random.choice(bodies[path]))
            status, headers, data = await post(service.app, path, body, content_type)
            statuses[status] += 1
            try:
                check(path, status, headers, data)
            except Exception as error:
                raise AssertionError(f"{path}: {body[:300]} gave {status} {data[:300]}") from error
        assert service.deaths == []
        assert service.admission.num_admitted == 0
    return statuses


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
async def test_a_hostile_body_ends_in_a_documented_status_and_quotes_nothing(kind):
    statuses = await ended(kind, BODIES, 4_000, check)
    assert statuses.keys() >= REACHES[kind.__name__]
