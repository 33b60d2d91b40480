"""The limits of a key: which one is reached, and when it no longer is; with and without Redis.

Each scenario runs in one process, and in two gateways in turn that share a real Redis.
"""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest

from tests.chaos.redis_server import running_redis
from tests.unit.app.plugins.keys.gateways import KEY, Gateways, near, sharing

pytestmark = pytest.mark.anyio


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory):
    with running_redis(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture(params=["one process", "two gateways"])
async def gateways(request, anyio_backend):
    """One gateway without Redis, or two with one."""
    made = Gateways()
    async with AsyncExitStack() as stack:
        if request.param == "one process":
            made.add(None)
        else:
            server = request.getfixturevalue("redis_server")
            with server.client() as client:
                client.flushall()
            for _ in range(2):
                made.add(await stack.enter_async_context(sharing(server.url)))
        yield made


async def test_a_key_without_limits_is_never_refused(gateways):
    async with gateways.request(KEY):
        await gateways.send(KEY, 100)
    assert gateways.told == []


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


@pytest.mark.parametrize("limit", ["requests_per_minute", "tokens_per_minute"])
async def test_a_limit_that_is_added_to_a_key_in_use_starts_full_and_then_holds(gateways, limit):
    key = replace(KEY, max_concurrent=10)
    await gateways.send(key, 50)
    for gateway in gateways.all:
        gateway.charge(key, requests=50, tokens=1000)
    await gateways.send(key)
    limited = replace(key, **{limit: 6})
    await gateways.send(limited)
    gateways.all[0].charge(limited, requests=8, tokens=9)
    refused = await gateways.refused(limited)
    assert refused.limit == limit
    assert refused.retry_after_s in near(40 if limit == "requests_per_minute" else 30)


async def test_what_costs_no_tokens_passes_without_any(gateways):
    key = replace(KEY, tokens_per_minute=600)
    gateways.all[0].charge(key, tokens=1000)
    await gateways.send(key, costs_tokens=False)
    assert (await gateways.refused(key)).limit == "tokens_per_minute"


async def test_a_request_that_fails_or_is_given_up_is_no_longer_under_way(gateways):
    key = replace(KEY, max_concurrent=1)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            async with gateways.request(key):
                raise ZeroDivisionError
        await gateways.send(key)
        given_up = asyncio.create_task(gateways.send(key))
        await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.gather(given_up, return_exceptions=True)
        await gateways.send(key)


async def test_requests_under_way_are_counted_by_each_gateway_for_itself(gateways):
    key = replace(KEY, max_concurrent=1)
    async with AsyncExitStack() as stack:
        for _ in gateways.all:
            await stack.enter_async_context(gateways.request(key))
        for _ in gateways.all:
            assert (await gateways.refused(key)).limit == "max_concurrent"
    await gateways.send(key, 2)


async def test_keys_do_not_share_their_limits(gateways):
    one, other = (replace(KEY, name=name, requests_per_minute=1) for name in ("one", "other"))
    await gateways.send(one)
    await gateways.send(other)
    assert (await gateways.refused(one)).limit == "requests_per_minute"


async def test_a_bucket_fills_up_evenly_and_holds_no_more_than_a_minute():
    clock = Clock()
    gateways = Gateways().add(None, clock=clock)
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
    gateways = Gateways().add(None, clock=Clock())
    await gateways.send(replace(KEY, requests_per_minute=100))
    smaller = replace(KEY, requests_per_minute=2)
    await gateways.send(smaller, 2)
    assert (await gateways.refused(smaller)).limit == "requests_per_minute"
