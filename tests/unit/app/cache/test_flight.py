"""Single flight: one task for all who ask alike, which ends with the last of them."""

import asyncio

import pytest

from app.cache.flight import SingleFlight

pytestmark = pytest.mark.anyio


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


async def test_all_who_ask_while_it_runs_share_one_result():
    flights, work = SingleFlight(), Work()
    tasks = await waiting(flights, work, 50)
    assert "key" in flights
    work.gate.set()

    assert await asyncio.gather(*tasks) == [1] * 50
    assert work.num_runs == 1
    assert "key" not in flights


async def test_what_has_ended_is_done_again():
    flights, work = SingleFlight(), Work()
    work.gate.set()

    assert [await flights.run("key", work), await flights.run("key", work)] == [1, 2]


async def test_other_keys_fly_alone():
    flights, work = SingleFlight(), Work()
    tasks = [*await waiting(flights, work, 2, "a"), *await waiting(flights, work, 2, "b")]
    work.gate.set()
    await asyncio.gather(*tasks)

    assert work.num_runs == 2


async def test_an_error_goes_to_every_waiter_and_is_not_remembered():
    flights, work = SingleFlight(), Work(ValueError("broken"))
    tasks = await waiting(flights, work, 3)
    work.gate.set()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)

    assert [str(outcome) for outcome in outcomes] == ["broken"] * 3
    with pytest.raises(ValueError, match="broken"):
        await flights.run("key", work)
    assert work.num_runs == 2


async def test_a_waiter_that_leaves_takes_nothing_from_the_others():
    flights, work = SingleFlight(), Work()
    first, second, third = await waiting(flights, work, 3)
    first.cancel()
    second.cancel()
    await asyncio.gather(first, second, return_exceptions=True)
    work.gate.set()

    assert await third == 1
    assert work.num_cancelled == 0


async def test_the_last_that_leaves_ends_the_work():
    flights, work = SingleFlight(), Work()
    tasks = await waiting(flights, work, 3)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.sleep(0)

    assert work.num_cancelled == 1
    assert "key" not in flights


async def test_whoever_comes_while_the_abandoned_work_is_cancelled_starts_anew():
    flights, released = SingleFlight(), asyncio.Event()
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
    assert "key" not in flights


async def test_each_waiter_has_its_own_deadline():
    flights, work = SingleFlight(), Work()

    async def within(seconds):
        async with asyncio.timeout(seconds):
            return await flights.run("key", work)

    hasty, patient = asyncio.create_task(within(0.01)), asyncio.create_task(within(30))
    with pytest.raises(TimeoutError):
        await hasty
    work.gate.set()

    assert await patient == 1
    assert work.num_runs == 1
