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
from tests.chaos.redis_server import free_port

pytestmark = pytest.mark.anyio


async def test_a_redis_that_is_killed_and_started_again(server, log):
    async with running_cache(server.url) as running:
        await running.store(ENTRY)
        server.kill()
        assert await look_up(running) == MISSES
        await assert_lives_without(running, "unreachable", log)
        server.start()
        await assert_healed(running, log)


async def test_a_redis_that_restarts_between_two_lookups_costs_misses_only(server):
    async with running_cache(server.url) as running:
        await running.store(ENTRY)
        server.restart()
        assert await look_up(running) == MISSES
        await running.store(ENTRY)


async def test_a_redis_that_is_stopped_and_continued(server, log):
    async with running_cache(server.url) as running:
        await running.store(ENTRY)
        server.stop()
        assert await look_up(running) == MISSES
        await assert_lives_without(running, "too slow", log)
        server.cont()
        await assert_healed(running, log)


async def test_a_redis_without_memory(server, log):
    async with running_cache(server.url) as running:
        await running.store(ENTRY)
        with server.client() as client:
            client.config_set("maxmemory", 1)
            await assert_lives_without(running, "out of memory", log)
            client.config_set("maxmemory", 0)
        await assert_healed(running, log)


async def test_a_redis_that_has_become_a_replica_and_is_read_only(server, log):
    async with running_cache(server.url) as running:
        await running.store(ENTRY)
        with server.client() as client:
            client.replicaof("127.0.0.1", free_port())
            await assert_lives_without(running, "read-only", log)
            client.replicaof("no", "one")
        await assert_healed(running, log)


async def test_a_redis_that_is_not_there_at_the_start_and_comes_later(server, log):
    server.kill()
    async with running_cache(server.url) as running:
        assert await look_up(running) == MISSES
        await assert_lives_without(running, "unreachable", log)
        server.start()
        await assert_healed(running, log)


async def test_a_redis_that_is_stopped_at_the_start(server, log):
    server.stop()
    async with running_cache(server.url) as running:
        assert await look_up(running) == MISSES
        await assert_lives_without(running, "too slow", log)
        server.cont()
        await assert_healed(running, log)


async def test_a_redis_behind_a_slow_network(server, log):
    async with proxy_to(server.port) as proxy, running_cache(proxy.url) as running:
        await running.store(ENTRY)
        proxy.delay_s = 0.5
        assert await look_up(running) == MISSES
        await assert_lives_without(running, "too slow", log)
        proxy.delay_s = 0
        await assert_healed(running, log)


async def test_a_network_that_loses_every_reply(server, log):
    async with proxy_to(server.port) as proxy, running_cache(proxy.url) as running:
        await running.store(ENTRY)
        proxy.mute = True
        assert await look_up(running) == MISSES
        await assert_lives_without(running, "too slow", log)
        proxy.mute = False
        await assert_healed(running, log)


async def test_connections_that_are_reset_are_made_anew(server):
    async with proxy_to(server.port) as proxy, running_cache(proxy.url) as running:
        for _ in range(5):
            await running.store(ENTRY)
            proxy.cut()
            await look_up(running)
        await running.store(ENTRY)


async def test_where_redis_is_gone_every_claim_is_granted(server):
    async with running_cache(server.url) as one:
        await one.store(ENTRY)
        server.kill()
        assert await one.cache.claim("a")
        assert await one.cache.claim("a")


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
