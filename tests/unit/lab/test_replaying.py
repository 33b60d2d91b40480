"""A recording in a generator's place: nothing is asked, and the same is scored as was written."""

import math
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from app.cache.memory import MemoryCache
from app.cache.protocol import CacheConfig
from app.scoring.ask import Ask
from app.scoring.memory import Memory
from app.scoring.observer import Observer
from app.scoring.scorer import Scorer
from cocoa_lab.loading import running_workers
from cocoa_lab.replaying import checked_plan, replaying
from models.errors import InvalidRequest, NotReady, StatisticUnavailable
from models.records import SamplingParams, Sequence
from models.statistics import supplied_by
from tests.fakes.settings import FAKES
from tests.results import generation, sequence
from workers.admission import Admission
from workers.build import build_workers
from workers.config import WorkerConfig

pytestmark = pytest.mark.anyio

CONFIG = WorkerConfig(**FAKES)
ASK = Ask(prompt="Capital of France?", sampling=SamplingParams(4, 16, seed=1))
RECORDED = supplied_by("answer", "samples")
PARIS, ROME = "Paris", "Rome"


@asynccontextmanager
async def scoring():
    async with running_workers(build_workers(CONFIG)) as workers:
        yield Scorer(workers, Admission(8), Memory(MemoryCache(CacheConfig()), Observer()))


async def test_what_was_recorded_is_scored_without_asking_the_generator():
    ask = replace(ASK, estimators=("cocoa_ppl", "p_true", "semantic_entropy", "sar"))
    async with scoring() as scorer:
        first = await scorer.run(ask)
        engine = scorer.workers.generator.engine
        calls = engine.num_calls
        true = first.evidence.statistics["p_true_logprob"]
        questions = Questions((true, math.log1p(-math.exp(true))))
        without = replaying(scorer, first.plan.generated, first.evidence.generation)
        with pytest.raises(StatisticUnavailable, match="p_true_logprob"):
            await without.run(ask)
        supplied = first.plan.generated | {"p_true_logprob"}
        again = await replaying(scorer, supplied, first.evidence.generation, questions).run(ask)

    assert engine.num_calls == calls
    assert again.scores == pytest.approx(first.scores)
    [question] = questions.asked
    assert first.evidence.subject.answer.compared_text in question


class Questions(dict):
    """The same opinion of every answer, and what was asked."""

    def __init__(self, opinion):
        super().__init__()
        self.opinion, self.asked = opinion, []

    def __bool__(self):
        return True

    def __contains__(self, question):
        return True

    def __getitem__(self, question):
        self.asked.append(question)
        return self.opinion


async def test_a_question_that_was_too_long_when_it_was_recorded_is_too_long_again():
    ask = replace(ASK, estimators=("p_true",))
    async with scoring() as scorer:
        recorded = (await scorer.run(ASK)).evidence.generation
        supplied = RECORDED | {"p_true_logprob"}
        result = await replaying(scorer, supplied, recorded, Questions(None)).run(ask)

    assert result.reasons["p_true"] == "the question about the answer exceeds the context"


async def test_recordings_of_one_prompt_are_scored_each_by_itself():
    ask = replace(ASK, sampling=SamplingParams(1), estimators=("inconsistency",))
    scores = []
    async with scoring() as scorer:
        for text in (PARIS, ROME, PARIS):
            recorded = generation(PARIS, [sequence(text)])
            result = await replaying(scorer, RECORDED, recorded).run(ask)
            scores.append(result.scores["inconsistency"])

    assert scores[0] == scores[2] == 0.0 < scores[1]


async def test_as_many_of_the_recorded_samples_are_scored_as_are_wanted_and_more_are_refused():
    recorded = generation(PARIS, [sequence(text) for text in (PARIS, ROME)])
    async with scoring() as scorer:
        one = replace(ASK, sampling=SamplingParams(1), estimators=("inconsistency",))
        result = await replaying(scorer, RECORDED, recorded).run(one)
        assert result.evidence.subject.texts == [PARIS]
        three = replace(one, sampling=SamplingParams(3))
        with pytest.raises(InvalidRequest, match="2 samples a prompt were recorded"):
            await replaying(scorer, RECORDED, recorded).run(three)


async def test_samples_that_were_recorded_whole_are_scored_as_far_as_they_would_be_drawn():
    long = Sequence(" a" * 40, "a " * 39 + "a", 40, "stop", token_texts=(" a",) * 40)
    recorded = replace(generation(PARIS, [sequence(PARIS)]), samples=(sequence(PARIS), long))
    ask = replace(ASK, sampling=SamplingParams(2), estimators=("inconsistency",))
    async with scoring() as scorer:
        told = {}
        for strategy in ("greedy", "mbr"):
            asked = replace(ask, strategy=strategy)
            result = await replaying(scorer, RECORDED, recorded).run(asked)
            told[strategy] = result.evidence.generation

    cut = told["greedy"].samples[1]
    assert told["greedy"].sample_limit == cut.num_tokens == 32
    assert (cut.text, cut.finish_reason) == (" a" * 32, "sample_limit")
    assert told["mbr"].samples == recorded.samples


async def test_without_a_recording_nothing_is_said():
    async with scoring() as scorer:
        over_recordings = replaying(scorer, RECORDED)
        assert checked_plan(over_recordings, ASK).statistics
        with pytest.raises(NotReady, match="not loaded"):
            await over_recordings.run(ASK)
