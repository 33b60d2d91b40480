"""The generation worker: its queue, its two threads, deadlines, and probes of hidden states.

Hidden states go to probes and no further. Foreign probes are not loaded.
"""

import asyncio
import threading
import time
from contextlib import asynccontextmanager
from dataclasses import replace

import numpy as np
import pytest

from models.engines.protocol import StepReport
from models.errors import (
    DeadlineExceeded,
    EngineError,
    InvalidLogits,
    InvalidRequest,
    ModelLost,
    ModelNotLoaded,
    NotReady,
)
from models.probes.protocol import ProbeConfig
from models.records import GenerationRequest, SamplingParams
from models.similarity.protocol import NliConfig
from models.threads import ModelThread
from tests.conftest import until
from tests.fakes.engine import FakeEngine
from tests.tiny_probes import random_probe, saved
from workers import generation
from workers.build import build_workers
from workers.config import GeneratorConfig, SimilaritySettings, WorkerConfig
from workers.generation import GenerationWorker

pytestmark = pytest.mark.anyio

REQUEST = GenerationRequest(prompt="Hi", sampling=SamplingParams(max_new_tokens=8))
PROBED = replace(REQUEST, statistics=frozenset({"predicted_dissimilarity"}))
GROUPS = [["True"], ["False"]]


def new_probes():
    return {
        "predicted_dissimilarity": random_probe(layer=2),
        "predicted_high_semantic_entropy": random_probe("semantic_entropy", layer=1, seed=1),
    }


@asynccontextmanager
async def running(engine=None, probes=None, **options):
    """A worker while its loop runs."""
    worker = GenerationWorker(engine or FakeEngine(), probes, **options)
    loop = asyncio.create_task(worker.run())
    await asyncio.sleep(0)
    try:
        yield worker
    finally:
        await worker.close()
        loop.cancel()
        await asyncio.gather(loop, return_exceptions=True)


class Held:
    """Calls of one method of `owner` wait until `release`; `begun` once there is one."""

    def __init__(self, owner, name):
        self._begun, self._go_on = threading.Event(), threading.Event()
        call = getattr(owner, name)

        def held(*args, **kwargs):
            self._begun.set()
            assert self._go_on.wait(60)
            return call(*args, **kwargs)

        setattr(owner, name, held)

    async def begun(self):
        await until(self._begun.is_set)

    def release(self):
        self._go_on.set()


def raising(error):
    def call(*args, **kwargs):
        raise error

    return call


# id: which method of the engine or of its probe one call of the worker runs through, and the thread
BLOCKING = {
    "tokenising": ("engine", "prepare"),
    "a step": ("engine", "step"),
    "detokenising": ("engine", "generation"),
    "a probe": ("probe", "read"),
}
BESIDE = {name: call for name, call in BLOCKING.items() if name != "a step"}


@pytest.mark.parametrize(("wait_s", "at_first"), [(60, 4), (0, 1)])
async def test_prompts_that_come_together_join_together_but_wait_for_no_slow_one(
    monkeypatch, wait_s, at_first
):
    engine, joined, tokenised = FakeEngine(), [], []
    prepare, step = engine.prepare, engine.step

    def slow(request, **options):
        if tokenised and wait_s == 0:
            time.sleep(0.5)
        tokenised.append(request)
        return prepare(request, **options)

    def noting(incoming):
        joined.append(len(incoming))
        return step(incoming)

    monkeypatch.setattr(engine, "prepare", slow)
    monkeypatch.setattr(engine, "step", noting)
    monkeypatch.setattr(generation, "_TOGETHER_S", wait_s)
    async with running(engine) as worker:
        await asyncio.gather(*[worker.generate(REQUEST) for _ in range(4)])
    assert (joined[0], sum(joined)) == (at_first, 4)


def parts():
    """An engine and the probe that reads it, by name."""
    return {"engine": FakeEngine(), "probe": random_probe(layer=2)}


def over(made):
    """A running worker over these parts."""
    return running(made["engine"], {"predicted_dissimilarity": made["probe"]})


@pytest.mark.parametrize(("part", "name"), BLOCKING.values(), ids=BLOCKING)
async def test_it_is_busy_since_a_call_began_on_either_thread(part, name):
    made = parts()
    held = Held(made[part], name)
    async with over(made) as worker:
        earliest = time.monotonic()
        asking = asyncio.create_task(worker.generate(PROBED))
        await held.begun()
        began = worker.busy_since
        assert earliest <= began <= time.monotonic()
        await asyncio.sleep(0.05)
        assert worker.busy_since == began, "the same call still runs"
        held.release()
        assert (await asking).probe_readings
        await until(lambda: worker.busy_since is None)


async def test_it_is_busy_since_the_longer_running_call():
    engine, steps, texts = FakeEngine(), ModelThread("generation"), ModelThread("texts")
    async with running(engine, model_thread=steps, text_thread=texts) as worker:
        step = Held(engine, "step")
        running_step = asyncio.create_task(worker.generate(REQUEST))
        await step.begun()
        began = worker.busy_since
        tokenising = Held(engine, "prepare")
        other = asyncio.create_task(worker.generate(REQUEST))
        await tokenising.begun()
        assert worker.busy_since == began == steps.busy_since
        step.release()
        await until(lambda: steps.busy_since is None)
        assert worker.busy_since == texts.busy_since > began
        tokenising.release()
        await asyncio.gather(running_step, other)


@pytest.mark.parametrize(("part", "name"), BLOCKING.values(), ids=BLOCKING)
async def test_a_request_ends_at_its_own_deadline_whatever_it_waits_for(part, name):
    made = parts()
    held = Held(made[part], name)
    async with over(made) as worker:
        patient = asyncio.create_task(worker.generate(replace(PROBED, timeout_s=60.0)))
        with pytest.raises(DeadlineExceeded, match=r"within timeout_s = 0\.05 s"):
            await worker.generate(replace(PROBED, timeout_s=0.05))
        held.release()
        assert (await patient).probe_readings
        assert worker.num_waiting == 0


async def test_a_request_past_its_deadline_is_cancelled_in_the_engine():
    engine = FakeEngine()
    jobs = []
    prepare = engine.prepare

    def remember(request, *, streams=False):
        jobs.append(prepare(request, streams=streams))
        return jobs[-1]

    engine.prepare = remember
    async with running(engine) as worker:
        held = Held(engine, "step")
        with pytest.raises(DeadlineExceeded):
            await worker.generate(replace(REQUEST, timeout_s=0.05))
        assert [job.cancelled for job in jobs] == [True]
        held.release()


async def test_a_time_out_of_the_callers_own_is_no_deadline():
    async with running() as worker:
        with pytest.raises(TimeoutError, match="mine"):
            await worker.generate(replace(REQUEST, timeout_s=60.0), raising(TimeoutError("mine")))


async def test_only_what_nothing_has_been_computed_of_waits():
    engine = FakeEngine()
    held = Held(engine, "step")
    async with running(engine) as worker:
        asking = [asyncio.create_task(worker.generate(REQUEST)) for _ in range(3)]
        await until(lambda: worker.num_waiting == 3)
        held.release()
        await asyncio.gather(*asking)
        assert worker.num_waiting == 0


@pytest.mark.parametrize(("part", "name"), BESIDE.values(), ids=BESIDE)
async def test_any_failure_beside_the_model_is_an_engine_error_of_its_request(part, name):
    made = parts()
    call = getattr(made[part], name)
    setattr(made[part], name, raising(ValueError("secret")))
    async with over(made) as worker:
        with pytest.raises(EngineError, match="ValueError") as error:
            await worker.generate(PROBED)
        assert "secret" not in error.value.message
        setattr(made[part], name, call)
        assert (await worker.generate(PROBED)).probe_readings, "the loop lives"


@pytest.mark.parametrize("name", ["prepare_first_token", "first_token_logprobs"])
async def test_any_failure_beside_the_model_is_an_engine_error_of_its_question(name):
    engine = FakeEngine()
    async with running(engine) as worker:
        call = getattr(engine, name)
        setattr(engine, name, raising(ValueError("secret")))
        with pytest.raises(EngineError, match="ValueError") as error:
            await worker.first_token_logprobs(REQUEST, GROUPS)
        assert "secret" not in error.value.message
        setattr(engine, name, call)
        assert (await worker.first_token_logprobs(REQUEST, GROUPS)).logprobs


@pytest.mark.parametrize(("part", "name"), BESIDE.values(), ids=BESIDE)
async def test_an_error_with_a_code_of_its_own_keeps_it(part, name):
    made = parts()
    setattr(made[part], name, raising(InvalidRequest("no", field="prompt")))
    async with over(made) as worker:
        with pytest.raises(InvalidRequest, match="no") as error:
            await worker.generate(PROBED)
    assert error.value.field == "prompt"


class Failing(FakeEngine):
    """Steps raise before they have taken over the jobs that came with them."""

    is_failing = True

    def __init__(self):
        super().__init__()
        self.num_abandoned = 0
        self.threads = set()

    def step(self, incoming):
        self.threads.add(threading.current_thread())
        if self.is_failing:
            raise RuntimeError("secret")
        return super().step(incoming)

    def abandon(self):
        self.threads.add(threading.current_thread())
        self.num_abandoned += 1


async def test_jobs_that_a_failing_step_had_not_taken_over_fail_and_none_hangs():
    engine = Failing()
    async with running(engine) as worker, asyncio.timeout(30):
        asking = [worker.generate(REQUEST) for _ in range(3)]
        question = worker.first_token_logprobs(REQUEST, GROUPS)
        errors = await asyncio.gather(*asking, question, return_exceptions=True)
        assert {type(error) for error in errors} == {EngineError}
        assert all("RuntimeError" in error.message for error in errors)
        assert not any("secret" in error.message for error in errors)
        assert engine.num_abandoned > 0
        engine.is_failing = False
        assert (await worker.generate(REQUEST)).answer.num_tokens, "the loop lives"


async def test_jobs_that_came_while_a_step_failed_are_run_by_the_next():
    engine = Failing()
    held = Held(engine, "step")
    async with running(engine) as worker, asyncio.timeout(30):
        failing = asyncio.create_task(worker.generate(REQUEST))
        await held.begun()
        waiting = asyncio.create_task(worker.generate(REQUEST))
        await until(lambda: worker.num_waiting == 2)
        abandon = engine.abandon

        def recover():
            engine.is_failing = False
            abandon()

        engine.abandon = recover
        held.release()
        with pytest.raises(EngineError):
            await failing
        assert (await waiting).answer.num_tokens


async def test_steps_and_what_they_abandon_run_on_one_thread():
    engine = Failing()
    async with running(engine) as worker:
        with pytest.raises(EngineError):
            await worker.generate(REQUEST)
    assert len(engine.threads) == 1
    assert threading.current_thread() not in engine.threads


async def test_texts_are_read_and_written_on_one_thread_beside_the_models():
    made = parts()
    threads = {}

    def watch(owner, name):
        call = getattr(owner, name)

        def watched(*args, **kwargs):
            threads[name] = threading.current_thread()
            return call(*args, **kwargs)

        setattr(owner, name, watched)

    for part, name in BLOCKING.values():
        watch(made[part], name)
    async with over(made) as worker:
        await worker.generate(PROBED)

    assert threads["prepare"] is threads["generation"] is threads["read"]
    assert threads["step"] is not threads["prepare"]
    assert threading.current_thread() not in threads.values()


async def test_a_model_that_is_lost_ends_the_loop_and_all_who_wait_or_come():
    engine = FakeEngine()
    engine.step = raising(ModelLost("device"))
    held = Held(engine, "step")
    worker = GenerationWorker(engine)
    loop = asyncio.create_task(worker.run())
    asking = [asyncio.create_task(worker.generate(REQUEST)) for _ in range(3)]
    await until(lambda: worker.num_waiting == 3)
    held.release()
    errors = await asyncio.gather(*asking, return_exceptions=True)

    with pytest.raises(ModelLost):
        await loop
    assert {type(error) for error in errors} == {NotReady}
    for call in (worker.generate(REQUEST), worker.first_token_logprobs(REQUEST, GROUPS)):
        with pytest.raises(NotReady):
            await call
    await worker.close()


@pytest.mark.parametrize(("part", "name"), BLOCKING.values(), ids=BLOCKING)
async def test_who_waits_for_a_call_that_hangs_is_failed_when_the_loop_ends(part, name):
    made = parts()
    held = Held(made[part], name)
    worker = GenerationWorker(made["engine"], {"predicted_dissimilarity": made["probe"]})
    loop = asyncio.create_task(worker.run())
    asking = asyncio.create_task(worker.generate(PROBED))
    await held.begun()
    loop.cancel()
    try:
        done, _ = await asyncio.wait([asking], timeout=1)
        assert done, "left waiting for the call"
        assert isinstance(asking.exception(), NotReady)
    finally:
        held.release()
        await asyncio.gather(loop, asking, return_exceptions=True)
        await worker.close()


async def test_each_step_says_how_many_rows_it_decoded_and_an_empty_batch_none():
    steps = []
    sampled = replace(REQUEST, statistics=frozenset({"sample_texts"}))
    async with running(on_step=steps.append) as worker:
        assert steps == [0]
        await worker.generate(sampled)
        await until(lambda: steps[-1] == 0 and len(steps) > 1)
    assert steps == [0, 11, 0]


class Stepping(FakeEngine):
    """Takes `num_steps` steps for each job; where `partner` is set, waits for a second job."""

    def __init__(self, num_steps=50, *, partner=False):
        super().__init__()
        self.num_needed = num_steps
        self.partner = partner
        self.jobs = []
        self.num_steps = 0

    @property
    def is_idle(self):
        return not self.jobs

    def step(self, incoming):
        self.num_steps += 1
        self.jobs = [job for job in [*self.jobs, *incoming] if not job.cancelled]
        report = StepReport(num_rows=len(self.jobs))
        if self.num_steps >= self.num_needed and not (self.partner and len(self.jobs) < 2):
            report = super().step(self.jobs)
            self.jobs = []
        else:
            time.sleep(0.001)
        return report


class CountingThread(ModelThread):
    """Knows how many calls it was given."""

    num_calls = 0

    def submit(self, fn, /, *args, **kwargs):
        self.num_calls += 1
        return super().submit(fn, *args, **kwargs)


async def test_steps_without_news_stay_on_the_models_thread_and_all_are_told():
    thread, rows = CountingThread("generation"), []
    async with running(Stepping(50), model_thread=thread, on_step=rows.append) as worker:
        await worker.generate(REQUEST)
        await until(lambda: rows[-1] == 0)
    assert (thread.num_calls, rows) == (1, [0] + 49 * [1] + [1, 0])


async def test_what_else_awaits_the_models_thread_runs_between_two_steps():
    thread, engine = ModelThread("generation"), Stepping(10**9)
    async with running(engine, model_thread=thread) as worker:
        asking = asyncio.create_task(worker.generate(REQUEST))
        await until(lambda: engine.num_steps > 3)
        at = await asyncio.wait_for(
            asyncio.wrap_future(thread.submit(lambda: engine.num_steps)), 30
        )
        await until(lambda: engine.num_steps > at)
        asking.cancel()


async def test_a_job_that_comes_while_steps_run_joins_them():
    async with running(Stepping(1, partner=True)) as worker:
        first = asyncio.create_task(worker.generate(REQUEST))
        await until(lambda: worker.num_waiting == 1 and worker.busy_since is not None)
        second = asyncio.create_task(worker.generate(REQUEST))
        assert len(await asyncio.wait_for(asyncio.gather(first, second), 30)) == 2


async def test_running_steps_end_when_their_only_job_is_cancelled():
    engine = Stepping(10**9)
    async with running(engine) as worker:
        asking = asyncio.create_task(worker.generate(REQUEST))
        await until(lambda: engine.num_steps > 3)
        asking.cancel()
        await until(lambda: engine.is_idle and worker.busy_since is None)


async def test_each_of_many_steps_has_a_beginning_of_its_own():
    engine = Stepping(10**9)
    async with running(engine) as worker:
        asking = asyncio.create_task(worker.generate(REQUEST))
        await until(lambda: engine.num_steps > 3)
        earlier = worker.busy_since
        await until(lambda: worker.busy_since > earlier)
        asking.cancel()


async def test_tokens_that_no_step_reported_are_told_when_the_job_is_finished():
    class Holding(FakeEngine):
        """Reports but the first token."""

        def step(self, incoming):
            report = super().step(incoming)
            report.tokens = report.tokens[:1]
            return report

    wanted = frozenset({"answer_token_logprobs"})
    async with running(Holding()) as worker:
        for i in range(20):
            tokens = []
            request = replace(REQUEST, prompt=str(i), statistics=wanted)
            answer = (await worker.generate(request, tokens.append)).answer
            assert "".join(token.text for token in tokens) == answer.text
            assert [token.logprob for token in tokens] == answer.token_logprobs.tolist()


class Changed(FakeEngine):
    """What it generates is changed by `change`."""

    def __init__(self, change):
        super().__init__()
        self._change = change

    def generation(self, job):
        return self._change(super().generation(job))


async def test_hidden_states_that_are_no_numbers_are_an_error_of_the_request():
    def broken(generation):
        means = np.full_like(generation.answer_hidden_mean, np.nan)
        return replace(generation, answer_hidden_mean=means)

    async with running(Changed(broken), new_probes()) as worker:
        with pytest.raises(InvalidLogits):
            await worker.generate(PROBED)


def load(probes):
    config = WorkerConfig(
        generation=GeneratorConfig(engine="fake"),
        similarity=SimilaritySettings(name="fake"),
        nli=NliConfig(model=""),
        probes=probes,
    )
    return asyncio.run(build_workers(config)).generator.info


def test_auto_loads_no_probe_beside_another_model():
    assert load(ProbeConfig()).probes == {}


@pytest.mark.parametrize(
    ("model", "named"),
    [
        ({"model_id": "other", "revision": None}, "revision"),
        ({"revision": "2"}, "revision"),
        ({"dimension": 9}, "dimension"),
    ],
    ids=["model", "revision", "dimension"],
)
def test_another_models_probe_is_refused_at_start(tmp_path, model, named):
    with pytest.raises(ModelNotLoaded, match=named):
        load(ProbeConfig(saved(tmp_path, **model), ""))


def test_a_probe_of_the_other_target_is_refused(tmp_path):
    with pytest.raises(ModelNotLoaded, match=r"COCOA_PROBES__INCONSISTENCY=.*target"):
        load(ProbeConfig(saved(tmp_path, "semantic_entropy"), ""))
