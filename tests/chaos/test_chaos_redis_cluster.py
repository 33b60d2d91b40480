"""A cache over a Redis in cluster mode: its nodes die, its slots move, its users may little."""

import asyncio
from string import hexdigits

import pytest

from tests.chaos.redis_cache import running_cache
from tests.chaos.redis_server import running_cluster

pytestmark = pytest.mark.anyio

ENTRIES = {digit: digit.encode() for digit in hexdigits.lower()}
# As docs/caching.md has it.
RIGHTS = ["~cocoa:*", "+@read", "+@write", "+@connection", "-@dangerous"]


@pytest.fixture
def cluster(tmp_path):
    with running_cluster(tmp_path) as servers:
        yield servers


async def test_a_failover_turns_the_cache_off_until_a_replica_has_taken_over(cluster, log):
    async with running_cache(cluster[0].url) as running:
        await running.store(ENTRIES)
        cluster[0].kill()
        async with asyncio.timeout(30):
            while running.outages[-1:] != ["open"]:
                await running.cache.get_many(list(ENTRIES))
                await asyncio.sleep(0.01)
        await running.store(ENTRIES)
    assert running.outages == ["open", "closed"]
    [given_up] = [one for one in log.messages if "off" in one]
    assert given_up.startswith("the cache is off until Redis recovers: unreachable")


async def test_a_slot_that_moves_is_followed_without_a_fault(cluster, log):
    async with running_cache(cluster[0].url) as running:
        await running.store(ENTRIES)
        with cluster[0].client() as first, cluster[1].client() as second:
            slot = first.cluster("KEYSLOT", "a")
            home, other = (first, second) if slot < 5461 else (second, first)
            home.flushall()
            for client in (other, home):
                client.execute_command("CLUSTER SETSLOT", slot, "NODE", other.cluster("MYID"))
        await running.store({"a": b"1"})
        assert await running.get("a") == b"1"
    assert set(running.told) == {"closed"}


@pytest.mark.parametrize("sees_slots", [False, True])
async def test_a_user_of_a_cluster_may_ask_for_its_slots_or_the_log_says_what_redis_said(
    cluster, log, sees_slots
):
    rights = [*RIGHTS, "+cluster|slots"] if sees_slots else RIGHTS
    for server in cluster:
        with server.client() as client:
            client.execute_command("ACL", "SETUSER", "few", "on", ">secret", *rights)
    async with running_cache(cluster[0].url.replace("//", "//few:secret@")) as running:
        if sees_slots:
            await running.store(ENTRIES)
            return
        async with asyncio.timeout(30):
            while "open" not in running.told:
                await running.cache.get_many(list(ENTRIES))
                await asyncio.sleep(0.01)
    assert "the cache is off until Redis recovers: permission refused: NOPERM" in log.messages
