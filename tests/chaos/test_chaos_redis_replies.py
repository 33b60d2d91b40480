"""Replies of a Redis, or of whoever sits before it: without sense, late, or for somebody else."""

import asyncio

import pytest

from app.cache.connection import Connection
from tests.chaos.proxy import proxy_to
from tests.chaos.redis_cache import ENTRY, assert_healed, assert_lives_without, running_cache
from tests.chaos.redis_server import WITHIN_S
from tests.conftest import until

pytestmark = pytest.mark.anyio


# To a question for one key.
NONSENSE = {
    "an empty array": b"*0\r\n",
    "an array of two": b"*2\r\n$1\r\na\r\n$1\r\nb\r\n",
    "an array of a number": b"*1\r\n:1\r\n",
    "an array of an array": b"*1\r\n*1\r\n$1\r\na\r\n",
    "an array of an error": b"*1\r\n-ERR sesame-open-4711\r\n",
    "no array": b"*-1\r\n",
    "a simple string": b"+secret\r\n",
    "a bulk string": b"$6\r\nsecret\r\n",
    "no bulk string": b"$-1\r\n",
    "a number": b":1\r\n",
    "another protocol": b"HTTP/1.1 400 Bad Request\r\n\r\n",
}


@pytest.mark.parametrize("reply", NONSENSE.values(), ids=list(NONSENSE))
async def test_a_reply_to_a_lookup_without_sense_is_a_miss_and_a_fault(server, log, reply):
    async with proxy_to(server.port) as proxy, running_cache(proxy.url) as running:
        await running.store(ENTRY)
        proxy.instead = {b"MGET": reply}
        assert await running.get("a") is None
        await assert_lives_without(running, "no sense in its reply", log)
        proxy.instead = {}
        await assert_healed(running, log)


@pytest.mark.parametrize("reply", [b"*0\r\n", b"+secret\r\n", b":0\r\n", b"$-1\r\n"])
async def test_a_reply_to_what_is_stored_without_sense_is_a_fault(server, log, reply):
    async with proxy_to(server.port) as proxy, running_cache(proxy.url) as running:
        await running.store(ENTRY)
        proxy.instead = {b"SET": reply}
        await assert_lives_without(running, "no sense in its reply", log)
        proxy.instead = {}
        await assert_healed(running, log)


async def test_a_key_of_another_type_is_a_miss_and_overwritten(server):
    async with running_cache(server.url) as running:
        await running.store({"started": b"1"})
        with server.client() as client:
            client.rpush("cocoa:{a}:a", "secret")
            assert await running.get("a") is None
            await running.store(ENTRY)
            assert client.type("cocoa:{a}:a") == b"string"
    assert running.outages == []


@pytest.mark.parametrize("leaves", ["late", "cancelled"])
async def test_the_reply_to_a_lookup_that_was_left_never_becomes_the_answer_to_another(
    server, leaves
):
    entries = {f"key {i}": f"value {i}".encode() for i in range(20)}
    async with proxy_to(server.port) as proxy:
        connection = Connection(proxy.url, None)
        await connection.execute([("SET", *entry) for entry in entries.items()], WITHIN_S)
        for key, value in entries.items():
            proxy.delay_s = 0.2
            lookup = [("MGET", "key 0", "key 1")]
            if leaves == "late":
                with pytest.raises(TimeoutError):
                    await connection.execute(lookup, 0.01)
            else:
                leaving = await proxy.asked(connection.execute(lookup, WITHIN_S))
                leaving.cancel()
                await asyncio.gather(leaving, return_exceptions=True)
            proxy.delay_s = 0.0
            assert await connection.execute([("MGET", key)], WITHIN_S) == [[value]]
        await connection.close()


async def test_lookups_that_are_cancelled_leave_no_connection_behind(server):
    async with proxy_to(server.port) as proxy, running_cache(proxy.url) as running:
        await running.store(ENTRY)
        proxy.delay_s = 0.05
        for _ in range(20):
            tasks = [await proxy.asked(running.get("a"))]
            tasks += [asyncio.create_task(running.get("a")) for _ in range(20)]
            await asyncio.sleep(0)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        proxy.delay_s = 0
        await running.store(ENTRY)
        with server.client() as client:
            assert len(client.client_list()) == 3  # one reads, one writes, and this one
    assert running.outages == []


async def test_when_it_ends_it_leaves_no_connection_and_no_lookup_behind(server):
    async with proxy_to(server.port) as proxy:
        async with running_cache(proxy.url) as running:
            await running.store(ENTRY)
            proxy.mute = True
            lookup = await proxy.asked(running.get("a"))
        assert await lookup is None
        with server.client() as client:
            await until(lambda: len(client.client_list()) == 1)
