"""Memory: what was put comes back, all else is a miss that is told, and work is shared."""

import asyncio

import pytest

from app.cache.memory import MemoryCache
from app.cache.protocol import CacheConfig
from app.scoring.memory import Memory
from tests.conftest import until
from tests.observers import Told

pytestmark = pytest.mark.anyio


def made():
    stored, told = MemoryCache(CacheConfig()), Told()
    return Memory(stored, told), stored, told


async def test_payloads_come_back_decoded_in_the_order_of_their_names():
    memory, _, told = made()
    memory.put({"a": b"1", "b": b"2"})

    assert await memory.get_many(["b", "x", "a", "b"], int) == [2, None, 1, 2]
    assert told.num_corrupt == 0


async def test_what_was_not_put_under_its_name_is_a_miss_that_is_told_and_harms_no_other():
    memory, stored, told = made()
    memory.put({"a": b"1", "b": b"2", "c": b"3"})
    [moved] = await stored.get_many(["a"])
    stored.put({"b": moved, "c": b"3"})

    assert await memory.get_many(["a", "b", "c"], int) == [1, None, None]
    assert told.num_corrupt == 2


@pytest.mark.parametrize("error", [ValueError, TypeError, KeyError, IndexError, AttributeError])
async def test_what_cannot_be_decoded_is_a_miss_that_is_told_until_it_is_overwritten(error):
    def decode(payload):
        if payload == b"bad":
            raise error
        return payload

    memory, _, told = made()
    memory.put({"a": b"bad"})
    assert await memory.get_many(["a"], decode) == [None]
    memory.put({"a": b"good"})
    assert await memory.get_many(["a"], decode) == [b"good"]
    assert told.num_corrupt == 1


async def test_a_payload_that_stands_for_nothing_is_no_corruption():
    memory, _, told = made()
    memory.put({"a": b"1"})

    assert await memory.get_many(["a"], lambda payload: None) == [None]
    assert told.num_corrupt == 0


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


async def test_what_another_process_computes_is_waited_for():
    stored, told = MemoryCache(CacheConfig()), Told()
    claims = {"a"}

    async def claim(name):
        return name not in claims

    stored.claim = claim
    memory = Memory(stored, told)
    waiting = asyncio.create_task(found(memory, int))
    await until(lambda: told.lookups == [False])
    memory.put({"a": b"1"})
    assert await waiting == (1, "joined")
    assert told.num_joined == 1


class Flights:
    """A memory as the tests of shared work use it: nothing is kept."""

    def __init__(self):
        self.memory, _, self.told = made()

    async def run(self, key, work):
        async def compute():
            return await work(), None

        value, _ = await self.memory.get_or_compute(key, None, int, compute)
        return value


class Work:
    """Counts its runs, waits for a gate, and says whether it was cancelled."""

    def __init__(self, error=None):
        self.num_runs = self.num_cancelled = 0
        self.gate = asyncio.Event()
        self.error = error

    async def __call__(self):
        self.num_runs += 1
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.num_cancelled += 1
            raise
        if self.error is not None:
            raise self.error
        return self.num_runs


async def waiting(flights, work, count, key="key"):
    tasks = [asyncio.create_task(flights.run(key, work)) for _ in range(count)]
    await asyncio.sleep(0.01)
    return tasks


async def test_what_has_ended_is_done_again():
    flights, work = Flights(), Work()
    work.gate.set()

    assert [await flights.run("key", work), await flights.run("key", work)] == [1, 2]


async def test_other_keys_fly_alone():
    flights, work = Flights(), Work()
    tasks = [*await waiting(flights, work, 2, "a"), *await waiting(flights, work, 2, "b")]
    work.gate.set()
    await asyncio.gather(*tasks)

    assert work.num_runs == 2


async def test_whoever_comes_while_the_abandoned_work_is_cancelled_starts_anew():
    flights, released = Flights(), asyncio.Event()
    num_runs = 0

    async def slow_to_end():
        nonlocal num_runs
        num_runs += 1
        if num_runs == 1:
            try:
                await asyncio.sleep(60)
            finally:
                await released.wait()
        return num_runs

    (abandoned,) = await waiting(flights, slow_to_end, 1)
    abandoned.cancel()
    await asyncio.gather(abandoned, return_exceptions=True)

    assert await flights.run("key", slow_to_end) == 2
    released.set()
    await asyncio.sleep(0.01)
