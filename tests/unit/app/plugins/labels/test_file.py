"""Labels in a file: what is half written, refused by the disk, or another gateway's."""

import asyncio
import errno
import json
import os
import stat
from types import SimpleNamespace

import pytest

from app.plugins.labels.file import FileStore
from app.plugins.labels.protocol import FeedbackConfig, StoreFailed
from cocoa_lab.calibration.feedback import stored_labels
from tests.made_labels import a_label, an_answer

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path):
    return tmp_path / "labels.jsonl"


def a_store(path, **config):
    return FileStore(FeedbackConfig(path=str(path), **config), lambda: None)


def kept(path):
    stored = stored_labels(str(path), FeedbackConfig())
    assert stored.num_unread == 0
    return [label.answer.id for label in stored.labels]


async def put_all(path, *answer_ids):
    store = a_store(path)
    await store.start()
    for answer_id in answer_ids:
        await store.put(a_label(answer_id))
    await store.close()


async def test_half_a_line_of_a_writer_that_was_killed_goes_and_nothing_else(path):
    await put_all(path, "a", "b")
    whole = path.read_bytes()
    path.write_bytes(whole + whole[: len(whole) // 3])
    assert kept(path) == ["a", "b"]
    await put_all(path, "c")
    assert kept(path) == ["a", "b", "c"]
    assert path.read_bytes().startswith(whole)


class Disk:
    """os.write and os.fsync of a disk that fails when told to, after half of what it is given."""

    def __init__(self, monkeypatch):
        self.num_fsyncs, self.fails = 0, ""
        self._write, self._fsync = os.write, os.fsync
        monkeypatch.setattr("app.plugins.labels.file.os.write", self.write)
        monkeypatch.setattr("app.plugins.labels.file.os.fsync", self.fsync)

    def write(self, file, content):
        if self.fails == "write":
            self._write(file, content[: len(content) // 2])
            raise OSError(errno.ENOSPC, "No space left on device")
        return self._write(file, content)

    def fsync(self, file):
        self.num_fsyncs += 1
        if self.fails == "fsync":
            raise OSError(errno.EIO, "Input/output error")
        self._fsync(file)


@pytest.fixture
def disk(monkeypatch):
    return Disk(monkeypatch)


@pytest.mark.parametrize("what", ["write", "fsync"])
async def test_a_label_that_the_disk_refuses_is_not_kept_and_the_next_one_is_whole(
    path, disk, what
):
    store = a_store(path)
    await store.start()
    await store.put(a_label("a"))
    disk.fails = what
    with pytest.raises(StoreFailed, match="the file cannot be written"):
        await store.put(a_label("b"))
    disk.fails = ""
    await store.put(a_label("c"))
    await store.close()
    assert kept(path) == ["a", "c"]


async def test_labels_that_wait_share_an_fsync_and_none_returns_before_its_own(path, disk):
    store = a_store(path)
    await store.start()
    before = disk.num_fsyncs
    await asyncio.gather(*(store.put(a_label(f"{i}")) for i in range(100)))
    assert 1 <= disk.num_fsyncs - before < 10
    await store.put(a_label("alone"))
    after = disk.num_fsyncs
    await store.put(a_label("alone again"))
    assert disk.num_fsyncs == after + 1
    await store.close()


async def labelled(store, answer_id, *qualities):
    """Label one remembered answer again and again."""
    store.remember(an_answer(answer_id))
    for quality in qualities:
        await store.put(a_label(answer_id, quality))


async def test_a_label_that_is_sent_again_is_written_once(path, disk):
    store = a_store(path)
    await store.start()
    await labelled(store, "a", *[1.0] * 1000)
    await asyncio.gather(*(store.put(a_label("a")) for _ in range(1000)))
    await labelled(store, "b", 0.0)
    before = disk.num_fsyncs
    await asyncio.gather(*(store.put(a_label("b", 0.5)) for _ in range(1000)))
    assert disk.num_fsyncs == before + 1, "nobody returns before it is durable"
    await store.close()
    qualities = [json.loads(line)["quality"] for line in path.read_bytes().splitlines()]
    assert qualities == [1.0, 0.0, 0.5]


async def test_labels_that_the_disk_refused_count_for_nothing(path, disk):
    store = a_store(path)
    await store.start()
    store.remember(an_answer("a"))
    disk.fails = "fsync"
    for _ in range(20):
        with pytest.raises(StoreFailed):
            await store.put(a_label("a"))
    disk.fails = ""
    await store.put(a_label("a"))
    await store.close()
    assert kept(path) == ["a"]


async def test_who_leaves_takes_the_same_label_of_nobody_else_with_them(path):
    store = a_store(path)
    await store.start()
    store.remember(an_answer("a"))
    leaving, staying = (asyncio.create_task(store.put(a_label("a"))) for _ in range(2))
    await asyncio.sleep(0)
    leaving.cancel()
    await staying
    await store.close()
    assert kept(path) == ["a"]


async def test_a_file_of_a_gateway_that_runs_is_refused_to_another_until_it_ends(path):
    first, second = a_store(path), a_store(path)
    await first.start()
    with pytest.raises(OSError, match="belongs to another gateway"):
        await second.start()
    await first.close()
    await put_all(path, "a")
    assert kept(path) == ["a"]


async def test_a_file_that_cannot_be_opened_is_told_at_start(tmp_path):
    with pytest.raises(OSError, match="No such file"):
        await a_store(tmp_path / "missing" / "labels.jsonl").start()
    with pytest.raises(OSError, match="directory"):
        await a_store(tmp_path).start()


async def test_nobody_else_may_read_the_file(path):
    await put_all(path, "a")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_the_oldest_answer_makes_room_and_is_told():
    lost = []
    store = FileStore(FeedbackConfig(path="unused", max_answers=2), lambda: lost.append(1))
    for answer_id in ("a", "b", "a", "c"):
        store.remember(an_answer(answer_id))
    found = [await store.find(answer_id) is not None for answer_id in ("a", "b", "c")]
    assert found == [True, False, True]
    assert len(lost) == 1


async def test_old_answers_are_no_loss(monkeypatch):
    now, lost = [1000.0], []
    config = FeedbackConfig(path="unused", max_answers=2, ttl_s=10)
    store = FileStore(config, lambda: lost.append(1))
    monkeypatch.setattr("app.plugins.labels.file.time", SimpleNamespace(time=lambda: now[0]))
    for served_at in (1000.0, 1001.0, 1012.0):
        now[0] = served_at
        store.remember(an_answer(f"{served_at}", served_at=served_at))
    assert await store.find("1000.0") is None
    assert not lost


async def test_before_its_start_a_store_keeps_nothing(path):
    with pytest.raises(StoreFailed, match="not open"):
        await a_store(path).put(a_label("a"))
