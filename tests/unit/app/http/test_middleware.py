"""The middleware by ASGI messages: ids, errors and the body limit.

Also what the metrics count when nobody is left to answer.
"""

import asyncio
import json
import logging
from types import SimpleNamespace

import pytest

from app.http.middleware import BodyLimit, Gate, RequestLog
from app.http.telemetry import Telemetry
from app.settings import Limits

pytestmark = pytest.mark.anyio


def chunk(body, *, more=False):
    return {"type": "http.request", "body": body, "more_body": more}


LIMITS = Limits(max_body_bytes=8)
GONE = {"type": "http.disconnect"}


def around(app, telemetry, limits=LIMITS):
    """The application with all of the middleware around it."""
    return RequestLog(BodyLimit(app, limits), telemetry, Gate(None, has_ops_port=False))


class Call:
    """One request through the middleware to an application that echoes its body."""

    def __init__(self, *messages, headers=(), app=None, limits=LIMITS):
        self.messages = list(messages)
        self.headers = list(headers)
        self.sent = []
        self.seen = []
        self.telemetry = Telemetry()
        self._service = around(app or self.echo, self.telemetry, limits)

    async def __call__(self):
        scope = {"type": "http", "method": "POST", "path": "/raw", "headers": self.headers}
        await self._service(scope, self.receive, self.send)
        return self

    async def receive(self):
        return self.messages.pop(0)

    async def send(self, message):
        self.sent.append(message)

    async def echo(self, scope, receive, send):
        self.seen.append(await receive())
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x-echo", b"1")]})
        await send({"type": "http.response.body", "body": self.seen[0].get("body", b"")})

    @property
    def status(self):
        return self.sent[0]["status"]

    def counted(self, status):
        return self.telemetry.registry.get_sample_value(
            "cocoa_requests_total", {"route": "none", "status": str(status)}
        )


async def test_a_chunked_body_reaches_the_application_in_one_piece():
    call = await Call(chunk(b"ab", more=True), chunk(b"", more=True), chunk(b"cd"))()
    assert call.seen == [chunk(b"abcd")]
    assert call.sent[1]["body"] == b"abcd"
    assert call.counted(200) == 1


async def test_after_the_body_the_application_hears_what_the_server_says():
    async def app(scope, receive, send):
        call.seen.extend([await receive(), await receive()])

    call = Call(chunk(b"ab"), GONE, app=app)
    await call()
    assert call.seen == [chunk(b"ab"), GONE]


@pytest.mark.parametrize("length", [b"8", b"-1", b"abc", b""])
async def test_a_declared_length_within_the_limit_or_no_number_is_not_believed(length):
    call = await Call(chunk(b"x" * 8), headers=[(b"content-length", length)])()
    assert call.status == 200


@pytest.mark.parametrize(
    ("length", "status"), [(b"9" * 5000, 413), (b"0" * 5000 + b"8", 200), (b"0" * 5000, 200)]
)
async def test_a_length_of_5000_digits_is_a_length(length, status):
    call = await Call(chunk(b"x" * 8), headers=[(b"content-length", length)])()
    assert call.status == status


async def test_a_body_that_does_not_come_is_refused_and_the_connection_given_up():
    call = Call(chunk(b"", more=True), limits=Limits(max_body_s=1e-9))
    await call()
    assert call.status == 408
    assert json.loads(call.sent[1]["body"])["error"]["code"] == "request_timeout"
    assert dict(call.sent[0]["headers"])[b"connection"] == b"close"
    assert call.counted(408) == 1


async def test_the_applications_own_headers_stay_beside_the_id():
    call = await Call(chunk(b""), headers=[(b"x-request-id", b"abc")])()
    assert call.sent[0]["headers"] == [(b"x-echo", b"1"), (b"x-request-id", b"abc")]


async def test_a_response_is_on_its_way_before_its_request_is_counted():
    told = []

    async def app(scope, receive, send):
        # A server writes at the end of the loop's turn.
        asyncio.get_running_loop().call_soon(lambda: told.append(call.counted(200)))
        await send({"type": "http.response.start", "status": 200, "headers": []})

    call = Call(chunk(b""), app=app)
    await call()
    assert (told, call.counted(200)) == ([None], 1)


async def test_an_exception_after_the_response_began_sends_no_second_one():
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise RuntimeError("secret")

    call = await Call(chunk(b""), app=app)()
    assert [message["type"] for message in call.sent] == ["http.response.start"]
    assert call.counted(200) == 1


async def test_a_client_that_goes_before_its_body_is_complete_is_no_request():
    call = await Call(chunk(b"ab", more=True), GONE)()
    assert call.seen == [], "half a body is nobody's request"
    assert call.counted(499) == 1


async def test_other_protocols_pass_through():
    seen = []

    async def app(scope, receive, send):
        seen.append(scope["type"])

    await around(app, Telemetry())({"type": "lifespan"}, None, None)
    assert seen == ["lifespan"]


@pytest.mark.parametrize(("path", "is_counted"), [("/v1/info", False), ("/v1/generate", True)])
async def test_a_gateways_poll_of_its_worker_is_neither_counted_nor_logged(
    path, is_counted, caplog
):
    caplog.set_level(logging.INFO)

    async def app(scope, receive, send):
        scope["route"] = SimpleNamespace(path=path)
        await send({"type": "http.response.start", "status": 200, "headers": []})

    call = await Call(chunk(b""), app=app)()
    labels = {"route": path, "status": "200"}
    counted = call.telemetry.registry.get_sample_value("cocoa_requests_total", labels)
    assert (counted is not None, bool(caplog.records)) == (is_counted, is_counted)
