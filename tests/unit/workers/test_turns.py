"""Turns: whoever floods waits for themselves alone."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from workers.admission import Turns

pytestmark = pytest.mark.anyio


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


class Runs:
    """Requests that run until they are told to end; `began` has them in order of their turns."""

    def __init__(self, own_rows=100, shared_rows=4):
        self.clock = Clock()
        self.turns = Turns(own_rows, shared_rows, self.clock)
        self.began = []
        self.ends = {}
        self.tasks = {}

    async def ask(self, *names, rows=1):
        """Begin requests; the first letter of a name is its caller's."""
        for name in names:
            self.ends[name] = asyncio.Event()
            self.tasks[name] = asyncio.create_task(self._run(name, rows))
        await self.settle()

    async def end(self, *names):
        for name in names:
            self.ends[name].set()
        await self.settle()

    async def leave(self, name):
        self.tasks[name].cancel()
        await self.settle()

    async def settle(self):
        for _ in range(5):
            await asyncio.sleep(0)

    async def _run(self, name, rows):
        async with self.turns.turn(name[0], rows):
            self.began.append(name)
            await self.ends[name].wait()


@pytest.fixture
async def running(anyio_backend):
    """Makes `Runs` whose tasks end with the test."""
    made = []

    @asynccontextmanager
    async def make(**kwargs):
        runs = Runs(**kwargs)
        made.append(runs)
        yield runs

    yield make
    for runs in made:
        for task in runs.tasks.values():
            task.cancel()
        await asyncio.gather(*runs.tasks.values(), return_exceptions=True)
        assert runs.turns.num_waiting == 0


async def test_a_caller_alone_runs_up_to_its_own_bound(running):
    async with running(own_rows=3) as runs:
        await runs.ask("a1", "a2", "a3", "a4")
        assert runs.began == ["a1", "a2", "a3"]
        assert runs.turns.num_waiting == 1
        await runs.end("a2")
        assert runs.began == ["a1", "a2", "a3", "a4"]


async def test_a_single_request_begins_at_once_however_many_another_caller_waits_with(running):
    async with running(own_rows=4) as runs:
        flood = [f"a{number}" for number in range(50)]
        await runs.ask(*flood)
        await runs.ask("b0")
        assert runs.began == [*flood[:4], "b0"]


async def test_with_two_callers_each_has_half(running):
    async with running(own_rows=4, shared_rows=4) as runs:
        await runs.ask(*[f"a{number}" for number in range(8)])
        await runs.ask(*[f"b{number}" for number in range(8)])
        assert runs.began[4:] == ["b0", "b1"]
        await runs.end("a0", "a1")
        assert runs.began[6:] == [], "the first has two left, its half"
        await runs.end("a2", "b0")
        assert runs.began[6:] == ["a4", "b2"]


async def test_the_part_of_a_caller_that_rests_for_a_moment_stays_free(running):
    async with running(own_rows=4, shared_rows=4) as runs:
        await runs.ask("b0")
        await runs.end("b0")
        await runs.ask(*[f"a{number}" for number in range(8)])
        assert runs.began == ["b0", "a0", "a1"]
        runs.clock.now += 59
        await runs.end("a0")
        assert runs.began[3:] == ["a2"]
        runs.clock.now += 2
        await runs.end("a1")
        assert runs.began[4:] == ["a3", "a4", "a5"], "now it is alone"


async def test_one_request_always_runs_however_large(running):
    async with running(own_rows=4, shared_rows=4) as runs:
        await runs.ask("a0", "a1", rows=65)
        await runs.ask("b0", "b1", rows=65)
        assert runs.began == ["a0", "b0"]
        await runs.end("b0")
        assert runs.began == ["a0", "b0", "b1"]


async def test_rows_count_not_requests(running):
    async with running(own_rows=100, shared_rows=8) as runs:
        await runs.ask("b0")
        await runs.ask("a0", "a1", "a2", rows=2)
        assert runs.began == ["b0", "a0", "a1"]


async def test_who_leaves_while_it_waits_or_runs_takes_nothing_along(running):
    async with running(own_rows=2) as runs:
        await runs.ask("a0", "a1", "a2", "a3", "a4")
        await runs.leave("a2")
        await runs.leave("a0")
        assert runs.began == ["a0", "a1", "a3"]
        await runs.end("a1")
        assert runs.began == ["a0", "a1", "a3", "a4"]


async def test_who_leaves_in_the_moment_of_its_turn_frees_it(running):
    async with running(own_rows=1) as runs:
        await runs.ask("a0", "a1", "a2")
        runs.tasks["a1"].cancel()  # which it learns after the others
        await runs.end("a0")
        assert runs.began == ["a0", "a2"]
        await runs.ask("a3", "a4")
        runs.ends["a2"].set()
        await asyncio.sleep(0)
        while runs.turns.num_waiting == 2:  # noqa: ASYNC110
            await asyncio.sleep(0)
        await runs.leave("a3")  # it has its turn and does not know
        assert runs.began == ["a0", "a2", "a4"]
