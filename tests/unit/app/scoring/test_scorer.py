"""The one path of an ask, over the fake models: what is computed, shared, remembered, refused."""

import math
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import wraps

import numpy as np
import pytest

from app.cache.memory import MemoryCache
from app.cache.protocol import CacheConfig
from app.scoring.ask import Ask, GivenSample
from app.scoring.memory import Memory
from app.scoring.scorer import Policy, Scorer
from cocoa_lab.loading import running_workers
from models.estimators import ESTIMATORS, known_estimators
from models.records import GivenAnswer, SamplingParams
from tests.fakes.settings import FAKES
from tests.made_calibrators import calibrator
from tests.observers import Told
from tests.results import generation, sequence
from workers.admission import Admission
from workers.build import build_workers
from workers.config import WorkerConfig

pytestmark = pytest.mark.anyio

CONFIG = WorkerConfig(**FAKES)
ASK = Ask(prompt="Capital of France?", sampling=SamplingParams(4, 16, seed=1))


@asynccontextmanager
async def scoring(*, cached=True, limit=8):
    """A scorer, with what it told and what its cache holds."""
    told, cache = Told(), MemoryCache(CacheConfig())
    memory = Memory(cache, told) if cached else None
    async with running_workers(build_workers(CONFIG)) as workers:
        scorer = Scorer(workers, Admission(limit), memory, observer=told)
        scorer.told, scorer.cache = told, cache
        yield scorer


async def test_without_limits_as_offline_a_text_of_any_length_is_scored():
    given = Ask(
        answer=GivenAnswer("It is Paris. " * 4000),
        samples=(GivenSample("Paris"),),
        estimators=("inconsistency",),
    )
    async with scoring() as scorer:
        result = await scorer.run(given)

    assert result.uncertainty is not None


def num_calls(scorer):
    return scorer.workers.generator.engine.num_calls


async def test_a_reply_of_other_weights_than_the_keys_serves_and_is_not_stored():
    async with scoring() as scorer:
        generator = scorer.workers.generator
        generate = generator.generate

        async def restarted(request, on_token=None):
            return replace(await generate(request, on_token), identity="other weights")

        generator.generate = restarted
        first = await scorer.run(ASK)
        del generator.generate
        again = await scorer.run(ASK)

    assert first.scores == again.scores
    assert (first.source, again.source) == ("computed", "computed")
    assert scorer.told.lookups == [False, False]


async def test_weights_replaced_during_the_lookup_are_not_stored_under_the_former_name():
    async with scoring() as scorer:
        generator, cache = scorer.workers.generator, scorer.cache
        former, get_many = generator.info, cache.get_many

        async def replaced_meanwhile(keys):
            generator.info = replace(former, identity="other weights")
            return await get_many(keys)

        cache.get_many = replaced_meanwhile
        first = await scorer.run(ASK)
        del cache.get_many
        generator.info = former
        again = await scorer.run(ASK)

    assert (first.source, again.source) == ("computed", "computed")


async def test_a_question_answered_by_other_weights_is_not_stored_either():
    async with scoring() as scorer:
        generator = scorer.workers.generator
        ask_generator = generator.first_token_logprobs

        async def restarted(request, groups):
            return replace(await ask_generator(request, groups), identity="other weights")

        generator.first_token_logprobs = restarted
        asks = replace(ASK, estimators=("p_true",))
        sources = [(await scorer.run(asks)).source for _ in range(2)]

    assert sources == ["computed", "computed"]


RAO_BLACKWELL = tuple(name for name, row in ESTIMATORS.items() if row.family == "rao_blackwell")


def rao_blackwell_by_definition(result):
    """rb_inconsistency, from texts and similarities as a response shows them."""
    subject = result.evidence.subject
    similarities = result.sample_similarities
    total, seen = math.exp(subject.answer.token_logprobs.sum()), 0.0
    weighed = {subject.answer.compared_text}
    for sample, similarity in zip(subject.samples, similarities, strict=True):
        if sample.compared_text not in weighed:
            weighed.add(sample.compared_text)
            probability = math.exp(sample.token_logprobs.sum())
            total += probability
            seen += probability * (1 - similarity)
    others = [1 - one for one in similarities if one is not None]
    if total > 1:
        return seen / total
    return seen + (1 - total) * sum(others) / len(others)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("strategy", ["greedy", "most_probable", "mbr"])
async def test_probabilities_weigh_the_right_samples_whichever_of_them_is_the_answer(
    strategy, seed
):
    ask = replace(ASK, strategy=strategy, estimators=("inconsistency", "sp", *RAO_BLACKWELL))
    async with scoring() as scorer:
        ask = replace(ask, sampling=SamplingParams(12, 16, seed=seed))
        results = [await scorer.run(ask) for _ in range(2)]

    subject = results[0].evidence.subject
    assert len(set(subject.texts)) < len(subject.texts)
    for result in results:
        weighed = rao_blackwell_by_definition(result)
        assert result.scores["rb_inconsistency"] == pytest.approx(weighed)
        assert result.scores["rb_cocoa_sp"] == pytest.approx(result.scores["sp"] * weighed)
    assert [result.source for result in results] == ["computed", "cache"]


@pytest.mark.parametrize(
    ("strategy", "chosen"), [("most_probable", 3), ("most_probable_normalized", 3), ("mbr", 0)]
)
async def test_an_answer_that_is_not_the_first_sample_of_its_text_shifts_no_similarity(
    strategy, chosen
):
    drawn = (("Oslo", -3.0), ("It is Rome.", -2.0), ("Lyon", -2.5), ("Oslo", -0.5), ("Rome", -1.5))
    samples = []
    for text, logprob in (*drawn, ("Oslo", -0.5)):
        samples.append(sequence(text, token_logprobs=np.full(2, logprob / 2)))

    async def written(request, on_token=None):
        return generation("Bonn", samples)

    sampling = SamplingParams(len(samples))
    ask = Ask(
        prompt="Where?", strategy=strategy, estimators=("rb_inconsistency",), sampling=sampling
    )
    async with scoring() as scorer:
        scorer.workers.generator.generate = written
        result = await scorer.run(ask)

    weighed = rao_blackwell_by_definition(result)
    assert result.evidence.subject.answer_sample == chosen
    assert result.scores["rb_inconsistency"] == pytest.approx(weighed)


async def test_a_timeout_that_is_not_the_deadline_is_no_deadline():
    async def fail(*_):
        raise TimeoutError

    async with scoring(cached=False) as scorer:
        scorer.workers.generator.generate = fail
        with pytest.raises(TimeoutError):
            await scorer.run(replace(ASK, timeout_s=60.0))


@pytest.mark.parametrize("name", ["sp", "lexical_similarity"], ids=["ours", "the lab's"])
async def test_an_estimator_that_fails_is_null_with_its_reason_and_costs_no_other(
    monkeypatch, name
):
    known = known_estimators()

    @wraps(known[name].function)  # with its parameters, which are what it reads
    def broken(**statistics):
        raise ValueError(f"quotes {statistics}")

    monkeypatch.setitem(known, name, replace(known[name], function=broken))
    async with scoring() as scorer:
        result = await scorer.run(replace(ASK, estimators=(name, "ppl")))

    assert result.reasons == {name: "the estimator failed (ValueError)"}
    assert result.scores[name] is None
    assert result.scores["ppl"] is not None
    assert [failed for failed, _ in scorer.told.failures] == [name]


def _bound_to(workers):
    return calibrator(
        generator=workers.generator.info.identity,
        comparer=workers.similarity_scorers["fake"].info.identity,
        nli=workers.nli.info.identity,
    )


async def test_a_calibrator_is_not_served_to_other_models_than_its_own(caplog):
    async with running_workers(build_workers(CONFIG)) as workers:
        scorer = Scorer(workers, Admission(4), policy=Policy(calibrator=_bound_to(workers)))
        generator = workers.generator
        assert scorer.deployment().calibrator is not None
        own = generator.info
        generator.info = replace(own, identity="other weights")
        assert scorer.deployment().calibrator is None
        assert "the calibrator is no longer served" in caplog.text
        generator.info = own
        assert scorer.deployment().calibrator is not None


async def test_scores_of_a_model_that_is_replaced_meanwhile_have_no_confidence():
    ask = Ask(prompt="Capital of France?", sampling=SamplingParams(10, 64, seed=1))
    async with running_workers(build_workers(CONFIG)) as workers:
        scorer = Scorer(workers, Admission(4), policy=Policy(calibrator=_bound_to(workers)))
        known = await scorer.run(ask)
        generator = workers.generator
        generate = generator.generate

        async def replaced(request, on_token=None):
            generation = await generate(request, on_token)
            generator.info = replace(generator.info, identity="other weights")
            return generation

        generator.generate = replaced
        unknown = await scorer.run(ask)

    assert known.judgement.confidence is not None
    assert unknown.judgement.confidence is None
    assert unknown.judgement.reason.startswith("no calibrator is loaded: see COCOA_CALIBRATOR")
