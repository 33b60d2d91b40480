"""A Redis that would let go of labels is refused by name; one that fails says how."""

import asyncio

import pytest
from pydantic import SecretStr

from app.plugins.labels.protocol import FeedbackConfig, StoreFailed
from app.plugins.labels.redis import RedisStore, why_not_durable
from cocoa_lab.calibration.feedback import stored_labels
from tests.chaos.redis_server import running_redis
from tests.made_labels import a_label, an_answer

pytestmark = pytest.mark.anyio

DURABLE = {
    "appendonly": "yes",
    "appendfsync": "always",
    "no-appendfsync-on-rewrite": "no",
    "maxmemory-policy": "noeviction",
}


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"appendonly": "no"}, "appendonly yes"),
        ({"appendfsync": "everysec"}, "appendfsync always"),
        ({"no-appendfsync-on-rewrite": "yes"}, "no-appendfsync-on-rewrite no"),
        ({"maxmemory-policy": "allkeys-lru"}, "maxmemory-policy"),
    ],
)
def test_what_lets_go_of_labels_is_named(changes, named):
    assert named in why_not_durable(DURABLE | changes)


@pytest.mark.parametrize("policy", ["noeviction", "volatile-lru"])
def test_what_keeps_labels_is_no_fault(policy):
    assert why_not_durable(DURABLE | {"maxmemory-policy": policy}) is None
    assert why_not_durable({}) is not None


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with running_redis(tmp_path_factory.mktemp("redis")) as running:
        yield running


@pytest.fixture
async def starting(request, server):
    """A function that starts a store on a Redis that writes nothing to disk."""
    stores = []

    async def start(**config):
        config = {"namespace": request.node.name.partition("[")[0][:64], "timeout_s": 20} | config
        config = FeedbackConfig(url=SecretStr(server.url), **config)
        stores.append(RedisStore(server.url, config, lambda: None))
        await stores[-1].start()
        return stores[-1], lambda: stored_labels(server.url, config)

    yield start
    for store in stores:
        await store.close()


async def test_a_redis_that_writes_nothing_to_disk_is_refused_with_the_setting_that_waives_it(
    starting,
):
    store, kept = await starting()
    with pytest.raises(StoreFailed, match=r"appendonly yes.*COCOA_FEEDBACK__REQUIRE_FSYNC"):
        await store.put(a_label("a"))
    assert kept().labels == []


async def test_where_that_is_waived_labels_are_kept(starting):
    store, kept = await starting(require_fsync=False)
    await store.put(label := a_label("a"))
    assert kept().labels == [label]


async def test_what_others_wrote_under_an_answers_name_is_none(starting, server):
    store, _ = await starting(namespace="others")
    with server.client() as client:
        client.set("others:feedback:answer:a", b"junk")
        client.set("others:feedback:answer:b", b"")
    assert [await store.find("a"), await store.find("b")] == [None, None]


async def test_what_is_no_label_is_counted_and_left_out(starting, server):
    store, kept = await starting(namespace="mixed", require_fsync=False)
    await store.put(a_label("a"))
    with server.client() as client:
        client.hset("mixed:feedback:labels", "b", b"junk")
    stored = kept()
    assert [label.answer.id for label in stored.labels] == ["a"]
    assert stored.num_unread == 1


async def test_answers_wait_for_a_redis_that_is_away_the_oldest_go_first(tmp_path):
    lost = []
    with running_redis(tmp_path, "--appendonly", "yes", "--appendfsync", "always") as server:
        config = FeedbackConfig(max_answers=2, timeout_s=1)
        store, other = (RedisStore(server.url, config, lambda: lost.append(1)) for _ in range(2))
        server.kill()
        await store.start()
        for answer_id in ("a", "b", "c"):
            store.remember(an_answer(answer_id))
        assert len(lost) == 1
        assert await store.find("c") is not None
        with pytest.raises(StoreFailed, match="unreachable"):
            await store.find("a")
        with pytest.raises(StoreFailed, match="unreachable"):
            await store.put(a_label("c"))
        server.start()
        async with asyncio.timeout(30):
            while await other.find("c") is None:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        assert await other.find("b") is not None
        await store.close()
        await other.close()


async def test_a_redis_that_is_read_only_keeps_nothing_and_says_so(tmp_path):
    with running_redis(tmp_path, "--appendonly", "yes", "--appendfsync", "always") as server:
        store = RedisStore(server.url, FeedbackConfig(timeout_s=20), lambda: None)
        await store.put(a_label("a"))
        with server.client() as client:
            client.replicaof("127.0.0.1", 1)
            with pytest.raises(StoreFailed, match="read-only"):
                await store.put(a_label("b"))
            client.replicaof("NO", "ONE")
        await store.put(a_label("c"))
        kept = stored_labels(server.url, FeedbackConfig()).labels
        assert {label.answer.id for label in kept} == {"a", "c"}
        await store.close()


async def test_a_user_who_may_not_read_the_settings_of_redis_is_told_what_is_needed(tmp_path):
    with running_redis(tmp_path, "--appendonly", "yes", "--appendfsync", "always") as server:
        with server.client() as client:
            rights = ("on", ">sesame", "~cocoa:feedback:*", "+@read", "+@write", "+@connection")
            client.execute_command("ACL", "SETUSER", "labels", *rights, "-@dangerous")
            url = server.url.replace("//", "//labels:sesame@")
            store = RedisStore(url, FeedbackConfig(timeout_s=20), lambda: None)
            with pytest.raises(StoreFailed, match=r"CONFIG GET.*COCOA_FEEDBACK__REQUIRE_FSYNC"):
                await store.put(a_label("a"))
            client.execute_command("ACL", "SETUSER", "labels", "+config|get")
        await store.put(a_label("a"))
        await store.close()


async def test_a_redis_that_hangs_costs_its_time_limit_and_says_so(tmp_path):
    with running_redis(tmp_path, "--appendonly", "yes", "--appendfsync", "always") as server:
        store = RedisStore(server.url, FeedbackConfig(timeout_s=0.5), lambda: None)
        await store.put(a_label("a"))
        server.stop()
        async with asyncio.timeout(30):
            with pytest.raises(StoreFailed, match="too slow"):
                await store.put(a_label("b"))
        server.cont()
        await store.put(a_label("c"))
        await store.close()


async def test_a_reader_is_told_what_is_wrong_with_redis_and_no_url_is_quoted():
    url = "redis://user:sesame@127.0.0.1:1"
    with pytest.raises(StoreFailed, match="unreachable") as raised:
        stored_labels(url, FeedbackConfig())
    assert "sesame" not in str(raised.value)
