"""Limits in a Redis: what of them it holds, and what happens when it is late, refuses, or lies."""

import asyncio
from dataclasses import replace

import pytest
from pydantic import SecretStr

from app.cache.protocol import CacheConfig
from app.plugins.keys.shared import SharedLimits
from tests.chaos.redis_server import running_cluster, running_redis
from tests.conftest import until
from tests.unit.app.plugins.keys.gateways import KEY, Gateways, sharing

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory):
    with running_redis(tmp_path_factory.mktemp("redis")) as server:
        yield server


async def test_what_a_key_has_used_is_forgotten_once_its_buckets_are_full(redis_server):
    key = replace(KEY, name="short", requests_per_minute=600)
    async with sharing(redis_server.url) as shared:
        assert await shared.enter(key, costs_tokens=True) is None
        with redis_server.client() as client:
            assert 0 < client.ttl("cocoa:limits:short:levels") <= 2


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with running_cluster(tmp_path_factory.mktemp("cluster")) as servers:
        yield servers[0]


@pytest.mark.parametrize("server", ["redis_server", "cluster"])
async def test_of_many_requests_at_once_as_many_pass_as_the_limit_says(server, request):
    key = replace(KEY, name="many", requests_per_minute=100)
    url = request.getfixturevalue(server).url
    async with sharing(url, timeout_s=1.0) as one, sharing(url, timeout_s=1.0) as other:
        entering = []
        for shared in (one, other) * 100:
            entering.append(shared.enter(key, costs_tokens=True))
        refusals = await asyncio.gather(*entering)
        assert 100 <= refusals.count(None) <= 105, "some flow in meanwhile"
        one.charge(key, requests=30, tokens=7)
        other.charge(key, requests=30, tokens=7)
        assert await one.enter(key, costs_tokens=True) is not None, "behind its charge"
        refused = await other.enter(key, costs_tokens=True)
        assert refused.limit == "requests_per_minute"
        assert 30 < refused.wait_s < 40, "what exceeds the bucket is paid back first"


async def test_buckets_fill_up_evenly_by_the_clock_of_redis(redis_server):
    key = replace(KEY, name="filling", requests_per_minute=60)
    async with sharing(redis_server.url) as shared:
        shared.charge(key, requests=90, tokens=0)
        with redis_server.client() as client:
            for wait_s in (31, 11):
                refused = await shared.enter(key, costs_tokens=True)
                assert wait_s - 5 < refused.wait_s <= wait_s
                client.hincrbyfloat("cocoa:limits:filling:levels", "at", -20)
        assert await shared.enter(key, costs_tokens=True) is None


async def test_of_a_limit_that_a_key_has_lost_nothing_is_kept(redis_server):
    key = replace(KEY, name="again", requests_per_minute=60, tokens_per_minute=60)
    async with sharing(redis_server.url) as shared:
        shared.charge(key, requests=0, tokens=120)
        assert (await shared.enter(key, costs_tokens=True)).limit == "tokens_per_minute"
        assert await shared.enter(replace(key, tokens_per_minute=None), costs_tokens=True) is None
        assert await shared.enter(key, costs_tokens=True) is None


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
    "another limit": [3, 0],
    "a wait that is over": [1, -1],
    "nothing": None,
}


@pytest.mark.parametrize("reply", NONSENSE.values(), ids=NONSENSE)
async def test_a_reply_without_sense_is_a_fault_and_no_refusal(redis_server, monkeypatch, reply):
    told = []
    async with sharing(redis_server.url, told) as shared:
        script = "return redis.error_reply('x')" if reply is None else f"return {_lua(reply)}"
        monkeypatch.setattr("app.plugins.keys.shared._TAKE", script)
        key = replace(KEY, requests_per_minute=1)
        for _ in range(2):
            assert await shared.enter(key, costs_tokens=True) is None
        assert told[1:2] == ["suspect"]


def _lua(reply):
    if isinstance(reply, list):
        return "{" + ", ".join(map(_lua, reply)) + "}"
    return repr(reply.decode()) if isinstance(reply, bytes) else str(reply)
