"""The keys that are good now: found by hash, and read again when their file changes."""

import asyncio
import timeit
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest

from app.plugins.keys.records import Key, KeysFileInvalid, digest_of
from app.plugins.keys.ring import KeyRing, is_expired
from tests.conftest import until

pytestmark = pytest.mark.anyio


def content(*names):
    entries = [f'[[keys]]\nname = "{name}"\nsha256 = "{digest_of(name)}"\n' for name in names]
    return "".join(entries)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "keys.toml"
    path.write_text(content("one", "other"))
    return path


def put(file, text):
    """In one step, so that no half of it is ever read."""
    (file.parent / "new.toml").write_text(text)
    (file.parent / "new.toml").rename(file)


@pytest.fixture
def often(monkeypatch):
    monkeypatch.setattr("app.plugins.keys.ring._POLL_S", 0.01)


@asynccontextmanager
async def following(file):
    """A ring that follows its file, and what it told of changes."""
    told = []
    ring = KeyRing(file, told.append)
    task = asyncio.create_task(ring.run())
    try:
        yield ring, told
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def test_among_10_000_keys_one_is_found_as_fast_as_among_two(file):
    def seconds_of_lookups():
        ring = KeyRing(file, print)
        return min(timeit.repeat(lambda: ring.find("nosuch"), number=10, repeat=20))

    among_two = seconds_of_lookups()
    file.write_text(content(*map(str, range(10_000))))
    assert seconds_of_lookups() < 20 * among_two  # comparing each takes 1,000 times as long


def test_while_a_key_is_replaced_both_are_good(file):
    old, new = digest_of("old"), digest_of("new")
    file.write_text(f'[[keys]]\nname = "one"\nsha256 = ["{new}", "{old}"]\n')
    ring = KeyRing(file, print)
    assert ring.find("old") == ring.find("new") == ring.keys[0]


@pytest.mark.parametrize("broken", ["", "[[keys]]", None], ids=["empty", "no entry", "no file"])
def test_a_service_does_not_start_with_a_file_that_cannot_be_used(file, broken):
    file.unlink()
    if broken is not None:
        file.write_text(broken)
    with pytest.raises(KeysFileInvalid, match="COCOA_KEYS__FILE: "):
        KeyRing(file, print)


async def test_keys_come_and_go_with_their_file(file, often):
    async with following(file) as (ring, told):
        put(file, content("other", "third"))
        await until(lambda: told == [True])
        assert ring.find("one") is None
        assert ring.find("third").name == "third"


@pytest.mark.parametrize("broken", ["", "[[keys", None], ids=["empty", "half", "no file"])
async def test_a_file_that_breaks_keeps_the_earlier_keys_and_is_told_once(
    file, often, caplog, broken
):
    async with following(file) as (ring, told):
        file.unlink() if broken is None else put(file, broken)
        await until(lambda: told == [False])
        assert ring.find("one").name == "one"
        await asyncio.sleep(0.05)
        assert told == [False]
        assert [record.levelname for record in caplog.records] == ["ERROR"]
        put(file, content("third"))
        await until(lambda: told == [False, True])
        assert ring.find("one") is None


async def test_a_file_that_is_swapped_behind_a_link_is_read_again(file, often, tmp_path):
    link, second = tmp_path / "link", tmp_path / "second.toml"
    link.symlink_to(file)
    second.write_text(content("third"))
    async with following(link) as (ring, told):
        (tmp_path / "next").symlink_to(second)
        (tmp_path / "next").rename(link)
        await until(lambda: told == [True])
        assert [key.name for key in ring.keys] == ["third"]


def test_a_key_ends_at_its_time():
    now = datetime.now(UTC)
    assert not is_expired(Key("a", ("",)))
    assert not is_expired(Key("a", ("",), expires=now + timedelta(minutes=1)))
    assert is_expired(Key("a", ("",), expires=now))
