"""unless_gone: the result, or the work is cancelled with the client; nothing is left running."""

import asyncio

import pytest
from starlette.requests import Request

from app.http.disconnect import ClientGone, unless_gone

pytestmark = pytest.mark.anyio


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


async def only_this_task_runs():
    await asyncio.sleep(0)
    names = [task.get_coro().__qualname__ for task in asyncio.all_tasks()]
    return not any(name.startswith(("_Watcher", "Work")) for name in names)


async def test_the_result_comes_back_and_nothing_watches_on():
    async def work():
        await asyncio.sleep(0)
        return 5

    assert await unless_gone(Client().request, work()) == 5
    assert await only_this_task_runs()


async def test_an_exception_comes_back_as_it_is():
    async def work():
        raise ValueError("bad")

    with pytest.raises(ValueError, match="bad"):
        await unless_gone(Client().request, work())
    assert await only_this_task_runs()


@pytest.mark.parametrize(
    "messages", [[], [{"type": "http.request", "body": b"", "more_body": False}]]
)
async def test_the_work_is_cancelled_when_the_client_goes(messages):
    client, work = Client(*messages), Work()
    waiting = asyncio.create_task(unless_gone(client.request, work.run()))
    await work.started.wait()
    client.gone.set()
    with pytest.raises(ClientGone):
        await waiting
    assert work.cancelled
    assert await only_this_task_runs()


async def test_the_work_is_cancelled_when_the_handler_is():
    work = Work()
    waiting = asyncio.create_task(unless_gone(Client().request, work.run()))
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

    assert await unless_gone(client.request, work()) == 5
