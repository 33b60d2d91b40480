"""A cache over a real Redis that is killed, stopped, full, read-only or slow.

The cache misses, then heals.
"""

import asyncio
import time

import pytest

from tests.chaos.proxy import proxy_to
from tests.chaos.redis_cache import (
    ENTRY,
    MISSES,
    assert_healed,
    assert_lives_without,
    look_up,
    running_cache,
)
from tests.chaos.redis_server import RedisServer, free_port

pytestmark = pytest.mark.anyio


# id: (how it begins, how it ends, what is told of it)
FAULTS = {
    "killed and started again": (RedisServer.kill, RedisServer.start, "unreachable"),
    "stopped and continued": (RedisServer.stop, RedisServer.cont, "too slow"),
}
WRITES_REFUSED = {
    "without memory": ("config_set", ("maxmemory", 1), ("maxmemory", 0), "out of memory: OOM"),
    "a replica": ("replicaof", ("127.0.0.1", free_port()), ("no", "one"), "read-only: READONLY"),
}
NETWORKS = {"slow": ("delay_s", 0.5, 0), "losing every reply": ("mute", True, False)}


@pytest.mark.parametrize("when", ["at the start", "later"])
@pytest.mark.parametrize(("begin", "end", "told"), FAULTS.values(), ids=FAULTS)
async def test_a_redis_that_is_not_there(server, log, begin, end, told, when):
    if when == "at the start":
        begin(server)
    async with running_cache(server.url) as running:
        if when == "later":
            await running.store(ENTRY)
            begin(server)
        assert await look_up(running) == MISSES
        await assert_lives_without(running, told, log)
        end(server)
        await assert_healed(running, log)


async def test_a_redis_that_restarts_between_two_lookups_costs_misses_only(server):
    async with running_cache(server.url) as running:
        await running.store(ENTRY)
        server.restart()
        assert await look_up(running) == MISSES
        await running.store(ENTRY)


@pytest.mark.parametrize(
    ("name", "begin", "end", "told"), WRITES_REFUSED.values(), ids=WRITES_REFUSED
)
async def test_a_redis_that_takes_no_writes(server, log, name, begin, end, told):
    async with running_cache(server.url) as running:
        await running.store(ENTRY)
        with server.client() as client:
            getattr(client, name)(*begin)
            await assert_lives_without(running, told, log)
            getattr(client, name)(*end)
        await assert_healed(running, log)


@pytest.mark.parametrize(("name", "bad", "good"), NETWORKS.values(), ids=NETWORKS)
async def test_a_redis_behind_a_bad_network(server, log, name, bad, good):
    async with proxy_to(server.port) as proxy, running_cache(proxy.url) as running:
        await running.store(ENTRY)
        setattr(proxy, name, bad)
        assert await look_up(running) == MISSES
        await assert_lives_without(running, "too slow", log)
        setattr(proxy, name, good)
        await assert_healed(running, log)


async def test_connections_that_are_reset_are_made_anew(server):
    async with proxy_to(server.port) as proxy, running_cache(proxy.url) as running:
        for _ in range(5):
            await running.store(ENTRY)
            proxy.cut()
            await look_up(running)
        await running.store(ENTRY)


# The service runs on uvloop, which looks at its timers before its sockets, asyncio the other way
# round.
@pytest.mark.parametrize(
    "anyio_backend", [("asyncio", {"use_uvloop": use}) for use in (False, True)]
)
async def test_an_event_loop_that_was_busy_is_no_fault_of_redis(server):
    async with running_cache(server.url) as running:
        await running.store(ENTRY)
        for _ in range(3):
            server.stop()
            lookup = asyncio.create_task(running.get("a"))
            # Until the question is under way; the reply comes while nobody looks.
            await asyncio.sleep(0.01)
            server.cont()
            time.sleep(0.5)  # noqa: ASYNC251
            assert await lookup == b"1"
    assert running.told == ["closed"], "not even a suspicion"
