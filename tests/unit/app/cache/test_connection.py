"""Exchanges with Redis that are late, end in unusual ways, or come while the event loop is busy."""

import asyncio
import time

import pytest

from app.cache.connection import within

pytestmark = pytest.mark.anyio


async def cancels_itself():
    raise asyncio.CancelledError


async def test_an_exchange_that_cancels_itself_is_late_and_does_not_cancel_its_caller():
    with pytest.raises(TimeoutError):
        await within(10, cancels_itself())


async def test_an_exchange_that_is_late_is_cancelled_and_has_ended_by_then():
    ended = []

    async def hang():
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(True)

    with pytest.raises(TimeoutError):
        await within(0.01, hang())
    assert ended == [True]


async def test_the_fault_of_an_exchange_is_raised():
    async def fail():
        raise ConnectionError("reset")

    with pytest.raises(ConnectionError, match="reset"):
        await within(10, fail())


async def test_a_caller_who_leaves_ends_the_exchange():
    reply = asyncio.get_running_loop().create_future()
    caller = asyncio.create_task(within(10, reply))
    await asyncio.sleep(0)
    caller.cancel()
    await asyncio.gather(caller, return_exceptions=True)
    assert reply.cancelled()


# Of several turns, as an exchange over a socket needs them: to write, to read, to wake its caller.
@pytest.mark.parametrize(
    "anyio_backend", [("asyncio", {"use_uvloop": use}) for use in (False, True)]
)
@pytest.mark.parametrize("num_turns", [1, 3])
async def test_turns_of_the_event_loop_that_are_late_are_not_the_time_of_an_exchange(num_turns):
    ours, theirs = await socket_pair()

    async def exchange():
        ours[1].write(b"asked")
        return await ours[0].readexactly(7)

    async def answer():
        assert await theirs[0].readexactly(5) == b"asked"
        theirs[1].write(b"replied")

    async def be_busy():
        for _ in range(num_turns):
            time.sleep(0.1)  # noqa: ASYNC251
            await asyncio.sleep(0)

    answering, busy = asyncio.create_task(answer()), asyncio.create_task(be_busy())
    assert await within(0.025, exchange()) == b"replied"
    await asyncio.gather(answering, busy)
    for _, writer in (ours, theirs):
        writer.close()


async def socket_pair():
    """Both ends of one connection: (reader, writer) each."""
    accepted = asyncio.get_running_loop().create_future()

    async def accept(reader, writer):
        accepted.set_result((reader, writer))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    ours = await asyncio.open_connection(*server.sockets[0].getsockname())
    server.close()
    return ours, await accepted


async def test_an_exchange_of_many_turns_that_are_all_late_is_no_fault_and_one_without_end_is():
    """Twelve turns, each longer than a slice of the limit, as where a gateway is busy."""

    async def exchange():
        for _ in range(12):
            await asyncio.sleep(0.001)
            time.sleep(0.02)  # noqa: ASYNC251
        return b"replied"

    assert await within(0.025, exchange()) == b"replied"

    async def be_busy():
        while True:
            time.sleep(0.02)  # noqa: ASYNC251
            await asyncio.sleep(0)

    busy = asyncio.create_task(be_busy())
    began_at = time.monotonic()
    with pytest.raises(TimeoutError):
        await within(0.025, asyncio.Event().wait())
    assert time.monotonic() - began_at < 30  # and not never
    busy.cancel()
    await asyncio.gather(busy, return_exceptions=True)
