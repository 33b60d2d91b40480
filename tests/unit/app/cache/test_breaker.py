"""The breaker before a Redis that a test has fail: what is asked, probed, logged and told."""

import asyncio
import logging
from contextlib import asynccontextmanager

import pytest

from app.cache.breaker import Breaker
from app.cache.lane import Dropped
from tests.conftest import until

pytestmark = pytest.mark.anyio
CALM_S = 30


class Redis:
    """Stands for a Redis and one use of it.

    Attributes:
        fault: raised by each exchange, and by each probe of those that are let through.
        is_probed: cleared, no probe ends.
    """

    def __init__(self):
        self.fault, self.now, self.num_probes, self.told = None, 1000.0, 0, []
        self.is_probed = asyncio.Event()
        self.is_probed.set()
        self.breaker = Breaker(
            self._probe,
            (),
            0.1,
            self.told.append,
            lost="lost",
            recovered="found",
            clock=lambda: self.now,
        )

    async def _probe(self, limit_s):
        self.num_probes += 1
        await self.is_probed.wait()
        if self.fault:
            raise self.fault

    def exchange(self):
        with self.breaker.watching():
            if self.fault:
                raise self.fault

    def fail(self):
        self.fault = TimeoutError()
        with pytest.raises(Dropped, match="too slow"):
            self.exchange()


@asynccontextmanager
async def running(redis):
    task = asyncio.create_task(redis.breaker.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
async def redis(anyio_backend, monkeypatch, caplog):
    """A Redis that was found well, whose probes come in a quick succession."""
    caplog.set_level(logging.INFO)
    monkeypatch.setattr("app.cache.breaker._PROBE_EVERY_S", 0.01)
    made = Redis()
    async with running(made):
        await until(lambda: made.told == ["closed"])
        assert caplog.messages == []
        made.told.clear()
        yield made


def test_before_it_runs_nothing_is_asked():
    with pytest.raises(Dropped, match="not asked"):
        Redis().exchange()


async def test_what_redis_answers_changes_nothing(redis):
    redis.exchange()
    assert redis.told == []


async def test_a_redis_that_is_not_there_at_the_start_is_told_once_and_asked_once_it_is(caplog):
    redis = Redis()
    redis.fault = ConnectionRefusedError()
    async with running(redis):
        await until(lambda: redis.told == ["open"])
        assert caplog.messages == ["lost: ConnectionRefusedError"]


async def test_after_a_first_fault_nothing_is_asked_until_a_probe_has_decided(redis, caplog):
    redis.is_probed.clear()
    redis.fail()
    with pytest.raises(Dropped, match="not asked"):
        redis.exchange()
    redis.fault = None
    redis.is_probed.set()
    await until(lambda: redis.told == ["suspect", "closed"])
    redis.exchange()
    assert caplog.messages == [], "a fault that a probe does not confirm is no news"


async def test_a_fault_that_the_probe_confirms_is_told_and_probed_until_it_is_over(redis, caplog):
    redis.fail()
    await until(lambda: redis.num_probes >= 4)
    redis.fault = None
    await until(lambda: redis.told == ["suspect", "open", "closed"])
    assert caplog.messages == ["lost: too slow", "found"]


async def test_a_second_fault_soon_after_the_first_is_told_at_once(redis, caplog):
    redis.fail()
    redis.fault = None
    await until(lambda: redis.told == ["suspect", "closed"])
    redis.now += CALM_S - 1
    redis.fail()
    assert redis.told == ["suspect", "closed", "open"]
    assert caplog.messages == ["lost: too slow"]


async def test_after_enough_calm_a_fault_counts_as_the_first_again(redis, caplog):
    for _ in range(3):
        redis.fail()
        redis.fault = None
        await until(lambda: redis.told[-1] == "closed")
        redis.now += CALM_S
    assert redis.told == ["suspect", "closed"] * 3
    assert caplog.messages == []


async def test_two_exchanges_that_end_by_one_fault_are_one_fault(redis):
    def end_by_the_fault_of_another():
        with redis.breaker.watching():
            redis.fail()
            raise ConnectionResetError

    with pytest.raises(Dropped, match="ConnectionResetError"):
        end_by_the_fault_of_another()
    assert redis.told == ["suspect"]
