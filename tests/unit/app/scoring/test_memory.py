"""Memory: what was put comes back, all else is a miss that is told, and work is shared."""

import asyncio

import pytest

from app.cache.memory import MemoryCache
from app.cache.protocol import CacheConfig
from app.scoring.memory import Memory, seal, unseal
from tests.observers import Told

pytestmark = pytest.mark.anyio


def made():
    stored, told = MemoryCache(CacheConfig()), Told()
    return Memory(stored, told), stored, told


def test_the_end_of_a_name_is_not_the_beginning_of_a_payload():
    with pytest.raises(ValueError, match="this name"):
        unseal("a", seal("ab", b"c")[:16] + b"bc")


async def compute_nothing():
    raise AssertionError("it is in the cache")


async def found(memory, read, compute=compute_nothing):
    return await memory.get_or_compute("a", None, read, compute)


async def test_an_entry_is_held_as_long_as_it_is_the_same():
    memory, stored, told = made()
    memory.put({"a": b"1"})
    [entry] = await stored.get_many(["a"])
    assert await memory.holds("a", entry)
    stored.put({"a": entry + b"1"})
    assert not await memory.holds("a", entry)
    assert not await memory.holds("b", entry)
    assert (told.lookups, told.num_corrupt) == ([True], 0), "whoever looks again tells the rest"


async def test_content_that_has_too_little_for_a_caller_is_a_miss_and_no_corruption():
    memory, _, told = made()

    async def compute():
        return 2, b"2"

    memory.put({"a": b"1"})
    assert await found(memory, lambda payload: None, compute) == (2, "computed")
    assert await found(memory, int) == (2, "cache")
    assert (told.num_corrupt, told.lookups) == (0, [False, True])


async def test_content_that_fits_no_such_caller_is_corrupt():
    memory, _, told = made()

    def refuse(payload):
        raise ValueError("of another shape")

    async def compute():
        return 2, None

    memory.put({"a": b"1"})
    assert await found(memory, refuse, compute) == (2, "computed")
    assert told.num_corrupt == 1


async def test_whoever_comes_while_the_abandoned_work_is_cancelled_starts_anew():
    memory, _, _ = made()
    released = asyncio.Event()
    num_runs = 0

    async def slow_to_end():
        nonlocal num_runs
        num_runs += 1
        if num_runs == 1:
            try:
                await asyncio.sleep(60)
            finally:
                await released.wait()
        return num_runs, None

    abandoned = asyncio.create_task(found(memory, int, slow_to_end))
    await asyncio.sleep(0.01)
    abandoned.cancel()
    await asyncio.gather(abandoned, return_exceptions=True)

    assert await found(memory, int, slow_to_end) == (2, "computed")
    released.set()
    await asyncio.sleep(0.01)
