"""Limits in a Redis: what of them it holds, and what happens when it is late, refuses, or lies."""

import asyncio
from dataclasses import replace

import pytest
from pydantic import SecretStr

from app.cache.protocol import CacheConfig
from app.keys.limits import Place
from app.keys.shared import SharedLimits
from tests.chaos.proxy import proxy_to
from tests.chaos.redis_server import running_redis
from tests.conftest import until
from tests.unit.app.keys.gateways import KEY, Gateways, sharing

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory):
    with running_redis(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def num_running(redis_server):
    """A function from the name of a key to its requests under way, as Redis has them."""
    with redis_server.client() as client:

        def count(name):
            values = client.hvals(f"cocoa:limits:{name}:running")
            return sum(int(value.split()[0]) for value in values)

        yield count


async def enter(shared, key):
    """A place of the key that was entered."""
    place = Place(key, costs_tokens=True)
    assert await shared.enter(place) is None
    return place


async def refusal(shared, key):
    return await shared.enter(Place(key, costs_tokens=True))


async def test_places_of_a_gateway_that_died_lapse_and_those_of_one_that_lives_are_renewed(
    redis_server, num_running, monkeypatch
):
    monkeypatch.setattr("app.keys.shared._LEASE_S", 1)
    monkeypatch.setattr("app.keys.shared._RENEW_S", 0.1)
    key = replace(KEY, name="leased", max_concurrent=2)
    async with sharing(redis_server.url) as living:
        await enter(living, key)
        async with sharing(redis_server.url) as dying:
            await enter(dying, key)
            assert (await refusal(living, key)).limit == "max_concurrent"
        async with asyncio.timeout(10):
            while await refusal(living, key) is not None:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        await asyncio.sleep(1.2)  # by now the places of the living one would have lapsed, too
        assert (await refusal(living, key)).limit == "max_concurrent"
        assert num_running("leased") == 2


async def test_places_that_are_left_while_redis_is_late_are_free_once_it_answers(
    redis_server, num_running, monkeypatch
):
    monkeypatch.setattr("app.keys.shared._LEASE_S", 600)  # nothing lapses here
    key = replace(KEY, name="late", max_concurrent=4)
    told = []
    async with (
        proxy_to(redis_server.port) as proxy,
        sharing(proxy.url, told, timeout_s=0.05) as shared,
        sharing(redis_server.url) as other,
    ):
        for outage in (["suspect", "open", "closed"], ["open", "closed"]):
            told.clear()
            places = [await enter(shared, key) for _ in range(4)]
            assert (await refusal(other, key)).limit == "max_concurrent"
            proxy.mute = True
            for place in places:
                shared.leave(place)
            await until(lambda: told[-1:] == ["open"])
            # One that comes meanwhile passes by what its gateway knows, and is told of, too.
            place = await enter(shared, key)
            proxy.mute = False
            await until(lambda outage=outage: told == outage)
            await until(lambda: num_running("late") == 1)
            shared.leave(place)
            await until(lambda: num_running("late") == 0)


async def test_a_request_that_leaves_before_redis_has_answered_frees_its_place(
    redis_server, num_running
):
    key = replace(KEY, name="leaving", max_concurrent=2)
    async with proxy_to(redis_server.port) as proxy, sharing(proxy.url) as shared:
        proxy.delay_s = 0.05
        for _ in range(5):
            place = Place(key, costs_tokens=True)
            entering = asyncio.create_task(shared.enter(place))
            await until(lambda: num_running("leaving") == 1)
            entering.cancel()
            await asyncio.gather(entering, return_exceptions=True)
            shared.leave(place)
            await until(lambda: num_running("leaving") == 0)


async def test_a_request_whose_time_is_up_in_the_turn_in_which_redis_answers_counts_once(
    redis_server, num_running, monkeypatch
):
    monkeypatch.setattr("app.keys.shared._RENEW_S", 0.1)
    key = replace(KEY, name="timely", max_concurrent=2)
    async with sharing(redis_server.url) as shared:
        execute = shared._redis.execute

        async def answered_late(commands, limit_s):
            replies = await execute(commands, limit_s)
            for _, _, waiting in shared._lane._batch:
                if not waiting.done():
                    waiting.set_exception(TimeoutError())
            return replies

        shared._redis.execute = answered_late
        place = await enter(shared, key)
        shared._redis.execute = execute
        await until(lambda: num_running("timely") == 1)
        shared.leave(place)
        await until(lambda: num_running("timely") == 0)
        await asyncio.sleep(0.3)  # what is counted is told anew by now
        assert num_running("timely") == 0


async def test_many_keys_are_told_of_in_several_round_trips(redis_server, num_running):
    names = [f"many-{number}" for number in range(600)]
    async with sharing(redis_server.url, timeout_s=1.0) as shared:
        keys = [replace(KEY, name=name, max_concurrent=1) for name in names]
        places = await asyncio.gather(*(enter(shared, key) for key in keys))
        assert set(map(num_running, names)) == {1}
        for place in places:
            shared.leave(place)
        await until(lambda: num_running(names[-1]) == 0)
        assert set(map(num_running, names)) == {0}


async def test_what_a_key_has_used_is_forgotten_once_its_buckets_are_full(redis_server):
    key = replace(KEY, name="short", requests_per_minute=600, max_concurrent=1)
    async with sharing(redis_server.url) as shared:
        await enter(shared, key)
        with redis_server.client() as client:
            assert 0 < client.ttl("cocoa:limits:short:levels") <= 2
            assert 0 < client.ttl("cocoa:limits:short:running") <= 7


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
        await until(lambda: told == ["open"])
        assert "permission refused" in caplog.text
        assert "secret" not in caplog.text
        gateways = Gateways().add(shared)
        await gateways.send(replace(KEY, requests_per_minute=1))
        await gateways.refused(replace(KEY, requests_per_minute=1))
        client.execute_command("ACL", "SETUSER", "few", "+eval", "+time")
        await until(lambda: told == ["open", "closed"])
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
    async with sharing(redis_server.url, told) as shared:
        script = "return redis.error_reply('x')" if reply is None else f"return {_lua(reply)}"
        monkeypatch.setattr("app.keys.shared._ENTER", script)
        for _ in range(2):
            assert await refusal(shared, replace(KEY, max_concurrent=1)) is None
        assert told[1:2] == ["suspect"]


def _lua(reply):
    if isinstance(reply, list):
        return "{" + ", ".join(map(_lua, reply)) + "}"
    return repr(reply.decode()) if isinstance(reply, bytes) else str(reply)
