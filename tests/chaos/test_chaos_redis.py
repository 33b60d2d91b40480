"""A cache over a real Redis that is killed, stopped, full, read-only, slow, or refuses us.

The cache misses, then heals.
"""

import asyncio
import logging
import time

import pytest

from app.cache.connections import Connections, Write
from app.cache.protocol import CacheConfig
from tests.chaos.certificates import make_authority
from tests.chaos.proxy import proxy_to
from tests.chaos.redis_cache import running_cache
from tests.chaos.redis_server import WITHIN_S, free_port, running_redis
from tests.conftest import until

pytestmark = pytest.mark.anyio
PASSWORD = "sesame-open-4711"
ENTRY = {"a": b"1"}
MISSES = [None] * 20


@pytest.fixture
def server(tmp_path):
    with running_redis(tmp_path) as running:
        yield running


@pytest.fixture
def log(caplog):
    """Records of the cache.

    Whatever a test does, none of them may quote a key, a value or a password.
    """
    caplog.set_level(logging.INFO)
    yield caplog
    assert "secret" not in caplog.text
    assert PASSWORD not in caplog.text


def given_up(log):
    return [record.getMessage() for record in log.records if record.levelno == logging.WARNING]


async def look_up(running):
    return await asyncio.gather(*(running.get("a") for _ in MISSES))


async def assert_lives_without(running, kind, log):
    """The fault is found by reads or writes, costs misses only, and is told once in these words."""
    async with asyncio.timeout(30):
        while running.reports[-1:] != [True]:
            running.cache.put({"secret key": b"secret value"})
            await look_up(running)
            await asyncio.sleep(0.01)
    assert await look_up(running) == MISSES
    assert given_up(log) == [f"the cache is off until Redis recovers: {kind}"]


async def assert_healed(running, log):
    await running.store({"b": b"2"})
    assert await running.get("b") == b"2"
    assert running.reports == [True, False]
    assert [record.getMessage() for record in log.records][-1] == "the cache is on again"


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


async def test_a_password_that_redis_refuses_and_then_accepts(tmp_path, log):
    with running_redis(tmp_path, "--requirepass", "another") as server:
        async with running_cache(server.url.replace("://", f"://:{PASSWORD}@")) as running:
            assert await look_up(running) == MISSES
            await assert_lives_without(running, "authentication refused", log)
            with server.client(password="another") as client:
                client.config_set("requirepass", PASSWORD)
            await assert_healed(running, log)


async def test_a_redis_that_wants_a_password_and_is_given_none(tmp_path, log):
    with running_redis(tmp_path, "--requirepass", PASSWORD) as server:
        async with running_cache(server.url) as running:
            await assert_lives_without(running, "authentication refused", log)


async def test_a_user_with_few_rights_is_enough_and_one_without_the_namespace_is_refused(
    server, log
):
    rights = ["+@read", "+@write", "+@connection", "-@dangerous"]
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "cache", "on", f">{PASSWORD}", "~cocoa:*", *rights)
    url = server.url.replace("://", f"://cache:{PASSWORD}@")
    async with running_cache(url) as running:
        await running.store(ENTRY)
    assert running.reports == []
    async with running_cache(url, namespace="other") as running:
        await assert_lives_without(running, "permission refused", log)


async def test_rights_that_are_taken_away_and_given_back(server, log):
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "cache", "on", f">{PASSWORD}", "~cocoa:*", "+@all")
        async with running_cache(server.url.replace("://", f"://cache:{PASSWORD}@")) as running:
            await running.store(ENTRY)
            client.execute_command("ACL", "SETUSER", "cache", "-@write")
            await assert_lives_without(running, "permission refused", log)
            client.execute_command("ACL", "SETUSER", "cache", "+@write")
            await assert_healed(running, log)


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    """A directory with an authority's certificate, and what it signed for server localhost."""
    return make_authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def tls_server(tmp_path, authority):
    options = ["--tls-port", str(free_port()), "--tls-auth-clients", "no"]
    options += [
        "--tls-cert-file",
        str(authority / "server.pem"),
        "--tls-key-file",
        str(authority / "server.key"),
    ]
    with running_redis(
        tmp_path, *options, "--tls-ca-cert-file", str(authority / "ca.pem")
    ) as running:
        yield running


async def test_tls_with_the_authority_of_the_server_serves_and_heals(tls_server, authority, log):
    async with running_cache(tls_server.url, ca_file=authority / "ca.pem") as running:
        await running.store(ENTRY)
        tls_server.stop()
        assert await look_up(running) == MISSES
        await assert_lives_without(running, "too slow", log)
        tls_server.cont()
        await assert_healed(running, log)


async def test_a_certificate_of_an_unknown_authority_is_refused(tls_server, log):
    async with running_cache(tls_server.url) as running:
        await assert_lives_without(running, "TLS failed", log)


async def test_a_certificate_for_another_host_is_refused(tls_server, authority, log):
    url = tls_server.url.replace("localhost", "127.0.0.1")
    async with running_cache(url, ca_file=authority / "ca.pem") as running:
        await assert_lives_without(running, "TLS failed", log)


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
            client.rpush("cocoa:a", "secret")
            assert await running.get("a") is None
            await running.store(ENTRY)
            assert client.type("cocoa:a") == b"string"
    assert running.reports == []


async def test_connections_that_are_reset_are_made_anew(server):
    async with proxy_to(server.port) as proxy, running_cache(proxy.url) as running:
        for _ in range(5):
            await running.store(ENTRY)
            proxy.cut()
            await look_up(running)
        await running.store(ENTRY)


def puts(entries):
    return [Write("put", key, value) for key, value in entries.items()]


async def test_a_claim_that_nobody_keeps_lapses_and_one_that_is_kept_does_not(server, monkeypatch):
    monkeypatch.setattr("app.cache.connections._CLAIM_MS", 300)
    async with running_cache(server.url) as one, running_cache(server.url) as other:
        await one.store(ENTRY)
        await other.store(ENTRY)
        assert await one.cache.claim("kept")
        assert await one.cache.claim("left")
        for _ in range(12):
            one.cache.keep("kept")
            await asyncio.sleep(0.05)
        assert await other.cache.claim("left")
        assert not await other.cache.claim("kept")


async def test_where_redis_is_gone_every_claim_is_granted(server):
    async with running_cache(server.url) as one:
        await one.store(ENTRY)
        server.kill()
        assert await one.cache.claim("a")
        assert await one.cache.claim("a")


async def test_a_late_reply_never_becomes_the_answer_to_another_lookup(server):
    entries = {f"key {i}": f"value {i}".encode() for i in range(20)}
    async with proxy_to(server.port) as proxy:
        connections = Connections(proxy.url, CacheConfig())
        await connections.write(puts(entries), WITHIN_S)
        for key, value in entries.items():
            proxy.delay_s = 0.2
            with pytest.raises(TimeoutError):
                await connections.read(["key 0", "key 1"], 0.01)
            proxy.delay_s = 0.0
            assert await connections.read([key], WITHIN_S) == [value]
        await connections.close()


async def test_the_reply_to_a_lookup_that_was_cancelled_never_becomes_the_answer_to_another(server):
    entries = {f"key {i}": f"value {i}".encode() for i in range(20)}
    async with proxy_to(server.port) as proxy:
        connections = Connections(proxy.url, CacheConfig())
        await connections.write(puts(entries), WITHIN_S)
        for key, value in entries.items():
            proxy.delay_s = 0.2
            leaving = asyncio.create_task(connections.read(["key 0", "key 1"], WITHIN_S))
            await asyncio.sleep(0.01)
            leaving.cancel()
            await asyncio.gather(leaving, return_exceptions=True)
            proxy.delay_s = 0.0
            assert await connections.read([key], WITHIN_S) == [value]
        await connections.close()


async def test_lookups_that_are_cancelled_leave_no_connection_behind(server):
    async with proxy_to(server.port) as proxy, running_cache(proxy.url) as running:
        await running.store(ENTRY)
        proxy.delay_s = 0.05
        for _ in range(20):
            tasks = [asyncio.create_task(running.get("a")) for _ in range(20)]
            await asyncio.sleep(0.01)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        proxy.delay_s = 0
        await running.store(ENTRY)
        with server.client() as client:
            assert len(client.client_list()) == 3  # one reads, one writes, and this one
    assert running.reports == []


async def test_when_it_ends_it_leaves_no_connection_and_no_lookup_behind(server):
    async with proxy_to(server.port) as proxy:
        async with running_cache(proxy.url) as running:
            await running.store(ENTRY)
            proxy.mute = True
            lookup = asyncio.create_task(running.get("a"))
            await asyncio.sleep(0.01)
        assert await lookup is None
        with server.client() as client:
            await until(lambda: len(client.client_list()) == 1)


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
    assert running.reports == []
