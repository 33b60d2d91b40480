"""Behind a reasoning samples come in waves until all mean the same as the answer."""

from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from app.cache.memory import MemoryCache
from app.cache.protocol import CacheConfig
from app.scoring.ask import Ask
from app.scoring.memory import Memory
from app.scoring.observer import Observer
from app.scoring.scorer import Scorer
from models.errors import EngineError
from models.records import Reasoning, SamplingParams
from tests.fakes.engine import FakeEngine
from workers.admission import Admission
from workers.build import build_workers
from workers.config import ComparerConfig, GeneratorConfig, WorkerConfig
from workers.supervision import running_workers

pytestmark = pytest.mark.anyio

CONFIG = WorkerConfig(
    generation=GeneratorConfig(engine="fake"), similarity=ComparerConfig(name="fake")
)
ASK = Ask(
    prompt="Capital of France?",
    sampling=SamplingParams(10, 16, seed=1, stop_mass=0.7),
    estimators=("cocoa_sp", "consistency"),
)
NONE = "(unfinished)"
PARIS, ROME = "Paris", "Rome"


class Reasoner(FakeEngine):
    """Gives the answer and the samples of a script, each behind a reasoning.

    Attributes:
        asked: of each request how many samples were there before it.
    """

    def __init__(self, answer, samples):
        super().__init__()
        self.script = [answer, *samples]
        self.asked = []

    def generation(self, job):
        self.asked.append(job.request.num_drawn)
        written = super().generation(job)
        first = job.request.num_drawn
        samples = []
        for i, sample in enumerate(written.samples, start=first + 1):
            samples.append(self._scripted(i, sample))
        answer = written.answer
        if job.request.answer is None:
            answer = self._scripted(0, answer)
        return replace(written, answer=answer, samples=tuple(samples))

    def _written(self, job):
        """As an engine that sees a reasoning: one wave."""
        written = super()._written(job)
        most = {0: 2, 2: 3}.get(job.request.num_drawn, 5)
        if job.request.sampling.stop_mass is None:
            return written
        return replace(written, samples=written.samples[:most])

    def _scripted(self, i, sequence):
        text = self.script[i]
        thoughts = Reasoning(f"thought {i}", 3, text != NONE)
        if text == NONE:
            text = ""
        return replace(sequence, text=text, compared_text=text, reasoning=thoughts)


@asynccontextmanager
async def scoring(answer, *samples):
    """A scorer over a model that says this, with the pairs that its comparer was asked for."""
    samples = [*samples, *[ROME] * (12 - len(samples))]
    memory = Memory(MemoryCache(CacheConfig()), Observer())
    async with running_workers(build_workers(CONFIG)) as workers:
        engine = Reasoner(answer, samples)
        workers.generator.engine = engine
        scorer = Scorer(workers, Admission(8), memory)
        batches = workers.comparers["fake"]._model.batches
        batches.clear()  # of the warm-up
        yield scorer, engine, batches


def of(result):
    return len(result.evidence.subject.samples), result.stopped_by


@pytest.mark.parametrize(
    ("answer", "samples", "expected", "waves"),
    [
        (PARIS, [PARIS] * 2, (2, "agreement"), [0]),
        (PARIS, ["paris", PARIS], (2, "agreement"), [0]),
        (PARIS, [PARIS, ROME], (10, "max_samples"), [0, 2, 5]),
        (PARIS, [PARIS, PARIS, ROME], (2, "agreement"), [0]),
        (PARIS, [NONE, PARIS], (10, "max_samples"), [0, 2, 5]),
        ("", ["", ""], (2, "agreement"), [0]),
        ("", ["", NONE], (10, "max_samples"), [0, 2, 5]),
        (NONE, [NONE] * 10, (10, "max_samples"), [0, 2, 5]),
    ],
    ids=[
        "the same",
        "the same by meaning",
        "one other",
        "what comes later is not drawn",
        "an unfinished sample agrees with nothing",
        "empty answers",
        "an unfinished sample is no empty answer",
        "an unfinished answer",
    ],
)
async def test_no_wave_follows_once_all_samples_mean_the_same_as_the_answer(
    answer, samples, expected, waves
):
    async with scoring(answer, *samples) as (scorer, engine, _):
        assert of(await scorer.run(ASK)) == expected
        assert engine.asked == waves


async def test_a_similarity_that_decides_is_not_asked_for_again():
    samples = ["It is Paris", "Lyon", "Paris it was", "Paris then", "Rome", "Lyon"]
    async with scoring(PARIS, *samples) as (scorer, engine, batches):
        decided = await scorer.run(replace(ASK, cache=False))
        num_pairs, waves = sum(batches), list(engine.asked)
        batches.clear()
        at_once = replace(ASK.sampling, stop_mass=None)
        whole = await scorer.run(replace(ASK, cache=False, sampling=at_once))

        assert waves == [0, 2, 5]
        assert decided.scores == whole.scores
        assert num_pairs == sum(batches), "neither more pairs than for ten at once"


async def test_waves_by_agreement_score_what_as_many_samples_at_once_score():
    async with scoring(PARIS, PARIS, "It is Paris", ROME) as (scorer, _engine, _):
        in_waves = await scorer.run(replace(ASK, cache=False))
        num_samples, _ = of(in_waves)
        sampling = replace(ASK.sampling, num_samples=num_samples, stop_mass=None)
        at_once = await scorer.run(replace(ASK, cache=False, sampling=sampling))

        assert in_waves.scores == at_once.scores
        assert in_waves.evidence.subject.texts == at_once.evidence.subject.texts


@pytest.mark.parametrize("strategy", ["greedy", "sample", "mbr"])
@pytest.mark.parametrize(
    "samples", [[PARIS, PARIS], [PARIS, ROME, PARIS], [ROME, ROME, PARIS]], ids=" ".join
)
async def test_the_cache_serves_what_was_computed_and_is_believed(strategy, samples):
    ask = replace(ASK, strategy=strategy)
    async with scoring(PARIS, *samples) as (scorer, engine, _):
        fresh = await scorer.run(ask)
        calls = len(engine.asked)
        again = await scorer.run(ask)

        assert (again.source, len(engine.asked)) == ("cache", calls)
        assert (of(again), again.scores) == (of(fresh), fresh.scores)


@pytest.mark.parametrize("samples", [[PARIS] * 2, [PARIS, ROME]], ids=["agree", "do not"])
async def test_a_longer_draw_in_the_cache_serves_as_far_as_the_waves_would_have_gone(samples):
    ask = replace(ASK, estimators=None)  # the default ones read all that waves are decided by
    sampling = replace(ASK.sampling, stop_mass=None)
    async with scoring(PARIS, *samples) as (scorer, engine, _):
        await scorer.run(replace(ask, sampling=sampling))
        calls = len(engine.asked)
        served = await scorer.run(ask)
        assert len(engine.asked) == calls
        fresh = await scorer.run(replace(ask, cache=False))

        assert served.source == "cache"
        assert (of(served), served.scores) == (of(fresh), fresh.scores)


async def test_what_reads_no_similarity_stops_alike_and_is_not_remembered():
    ask = replace(ASK, estimators=("lexical_similarity",))
    async with scoring(PARIS, PARIS, PARIS) as (scorer, _engine, _):
        results = [await scorer.run(ask) for _ in range(2)]

        assert [of(one) for one in results] == [(2, "agreement")] * 2
        assert [one.source for one in results] == ["computed", "computed"]


async def test_samples_of_two_models_are_not_mixed():
    async with scoring(PARIS, ROME) as (scorer, _engine, _):
        generate = scorer.workers.generator.generate

        async def replaced(request, on_token=None):
            found = await generate(request, on_token)
            return replace(found, identity="other weights") if request.num_drawn else found

        scorer.workers.generator.generate = replaced
        with pytest.raises(EngineError, match="replaced"):
            await scorer.run(ASK)
