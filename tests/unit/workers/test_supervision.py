"""Supervisor: ready after the last warm-up.

A loop that ends by itself or hangs is a death, which is told once.
"""

import asyncio
import logging
import threading
import time

import pytest

from models.records import GenerationRequest
from models.threads import ModelThread
from tests.fakes.engine import FakeEngine
from tests.tiny_models import random_model
from tests.tiny_probes import random_probe
from tests.unit.models.engines.tiny_engines import engine_of, generated, request_for
from workers import supervision
from workers.generation import GenerationWorker
from workers.supervision import Supervisor

pytestmark = pytest.mark.anyio


class Loop:
    """A worker whose loop lives until `end`, and whose warm-up waits for `warm`."""

    def __init__(self, *, warm=True, warm_up_error=None):
        self.ended = asyncio.get_running_loop().create_future()
        self.warm = asyncio.Event()
        if warm:
            self.warm.set()
        self.warm_up_error = warm_up_error
        self.running = self.closed = False
        self.busy_since = None

    async def run(self):
        self.running = True
        try:
            await self.ended
        finally:
            self.running = False

    async def warm_up(self):
        await self.warm.wait()
        if self.warm_up_error:
            raise self.warm_up_error

    async def close(self):
        self.closed = True


async def turns(count=5):
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.fixture
def deaths():
    return []


@pytest.fixture
def supervisor(deaths):
    return Supervisor(lambda: deaths.append("died"))


async def test_it_is_ready_after_the_last_warm_up(supervisor):
    first, last = Loop(), Loop(warm=False)
    starting = asyncio.create_task(supervisor.start({"first": first, "last": last}))
    await turns()
    assert (supervisor.state, supervisor.ready.is_set()) == ("starting", False)
    assert first.running
    assert last.running
    last.warm.set()
    await starting
    assert (supervisor.state, supervisor.ready.is_set()) == ("ready", True)
    await supervisor.stop()


@pytest.mark.parametrize("how", ["exception", "return"])
async def test_a_loop_that_ends_by_itself_is_a_death_told_once(supervisor, deaths, caplog, how):
    first, second = Loop(), Loop()
    await supervisor.start({"generation": first, "similarity": second})
    for loop in (first, second):
        if how == "exception":
            loop.ended.set_exception(RuntimeError("device lost"))
        else:
            loop.ended.set_result(None)
    await turns()
    assert (supervisor.state, deaths) == ("dead", ["died"])
    assert [record.levelno for record in caplog.records] == [logging.CRITICAL]
    assert "generation" in caplog.text
    await supervisor.stop()
    assert supervisor.state == "dead"
    assert first.closed
    assert second.closed


async def test_a_stop_is_no_death(supervisor, deaths, caplog):
    loops = [Loop(), Loop()]
    await supervisor.start({"generation": loops[0], "similarity": loops[1]})
    await supervisor.stop()
    await turns()
    assert (supervisor.state, deaths) == ("stopped", [])
    assert all(loop.closed and not loop.running for loop in loops)
    assert caplog.records == []


async def test_a_stop_before_the_start_is_allowed(supervisor, deaths):
    await supervisor.stop()
    assert (supervisor.state, deaths) == ("stopped", [])


async def test_a_stop_while_starting_never_becomes_ready(supervisor, deaths):
    loop = Loop(warm=False)
    starting = asyncio.create_task(supervisor.start({"generation": loop}))
    await turns()
    await supervisor.stop()
    loop.warm.set()
    await starting
    assert (supervisor.state, supervisor.ready.is_set(), deaths) == ("stopped", False, [])


async def test_a_death_while_starting_never_becomes_ready(supervisor, deaths):
    first, last = Loop(), Loop(warm=False)
    starting = asyncio.create_task(supervisor.start({"first": first, "last": last}))
    await turns()
    first.ended.set_exception(RuntimeError("device lost"))
    await turns()
    last.warm.set()
    await starting
    assert (supervisor.state, supervisor.ready.is_set(), deaths) == ("dead", False, ["died"])
    await supervisor.stop()


async def test_a_failing_warm_up_is_raised_and_nothing_is_ready(supervisor, deaths):
    failing, other = Loop(warm_up_error=ValueError("no kernel")), Loop()
    with pytest.raises(ValueError, match="no kernel"):
        await supervisor.start({"generation": failing, "similarity": other})
    assert (supervisor.state, supervisor.ready.is_set()) == ("starting", False)
    supervisor.die("start-up", ValueError("no kernel"))
    assert (supervisor.state, deaths) == ("dead", ["died"])
    await supervisor.stop()
    assert failing.closed
    assert other.closed
    assert deaths == ["died"]


async def died(deaths):
    async with asyncio.timeout(30):
        while not deaths:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_a_call_that_hangs_is_a_death_told_once_and_ends_the_loops_that_await_it(
    deaths, caplog
):
    supervisor = Supervisor(lambda: deaths.append("died"), stall_s=1)
    loops = {"generation": Loop(), "similarity": Loop(), "nli": Loop()}
    await supervisor.start(loops)
    loops["similarity"].busy_since = loops["nli"].busy_since = time.monotonic()
    while not deaths:
        loops["generation"].busy_since = time.monotonic()
        await asyncio.sleep(0.05)
    await turns()
    assert (supervisor.state, deaths) == ("dead", ["died"])
    assert [name for name, loop in loops.items() if loop.running] == ["generation"]
    assert [record.levelno for record in caplog.records] == [logging.ERROR, logging.CRITICAL]
    assert "similarity, nli: a call has not returned within stall_s = 1 s" in caplog.text
    assert "most recent call first" in caplog.text, "where it hangs"
    await supervisor.stop()


async def test_a_warm_up_that_hangs_is_a_death(deaths):
    supervisor = Supervisor(lambda: deaths.append("died"), stall_s=1)
    loop = Loop(warm=False)
    starting = asyncio.create_task(supervisor.start({"generation": loop}))
    loop.busy_since = time.monotonic()
    await died(deaths)
    assert (supervisor.state, supervisor.ready.is_set()) == ("dead", False)
    starting.cancel()
    await supervisor.stop()


async def test_without_a_limit_a_call_may_take_for_ever(supervisor, deaths):
    loop = Loop()
    loop.busy_since = time.monotonic() - 1e6
    await supervisor.start({"generation": loop})
    await asyncio.sleep(1)
    assert (supervisor.state, deaths) == ("ready", [])
    await supervisor.stop()


async def test_time_in_which_the_process_was_stopped_is_no_time_of_a_call(deaths, monkeypatch):
    clock = time.monotonic
    stopped_s = 0.0
    monkeypatch.setattr(supervision.time, "monotonic", lambda: clock() + stopped_s)
    supervisor = Supervisor(lambda: deaths.append("died"), stall_s=2)
    loop = Loop()
    loop.busy_since = clock()
    await supervisor.start({"generation": loop})
    await asyncio.sleep(0.6)
    stopped_s = 3600.0
    await asyncio.sleep(0.6)
    assert (supervisor.state, deaths) == ("ready", [])
    await died(deaths)
    await supervisor.stop()


async def test_what_has_no_loop_is_watched_too(deaths, caplog):
    supervisor = Supervisor(lambda: deaths.append("died"), stall_s=1)
    thread = ModelThread("estimators")
    go_on = threading.Event()
    await supervisor.start({"generation": Loop()}, {"estimators": thread})
    thread.submit(go_on.wait, 60)
    await died(deaths)
    assert "estimators: a call has not returned" in caplog.text
    go_on.set()
    thread.shutdown()
    await supervisor.stop()


async def test_passes_over_prompts_that_take_long_and_well_are_no_death(deaths):
    supervisor, model = Supervisor(lambda: deaths.append("died"), stall_s=4), random_model("llama")

    def read_slowly(_, args, kwargs):
        if kwargs["input_ids"].shape[1] > 1:
            time.sleep(2.4)  # both together are longer than a stall

    worker = GenerationWorker(engine_of(model, pass_tokens=40))
    await supervisor.start({"generation": worker})
    model.register_forward_pre_hook(read_slowly, with_kwargs=True)
    requests = [request_for(prompt * 30, num_samples=0, max_new_tokens=1) for prompt in ("a", "b")]
    await generated(worker, requests)
    assert (supervisor.state, deaths) == ("ready", [])
    await supervisor.stop()


@pytest.mark.parametrize("hangs", ["tokenizer", "step", "probe"])
async def test_a_generation_worker_that_hangs_is_a_death_on_whichever_thread(deaths, caplog, hangs):
    engine, probe, go_on = FakeEngine(), random_probe(), threading.Event()

    def hang(*args, **kwargs):
        go_on.wait(60)
        raise ValueError("released")

    supervisor = Supervisor(lambda: deaths.append("died"), stall_s=1)
    worker = GenerationWorker(engine, {"predicted_dissimilarity": probe})
    await supervisor.start({"generation": worker})
    if hangs == "probe":
        probe.read = hang
    else:
        setattr(engine, {"tokenizer": "prepare", "step": "step"}[hangs], hang)
    request = GenerationRequest(prompt="a", statistics=frozenset({"predicted_dissimilarity"}))
    asking = asyncio.create_task(worker.generate(request))
    try:
        await died(deaths)
        assert (supervisor.state, deaths) == ("dead", ["died"])
        assert " in hang" in caplog.text, "where it hangs"
    finally:
        go_on.set()
        await supervisor.stop()
        await asyncio.gather(asking, return_exceptions=True)


async def test_the_warm_up_asks_the_engine_for_every_statistic_it_has(supervisor):
    engine = FakeEngine()
    prepare = engine.prepare
    asked = []

    def remember(request, *, streams=False):
        asked.append(request)
        return prepare(request, streams=streams)

    engine.prepare = remember
    await supervisor.start({"generation": GenerationWorker(engine)})
    assert [request.statistics for request in asked] == [engine.info.statistics]
    await supervisor.stop()


async def test_the_warm_up_reads_every_probe(supervisor):
    probe = random_probe()
    read = probe.read
    rows = []

    def remember(features):
        rows.append(len(features))
        return read(features)

    probe.read = remember
    worker = GenerationWorker(FakeEngine(), {"predicted_dissimilarity": probe})
    await supervisor.start({"generation": worker})
    assert rows == [1]
    await supervisor.stop()
