"""A Redis that wants a password, gives few rights, or speaks TLS."""

import pytest

from tests.chaos.certificates import make_authority
from tests.chaos.redis_cache import (
    ENTRY,
    MISSES,
    PASSWORD,
    assert_healed,
    assert_lives_without,
    look_up,
    running_cache,
)
from tests.chaos.redis_server import free_port, running_redis

pytestmark = pytest.mark.anyio


async def test_a_password_that_redis_refuses_and_then_accepts(tmp_path, log):
    with running_redis(tmp_path, "--requirepass", "another") as server:
        async with running_cache(server.url.replace("://", f"://:{PASSWORD}@")) as running:
            assert await look_up(running) == MISSES
            await assert_lives_without(running, "authentication refused: WRONGPASS", log)
            with server.client(password="another") as client:
                client.config_set("requirepass", PASSWORD)
            await assert_healed(running, log)


async def test_a_redis_that_wants_a_password_and_is_given_none(tmp_path, log):
    with running_redis(tmp_path, "--requirepass", PASSWORD) as server:
        async with running_cache(server.url) as running:
            await assert_lives_without(running, "authentication refused: NOAUTH", log)


async def test_a_user_with_few_rights_is_enough_and_one_without_the_namespace_is_refused(
    server, log
):
    rights = ["+@read", "+@write", "+@connection", "-@dangerous"]
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "cache", "on", f">{PASSWORD}", "~cocoa:*", *rights)
    url = server.url.replace("://", f"://cache:{PASSWORD}@")
    async with running_cache(url) as running:
        await running.store(ENTRY)
    assert running.outages == []
    async with running_cache(url, namespace="other") as running:
        await assert_lives_without(running, "permission refused: NOPERM", log)


async def test_rights_that_are_taken_away_and_given_back(server, log):
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "cache", "on", f">{PASSWORD}", "~cocoa:*", "+@all")
        async with running_cache(server.url.replace("://", f"://cache:{PASSWORD}@")) as running:
            await running.store(ENTRY)
            client.execute_command("ACL", "SETUSER", "cache", "-@write")
            await assert_lives_without(running, "permission refused: NOPERM", log)
            client.execute_command("ACL", "SETUSER", "cache", "+@write")
            await assert_healed(running, log)


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    """A directory with an authority's certificate, and what it signed for server localhost."""
    return make_authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def tls_server(tmp_path, authority):
    options = ["--tls-port", str(free_port()), "--tls-auth-clients", "no"]
    for name, file in (("cert", "server.pem"), ("key", "server.key"), ("ca-cert", "ca.pem")):
        options += [f"--tls-{name}-file", str(authority / file)]
    with running_redis(tmp_path, *options) as running:
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
