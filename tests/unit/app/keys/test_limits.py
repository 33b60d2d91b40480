"""The limits of a key: which one is reached, and when it no longer is; with and without Redis.

Each scenario runs in one process, and in two gateways in turn that share a real Redis.
"""

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace

import pytest
from pydantic import SecretStr

from app.cache.protocol import CacheConfig
from app.keys.limits import KeyLimits
from app.keys.local import LocalLimits, Refusal
from app.keys.records import Key
from app.keys.shared import SharedLimits
from models.errors import RateLimited
from tests.chaos.redis_server import running_redis
from tests.conftest import until

pytestmark = pytest.mark.anyio

KEY = Key("search", ("",), namespace="search")


def near(seconds):
    """Up to so many seconds: some pass while a test runs."""
    return range(seconds - 5, seconds + 1)


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@dataclass
class Gateways:
    """Gateways that take requests in turn, and what they told of refusals."""

    all: list[KeyLimits] = field(default_factory=list)
    told: list[tuple[str, str]] = field(default_factory=list)
    num_calls: int = 0

    @property
    def next(self):
        self.num_calls += 1
        return self.all[self.num_calls % len(self.all)]

    @asynccontextmanager
    async def request(self, key, *, costs_tokens=True):
        async with self.next.held(key, costs_tokens=costs_tokens):
            yield

    async def send(self, key, count=1, **kwargs):
        for _ in range(count):
            async with self.request(key, **kwargs):
                pass

    async def passes(self, key):
        """Soon: a gateway tells the others of what has ended after it has."""
        async with asyncio.timeout(30):
            while True:
                with suppress(RateLimited):
                    return await self.send(key)

    async def refused(self, key, **kwargs):
        with pytest.raises(RateLimited) as caught:
            await self.send(key, **kwargs)
        return caught.value


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory):
    with running_redis(tmp_path_factory.mktemp("redis")) as server:
        yield server


@asynccontextmanager
async def sharing(url, on_breaker=lambda is_open: None):
    """Shared limits under their `run`, asked from now on."""
    config = CacheConfig(url=SecretStr(url), timeout_s=0.5)
    shared = SharedLimits(url, config, on_breaker)
    task = asyncio.create_task(shared.run())
    try:
        await until(lambda: not shared._health.is_open)
        yield shared
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture(params=["one process", "two gateways"])
async def gateways(request, anyio_backend):
    """One gateway without Redis, or two with one."""
    made = Gateways()

    def add(shared):
        made.all.append(KeyLimits(LocalLimits(), shared, lambda *told: made.told.append(told)))

    async with AsyncExitStack() as stack:
        if request.param == "one process":
            add(None)
        else:
            server = request.getfixturevalue("redis_server")
            with server.client() as client:
                client.flushall()
            for _ in range(2):
                add(await stack.enter_async_context(sharing(server.url)))
        yield made


async def test_a_key_without_limits_is_never_refused(gateways):
    async with gateways.request(KEY):
        await gateways.send(KEY, 100)
    assert gateways.told == []


async def test_beyond_its_requests_a_minute_a_key_waits_for_the_next(gateways):
    key = replace(KEY, requests_per_minute=3)
    await gateways.send(key, 3)
    refused = await gateways.refused(key)
    assert refused.limit == "requests_per_minute"
    assert refused.retry_after_s in near(20)
    assert "3 requests a minute" in refused.message
    assert gateways.told == [("search", "requests_per_minute")]


async def test_a_refusal_costs_nothing(gateways):
    key = replace(KEY, requests_per_minute=2)
    await gateways.send(key, 2)
    for _ in range(10):
        assert (await gateways.refused(key)).retry_after_s in near(30)


async def test_requests_that_turn_out_to_be_several_delay_the_next(gateways):
    key = replace(KEY, requests_per_minute=6)
    await gateways.send(key)
    gateways.all[-1].charge(key, requests=8)
    assert (await gateways.refused(key)).retry_after_s in near(40)


async def test_tokens_are_paid_afterwards_and_what_exceeds_them_is_paid_back(gateways):
    key = replace(KEY, tokens_per_minute=6)
    await gateways.send(key)
    gateways.all[0].charge(key, tokens=5)
    await gateways.send(key)
    gateways.all[0].charge(key, tokens=4)
    refused = await gateways.refused(key)
    assert refused.limit == "tokens_per_minute"
    assert refused.retry_after_s in near(30)
    assert "6 tokens" in refused.message


async def test_what_costs_no_tokens_passes_without_any(gateways):
    key = replace(KEY, tokens_per_minute=600)
    gateways.all[0].charge(key, tokens=1000)
    await gateways.send(key, costs_tokens=False)
    assert (await gateways.refused(key)).limit == "tokens_per_minute"


async def test_beyond_its_concurrent_requests_a_key_is_refused_until_one_ends(gateways):
    key = replace(KEY, max_concurrent=2)
    async with gateways.request(key):
        async with gateways.request(key):
            refused = await gateways.refused(key)
            assert (refused.limit, refused.retry_after_s) == ("max_concurrent", 1)
            assert "2 requests under way" in refused.message
        for _ in range(3):
            await gateways.passes(key)
    await gateways.passes(key)


async def test_a_request_that_fails_or_is_given_up_is_no_longer_under_way(gateways):
    key = replace(KEY, max_concurrent=1)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            async with gateways.request(key):
                raise ZeroDivisionError
        await gateways.passes(key)
        given_up = asyncio.create_task(gateways.send(key))
        await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.gather(given_up, return_exceptions=True)
        await gateways.passes(key)


async def test_keys_do_not_share_their_limits(gateways):
    one, other = (replace(KEY, name=name, requests_per_minute=1) for name in ("one", "other"))
    await gateways.send(one)
    await gateways.send(other)
    assert (await gateways.refused(one)).limit == "requests_per_minute"


async def test_a_bucket_fills_up_evenly_and_holds_no_more_than_a_minute():
    clock = Clock()
    gateways = Gateways([KeyLimits(LocalLimits(clock), None, lambda *told: None)])
    key = replace(KEY, requests_per_minute=6)
    await gateways.send(key, 6)
    clock.now += 9
    assert (await gateways.refused(key)).retry_after_s == 1
    clock.now += 1
    await gateways.send(key)
    clock.now += 3600
    await gateways.send(key, 6)
    assert (await gateways.refused(key)).retry_after_s == 10


async def test_a_limit_that_becomes_smaller_holds_at_once():
    gateways = Gateways([KeyLimits(LocalLimits(Clock()), None, lambda *told: None)])
    await gateways.send(replace(KEY, requests_per_minute=100))
    smaller = replace(KEY, requests_per_minute=2)
    await gateways.send(smaller, 2)
    assert (await gateways.refused(smaller)).limit == "requests_per_minute"


async def test_leases_of_a_gateway_that_died_end_and_those_of_one_that_lives_are_renewed(
    redis_server, monkeypatch
):
    monkeypatch.setattr("app.keys.shared._LEASE_S", 1)
    monkeypatch.setattr("app.keys.shared._RENEW_S", 0.1)
    key = replace(KEY, name="leased", max_concurrent=2)
    async with sharing(redis_server.url) as living:
        async with sharing(redis_server.url) as dying:
            for shared in (living, dying):
                assert await shared.enter(key, shared.new_lease(), costs_tokens=True) is None
            refusal = await living.enter(key, "third", costs_tokens=True)
            assert refusal.limit == "max_concurrent"
            living._leases[key.name].discard("third")
        await asyncio.sleep(1.5)  # the dead one's lease is over, the other's would be
        assert await living.enter(key, "fourth", costs_tokens=True) is None
        assert (await living.enter(key, "fifth", costs_tokens=True)).limit == "max_concurrent"


async def test_what_a_key_has_used_is_forgotten_once_its_buckets_are_full(redis_server):
    key = replace(KEY, name="short", requests_per_minute=600, max_concurrent=1)
    async with sharing(redis_server.url) as shared:
        await shared.enter(key, "lease", costs_tokens=True)
        with redis_server.client() as client:
            assert 0 < client.ttl("cocoa:limits:short:levels") <= 2
            assert 0 < client.ttl("cocoa:limits:short:leases") <= 31


async def test_a_redis_whose_user_may_not_run_scripts_leaves_each_process_to_itself(
    redis_server, caplog
):
    with redis_server.client() as client:
        rights = ["+@read", "+@write", "+@connection", "-@dangerous"]
        client.execute_command("ACL", "SETUSER", "few", "on", ">secret", "~cocoa:*", *rights)
        url = redis_server.url.replace("//", "//few:secret@")
        told = []
        shared = SharedLimits(url, CacheConfig(url=SecretStr(url), timeout_s=0.5), told.append)
        task = asyncio.create_task(shared.run())
        await until(lambda: told == [True])
        assert "permission refused" in caplog.text
        assert "secret" not in caplog.text
        limits = KeyLimits(LocalLimits(), shared, lambda *told: None)
        gateways = Gateways([limits])
        await gateways.send(replace(KEY, requests_per_minute=1))
        await gateways.refused(replace(KEY, requests_per_minute=1))
        client.execute_command("ACL", "SETUSER", "few", "+eval", "+time")
        await until(lambda: told == [True, False])
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


NONSENSE = {
    "no pair": 1,
    "words": [b"0", b"0"],
    "too many": [0, 0, 0],
    "another limit": [4, 0],
    "a wait that is over": [1, -1],
    "nothing": None,
}


@pytest.mark.parametrize("reply", NONSENSE.values(), ids=NONSENSE)
async def test_a_reply_without_sense_is_a_fault_and_no_refusal(redis_server, monkeypatch, reply):
    told = []
    async with sharing(redis_server.url, told.append) as shared:
        script = "return redis.error_reply('x')" if reply is None else f"return {_lua(reply)}"
        monkeypatch.setattr("app.keys.shared._ENTER", script)
        assert await shared.enter(replace(KEY, max_concurrent=1), "a", costs_tokens=True) is None
        assert await shared.enter(replace(KEY, max_concurrent=1), "b", costs_tokens=True) is None


def _lua(reply):
    if isinstance(reply, list):
        return "{" + ", ".join(map(_lua, reply)) + "}"
    return repr(reply.decode()) if isinstance(reply, bytes) else str(reply)


class Told:
    """Stands for shared limits that say one thing after another."""

    def __init__(self, *limits):
        self.says = [limit and Refusal(limit, 0.0) for limit in limits]

    def new_lease(self):
        return "lease"

    async def enter(self, key, lease, *, costs_tokens):
        return self.says.pop(0)

    def leave(self, key, lease):
        self.says.append("left")


# id: (what Redis says, how many looks are left unused, whether the request passes)
LOOKS = {
    "a place that another gateway has just left": (("max_concurrent", None), 0, True),
    "no place": (("max_concurrent", "max_concurrent"), 0, False),
    "a limit a minute": (("requests_per_minute", None), 1, False),
}


@pytest.mark.parametrize(("limits", "unused", "passes"), LOOKS.values(), ids=LOOKS)
async def test_a_place_is_looked_for_twice_and_a_limit_a_minute_once(limits, unused, passes):
    shared = Told(*limits)
    gateways = Gateways([KeyLimits(LocalLimits(), shared, lambda *told: None)])
    key = replace(KEY, max_concurrent=1, requests_per_minute=1)
    if passes:
        await gateways.send(key)
    else:
        assert (await gateways.refused(key)).limit == limits[0]
    assert len(shared.says) == unused + 1
