"""The contract of `app.cache.protocol.Cache`, on every implementation.

Those are the one in this process and the one in a real Redis, alone or as a cluster.
"""

import asyncio
from contextlib import asynccontextmanager

import pytest

from tests.chaos.redis_cache import running_cache
from tests.chaos.redis_server import running_cluster, running_redis

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory):
    with running_redis(tmp_path_factory.mktemp("redis")) as server:
        yield server.url


@pytest.fixture(scope="module")
def cluster_url(tmp_path_factory):
    with running_cluster(tmp_path_factory.mktemp("cluster")) as servers:
        yield servers[0].url


@pytest.fixture(params=["memory", "redis", "cluster"])
def starting(request):
    """A function that starts a cache of this kind; each test has its own Redis namespace."""
    url = None
    if request.param != "memory":
        url = request.getfixturevalue(f"{request.param}_url")
    namespace = request.node.name.partition("[")[0][:64]

    @asynccontextmanager
    async def start(**config):
        async with running_cache(url, **{"namespace": namespace} | config) as running:
            await running.store({"started": b"1"})
            yield running

    return start


async def test_what_was_put_is_found_and_what_was_not_is_a_miss(starting):
    async with starting() as running:
        await running.store({"a": b"1"})
        assert await running.cache.get_many(["a"]) == [b"1"]
        assert await running.cache.get_many(["b"]) == [None]


async def test_many_come_in_the_order_of_their_keys_hits_and_misses_mixed_and_repeated(starting):
    async with starting() as running:
        await running.store({"a": b"1", "b": b"2"})
        assert await running.cache.get_many(["b", "x", "a", "b"]) == [b"2", None, b"1", b"2"]


async def test_no_keys_are_no_values_and_no_entries_are_nothing_to_store(starting):
    async with starting() as running:
        running.cache.put({})
        assert await running.cache.get_many([]) == []


async def test_a_later_put_replaces_an_earlier_one(starting):
    async with starting() as running:
        await running.store({"a": b"1"})
        await running.store({"a": b"2"})
        assert await running.get("a") == b"2"


async def test_two_puts_of_one_key_before_any_is_stored_leave_the_later(starting):
    async with starting() as running:
        running.cache.put({"a": b"1"})
        running.cache.put({"a": b"2"})
        await running.store({"after": b"1"})
        assert await running.get("a") == b"2"


@pytest.mark.parametrize(
    "value", [b"", b"\x00\r\n$-1\r\n", bytes(range(256)) * 1000], ids=["empty", "protocol", "all"]
)
async def test_every_byte_comes_back(starting, value):
    async with starting() as running:
        await running.store({"a": value})
        assert await running.get("a") == value


async def test_an_entry_of_the_largest_size_is_stored_and_one_byte_more_is_dropped_alone(starting):
    async with starting(max_entry_bytes=100) as running:
        await running.store({"fits": bytes(100)})
        running.cache.put({"large": bytes(101), "small": b"1"})
        await running.store({"after": b"1"})
        assert await running.cache.get_many(["fits", "large", "small"]) == [bytes(100), None, b"1"]


async def test_an_entry_is_forgotten_after_its_time_to_live(starting):
    async with starting(ttl_s=1) as running:
        await running.store({"a": b"1"})
        async with asyncio.timeout(30):
            while await running.get("a") is not None:  # noqa: ASYNC110
                await asyncio.sleep(0.05)


async def test_concurrent_lookups_each_get_the_values_of_their_own_keys(starting):
    async with starting() as running:
        entries = {f"key {i}": f"value {i}".encode() for i in range(600)}
        await running.store(entries)
        wanted = [[f"key {(i * 7 + j) % 700}" for j in range(i % 5 + 1)] for i in range(400)]
        found = await asyncio.gather(*(running.cache.get_many(keys) for keys in wanted))
        assert found == [[entries.get(key) for key in keys] for keys in wanted]


async def test_a_lookup_of_more_keys_than_fit_one_round_trip_is_answered(starting):
    async with starting() as running:
        entries = {f"key {i}": b"1" for i in range(2000)}
        await running.store(entries)
        assert await running.cache.get_many(list(entries)) == [b"1"] * 2000


async def test_a_lookup_that_is_cancelled_harms_no_other(starting):
    async with starting() as running:
        await running.store({"a": b"1", "b": b"2"})
        leaving = [asyncio.create_task(running.get("a")) for _ in range(20)]
        staying = [asyncio.create_task(running.get("b")) for _ in range(20)]
        await asyncio.sleep(0)
        for task in leaving:
            task.cancel()
        assert await asyncio.gather(*staying) == [b"2"] * 20
        assert await running.get("a") == b"1"


async def test_a_cache_that_works_says_nothing_of_its_breaker(starting):
    async with starting() as running:
        await running.store({"a": b"1"})
    assert set(running.told) <= {"closed"}


async def test_two_caches_on_one_redis_share_entries_and_two_namespaces_do_not(redis_url):
    async with (
        running_cache(redis_url, namespace="one") as writer,
        running_cache(redis_url, namespace="one") as reader,
        running_cache(redis_url, namespace="other") as other,
    ):
        await other.store({"started": b"1"})
        await reader.store({"started": b"1"})
        await writer.store({"a": b"1"})
        assert await reader.get("a") == b"1"
        assert await other.get("a") is None


async def test_a_redis_cache_that_does_not_run_misses_everything_and_stores_nothing(redis_url):
    async with running_cache(redis_url, namespace="ended") as running:
        await running.store({"a": b"1"})
    running.cache.put({"b": b"1"})
    assert await running.cache.get_many(["a", "b"]) == [None, None]


async def test_what_is_put_beyond_what_may_wait_is_dropped(redis_url):
    entries = {f"key {i}": bytes(1_000_000) for i in range(40)}
    async with running_cache(redis_url, namespace="much") as running:
        await running.store({"started": b"1"})
        running.cache.put(entries)
        await running.store({"after": b"1"})
        found = [value is not None for value in [await running.get(key) for key in entries]]
        assert found == [True] * 33 + [False] * 7
