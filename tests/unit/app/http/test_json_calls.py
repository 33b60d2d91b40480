"""Calls in JSON: bodies of any declared type are read, and work ends with its client."""

import asyncio

import pytest
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, TypeAdapter
from starlette.requests import ClientDisconnect

from app.http.json_calls import _members, json_response, read_body, unless_gone
from app.http.middleware import Gate, JsonCalls, add_middleware
from app.http.telemetry import Telemetry
from app.settings import Limits

pytestmark = pytest.mark.anyio


class Body(BaseModel):
    prompt: str


async def echo(request: Request):
    body = await read_body(request, TypeAdapter(Body))

    async def work():
        return body

    async with unless_gone(request):
        return json_response(await work())


def application():
    made = FastAPI()
    made.post("/")(echo)
    add_middleware(made, Telemetry(), Limits(), Gate())
    return made


class Name(str):
    """A text that counts how often texts are compared."""

    num_compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other):
        Name.num_compared += 1
        return str.__eq__(self, other)


def test_a_name_that_comes_twice_is_found_without_comparing_all_of_them():
    pairs = [(Name(f"a{number % 499}"), 1) for number in range(500)]
    with pytest.raises(RequestValidationError) as raised:
        _members(pairs)
    assert "'a0' twice" in raised.value.errors()[0]["msg"]
    assert Name.num_compared < 5000


async def test_posts_go_straight_to_their_endpoints_and_all_else_to_the_application():
    calls = []

    async def rest(scope, receive, send):
        calls.append((scope["type"], scope.get("method"), scope.get("path")))

    routes = application().routes
    [route] = [one for one in routes if one.path == "/"]
    straight = JsonCalls(rest, routes)
    sent = []

    async def send(message):
        sent.append(message)

    async def receive():
        return {"type": "http.disconnect"}

    asked = [("http", "GET", "/"), ("http", "POST", "/docs"), ("lifespan", None, None)]
    for kind, method, path in asked:
        await straight({"type": kind, "method": method, "path": path}, receive, send)
    assert (calls, sent) == (asked, [])

    scope = {"type": "http", "method": "POST", "path": "/", "headers": []}
    scope["state"] = {"body": b'{"prompt": "Hi"}'}
    await straight(scope, receive, send)
    assert (len(calls), sent[1]["body"]) == (len(asked), b'{"prompt":"Hi"}')
    assert scope["route"] is route, "metrics and logs name it"


class Client:
    """A request whose client leaves when told to; before, the server may send an empty message."""

    def __init__(self, *messages):
        self.messages = list(messages)
        self.gone = asyncio.Event()
        self.request = Request({"type": "http"}, self.receive)

    async def receive(self):
        if self.messages:
            return self.messages.pop(0)
        await self.gone.wait()
        return {"type": "http.disconnect"}


class Work:
    def __init__(self):
        self.started = asyncio.Event()
        self.cancelled = False

    async def run(self):
        self.started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise


async def ended(request, work):
    async with unless_gone(request):
        return await work


async def only_this_task_runs():
    await asyncio.sleep(0)
    names = [task.get_coro().__qualname__ for task in asyncio.all_tasks()]
    return not any(name.startswith(("unless_gone", "ended", "Work")) for name in names)


async def test_an_exception_comes_back_as_it_is():
    async def work():
        raise ValueError("bad")

    with pytest.raises(ValueError, match="bad"):
        await ended(Client().request, work())
    assert await only_this_task_runs()


@pytest.mark.parametrize(
    "messages", [[], [{"type": "http.request", "body": b"", "more_body": False}]]
)
async def test_the_work_is_cancelled_when_the_client_goes(messages):
    client, work = Client(*messages), Work()
    waiting = asyncio.create_task(ended(client.request, work.run()))
    await work.started.wait()
    client.gone.set()
    with pytest.raises(ClientDisconnect):
        await waiting
    assert work.cancelled
    assert await only_this_task_runs()


async def test_the_work_is_cancelled_when_the_handler_is():
    work = Work()
    waiting = asyncio.create_task(ended(Client().request, work.run()))
    await work.started.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert work.cancelled
    assert await only_this_task_runs()


async def test_work_that_is_done_when_the_client_goes_still_answers():
    client = Client()
    client.gone.set()

    async def work():
        return 5

    assert await ended(client.request, work()) == 5
