"""MicroBatcher: everybody gets their own results, and nobody hangs.

The model gets each distinct item once.
"""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import pytest

from models.errors import ModelLost, NotReady
from workers.batching import MicroBatcher

pytestmark = pytest.mark.anyio


class Square:
    """A blocking call over items; waits for `gate` and remembers its batches.

    Item 13 raises, item 99 loses the model.
    """

    def __init__(self):
        self.batches = []
        self.gate = threading.Event()
        self.gate.set()
        self.threads = set()

    def __call__(self, items):
        assert self.gate.wait(30)
        self.batches.append(list(items))
        self.threads.add(threading.current_thread())
        if 99 in items:
            raise ModelLost("gone")
        if 13 in items:
            raise ValueError("13 is bad luck")
        return [item * item for item in items]


@asynccontextmanager
async def batching(call, *, max_batch=8):
    """A running batcher, its loop and the sizes that it told."""
    sizes = []
    with ThreadPoolExecutor(1) as thread:

        async def on_thread(items):
            return await asyncio.get_running_loop().run_in_executor(thread, call, items)

        batcher = MicroBatcher(on_thread, max_batch=max_batch, on_batch=sizes.append)
        loop = asyncio.create_task(batcher.run())
        try:
            yield batcher, loop, sizes
        finally:
            if isinstance(call, Square):
                call.gate.set()
            loop.cancel()
            await asyncio.gather(loop, return_exceptions=True)


@asynccontextmanager
async def held(batcher, square, item=0):
    """While held, one batch with `item` runs, so that what is submitted gathers for the next."""
    square.gate.clear()
    first = asyncio.create_task(batcher.submit([item]))
    await turns()
    yield
    square.gate.set()
    await first


async def turns(count=5):
    """Let every other task run up to where it waits."""
    for _ in range(count):
        await asyncio.sleep(0)


def submitted(batcher, *batches):
    return [asyncio.create_task(batcher.submit(items)) for items in batches]


async def test_a_caller_gets_the_result_of_each_of_its_items():
    async with batching(Square()) as (batcher, _, _):
        assert await batcher.submit([2, 3, 2]) == {2: 4, 3: 9}


async def test_no_items_ask_nothing():
    square = Square()
    async with batching(square) as (batcher, _, _):
        assert await batcher.submit([]) == {}
    assert square.batches == []


async def test_callers_that_wait_together_share_one_call_and_get_their_own_results():
    square = Square()
    async with batching(square) as (batcher, _, sizes):
        async with held(batcher, square):
            callers = submitted(batcher, [1, 2], [3], [4])
            await turns()
        assert await asyncio.gather(*callers) == [{1: 1, 2: 4}, {3: 9}, {4: 16}]
    assert square.batches == [[0], [1, 3, 4, 2]]
    assert sizes == [1, 4]


async def test_an_item_of_several_callers_is_asked_once():
    square = Square()
    async with batching(square) as (batcher, _, sizes):
        async with held(batcher, square):
            callers = submitted(batcher, [1, 2], [2, 3], [2])
            await turns()
        assert await asyncio.gather(*callers) == [{1: 1, 2: 4}, {2: 4, 3: 9}, {2: 4}]
    assert square.batches[1:] == [[1, 2, 3]]
    assert sizes == [1, 3]


async def test_no_call_has_more_items_than_the_limit():
    square = Square()
    async with batching(square, max_batch=3) as (batcher, _, _):
        async with held(batcher, square):
            callers = submitted(batcher, [1, 2, 3, 4], [5, 6, 7])
            await turns()
        first, second = await asyncio.gather(*callers)
    assert first == {1: 1, 2: 4, 3: 9, 4: 16}
    assert second == {5: 25, 6: 36, 7: 49}
    assert max(map(len, square.batches)) == 3


async def test_callers_take_turns_so_that_a_short_one_does_not_wait_for_a_long_one():
    square = Square()
    async with batching(square, max_batch=3) as (batcher, _, _):
        async with held(batcher, square):
            callers = submitted(batcher, [1, 2, 3, 4, 5, 6], [7], [8, 9])
            await turns()
        await asyncio.gather(*callers)
    assert square.batches[1:] == [[1, 7, 8], [2, 9, 3], [4, 5, 6]]


async def test_every_call_runs_on_the_one_thread_and_never_on_the_event_loops():
    square = Square()
    async with batching(square, max_batch=1) as (batcher, _, _):
        await asyncio.gather(*submitted(batcher, [1], [2], [3]))
    assert len(square.threads) == 1
    assert threading.current_thread() not in square.threads


async def test_an_exception_runs_each_item_once_alone_and_fails_its_own_caller_only():
    square = Square()
    async with batching(square) as (batcher, _, _):
        async with held(batcher, square):
            good, bad, neighbour = submitted(batcher, [1, 2], [13], [2, 3])
            await turns()
        assert await good == {1: 1, 2: 4}
        assert await neighbour == {2: 4, 3: 9}
        with pytest.raises(ValueError, match="bad luck"):
            await bad
        assert await batcher.submit([5]) == {5: 25}, "the loop lives"
    assert square.batches == [[0], [1, 13, 2, 3], [1], [13], [2], [3], [5]]


async def test_a_bad_item_fails_every_caller_that_asked_for_it():
    square = Square()
    async with batching(square) as (batcher, _, _):
        async with held(batcher, square):
            callers = submitted(batcher, [1, 13], [13])
            await turns()
        outcomes = await asyncio.gather(*callers, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [ValueError, ValueError]


@pytest.mark.parametrize("results", [[], [1, 2, 3]], ids=["too few", "too many"])
async def test_results_of_another_length_are_an_error_and_no_mix_up(results):
    async with batching(lambda items: results) as (batcher, _, _):
        with pytest.raises(ValueError, match="zip"):
            await batcher.submit([1, 2])


async def test_the_items_of_a_cancelled_caller_are_dropped():
    square = Square()
    async with batching(square) as (batcher, _, _):
        async with held(batcher, square):
            leaving, staying = submitted(batcher, [1, 2], [2, 3])
            await turns()
            leaving.cancel()
            await turns()
        assert await staying == {2: 4, 3: 9}
        assert leaving.cancelled()
    assert square.batches == [[0], [2, 3]]


async def test_a_caller_that_is_cancelled_while_its_items_run_harms_nobody():
    square = Square()
    async with batching(square) as (batcher, _, _):
        square.gate.clear()
        leaving, staying = submitted(batcher, [1], [1, 2])
        await turns()
        leaving.cancel()
        await turns()
        square.gate.set()
        assert await staying == {1: 1, 2: 4}


async def test_a_lost_model_ends_the_loop_and_fails_all_who_wait():
    square = Square()
    async with batching(square, max_batch=2) as (batcher, loop, _):
        async with held(batcher, square):
            callers = submitted(batcher, [99, 1], [2, 3], [4])
            await turns()
        outcomes = await asyncio.gather(*callers, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [NotReady] * 3
        with pytest.raises(ModelLost):
            await loop
        with pytest.raises(NotReady):
            await batcher.submit([5])
    assert square.batches == [[0], [99, 2]]


async def test_a_model_lost_while_items_run_alone_ends_the_loop_too():
    class LostAlone(Square):
        def __call__(self, items):
            if len(items) > 1:
                raise ValueError("first together")
            return super().__call__(items)

    square = LostAlone()
    async with batching(square) as (batcher, loop, _):
        callers = submitted(batcher, [99, 1], [2])
        outcomes = await asyncio.gather(*callers, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [NotReady] * 2
        with pytest.raises(ModelLost):
            await loop


async def test_a_cancelled_loop_fails_all_who_wait_and_refuses_the_next():
    square = Square()
    async with batching(square) as (batcher, loop, _):
        square.gate.clear()
        (running,) = submitted(batcher, [1])
        await turns()
        (waiting,) = submitted(batcher, [2])
        await turns()
        loop.cancel()
        outcomes = await asyncio.gather(running, waiting, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [NotReady] * 2
        with pytest.raises(NotReady):
            await batcher.submit([])
        with pytest.raises(NotReady):
            await batcher.submit([3])


async def test_items_of_a_caller_that_has_failed_do_not_run_alone():
    square = Square()
    async with batching(square) as (batcher, _, _):
        with pytest.raises(ValueError, match="bad luck"):
            await batcher.submit([13, 1, 2])
        assert await batcher.submit([3]) == {3: 9}
    assert square.batches == [[13, 1, 2], [13], [3]]
