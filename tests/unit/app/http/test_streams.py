"""EventStream by ASGI messages: what a stream says when the server gives up waiting for it."""

import asyncio
import time

import pytest
from starlette.routing import Route

from app.http.streams import EventStream, NamedEvents
from app.http.telemetry import Telemetry
from models.records import Token
from tests.events import events_of

pytestmark = pytest.mark.anyio


class Server:
    """Who calls the application: what it was sent, and whether it takes more."""

    def __init__(self, work):
        self.stream = EventStream(work, NamedEvents("id"), Telemetry())
        self.sent, self.takes = [], asyncio.Event()
        self.takes.set()
        state = {"request_id": "id", "started_at": time.perf_counter()}
        route = Route("/path", lambda request: None)
        self.scope = {"type": "http", "path": "/path", "state": state, "route": route}

    async def receive(self):
        await asyncio.Event().wait()

    async def send(self, message):
        await self.takes.wait()
        self.sent.append(message)

    def begin(self):
        return asyncio.create_task(self.stream(self.scope, self.receive, self.send))

    @property
    def text(self):
        return b"".join(message.get("body", b"") for message in self.sent).decode()


def endless(cancelled):
    async def work(on_token):
        on_token(Token("Pa"))
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    return work


async def test_a_server_that_stops_ends_a_stream_with_an_error_and_its_work():
    cancelled = []
    server = Server(endless(cancelled))
    task = server.begin()
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    token, error = events_of(server.text)
    assert (token.name, token.data["text"]) == ("token", "Pa")
    assert (error.name, error.data["error"]["code"]) == ("error", "not_ready")
    assert cancelled == [True]
    assert server.scope["state"]["status"] == 503


async def test_a_server_that_stops_does_not_wait_for_a_reader_that_takes_nothing():
    cancelled = []
    server = Server(endless(cancelled))
    server.takes.clear()
    task = server.begin()
    await asyncio.sleep(0.05)
    task.cancel()
    async with asyncio.timeout(30):
        with pytest.raises(asyncio.CancelledError):
            await task
    assert cancelled == [True]
    assert server.sent == []


async def test_tokens_that_came_together_are_sent_together():
    async def work(on_token):
        for text in ("a", "b", "c"):
            on_token(Token(text))
        await asyncio.sleep(0.05)
        raise RuntimeError("no result is needed here")

    server = Server(work)
    await server.begin()
    bodies = [message["body"] for message in server.sent[1:]]
    assert [body.count(b"event: ") for body in bodies] == [3, 1, 0]
    assert [message.get("more_body") for message in server.sent[1:]] == [True, True, False]
