"""SimilarityWorker: both directions, multiplicity, one caller's poison.

Also the rules that need no model.
"""

import asyncio
import threading
import time
from contextlib import asynccontextmanager
from dataclasses import replace
from operator import methodcaller
from types import SimpleNamespace

import numpy as np
import pytest

from models.errors import SimilarityUnavailable
from models.similarity import NLI_MODELS, PAIR_MODELS
from models.similarity.pairs import PairRules, PairTable, TextRules
from models.similarity.protocol import NliConfig, PairScores, SimilarityConfig
from models.threads import ModelThread
from tests.conftest import until
from tests.fakes.pair_models import FakeNliModel, FakePairModel, pairs_read
from workers.loading import resolve
from workers.similarity import SimilarityWorker

pytestmark = pytest.mark.anyio

# Every call of a worker, and the call of its model that it waits for.
CALLS = {"compare": "score", "fit_contexts": "fit_contexts"}


def table_of(info, reply):
    """The reply as the functions of `models.similarity.pairs` read it."""
    values = {pair: value for pair, (value, _) in reply.scores.items()}
    truncated = any(is_cut for _, is_cut in reply.scores.values())
    return PairTable(info.labels, values, TextRules(info.rules), truncated)


async def similarity(worker, answer, samples):
    """What a request makes of a worker: the pairs it needs, and their scores as similarities."""
    work = methodcaller("answer_relation", answer, samples, label="similarity")
    reply = await worker.compare(pairs_read(work, worker.info.labels, TextRules(worker.info.rules)))
    table = table_of(worker.info, reply)
    return SimpleNamespace(values=work(table), truncated=table.truncated)


def new_worker(model=None, rules=None, **options):
    options = {"max_batch_pairs": 64, "thread": ModelThread("similarity")} | options
    return SimilarityWorker(model or FakePairModel(), rules or PairRules(), **options)


@asynccontextmanager
async def working(model=None, rules=None, **options):
    """A running worker."""
    worker = new_worker(model, rules, **options)
    loop = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        await worker.close()
        loop.cancel()
        await asyncio.gather(loop, return_exceptions=True)


async def test_samples_keep_their_order_and_multiplicity_while_each_distinct_pair_is_asked_once():
    model = FakePairModel()
    async with working(model) as worker:
        result = await similarity(worker, "a b", ["a c", "x", " a c ", "a b", "x"])
    assert model.batches == [4]
    np.testing.assert_array_equal(result.values, [0.5, 0, 0.5, 1, 0])


# id: (answer, samples, expected)
KNOWN = {
    "equal texts": ("Paris", ["Paris", "Paris"], [1, 1]),
    "equal but for blanks": (" Paris\n", ["Paris "], [1]),
    "an empty sample": ("Paris", ["", " "], [0, 0]),
    "an empty answer": ("", ["Paris"], [0]),
    "two empty texts": ("", [" ", ""], [1, 1]),
    "no samples": ("Paris", [], []),
}


@pytest.mark.parametrize(("answer", "samples", "expected"), KNOWN.values(), ids=list(KNOWN))
async def test_what_a_rule_knows_asks_no_model(answer, samples, expected):
    model = FakePairModel()
    async with working(model) as worker:
        result = await similarity(worker, answer, samples)
    assert model.batches == []
    assert result.values.tolist() == expected
    assert not result.truncated


async def test_with_the_rules_off_the_model_is_asked_for_equal_and_unstripped_texts():
    model = FakePairModel()
    async with working(model, PairRules(strip=False, exact_match=False)) as worker:
        await similarity(worker, "a", ["a", " a", ""])
    assert model.batches == [5]


async def test_the_flag_is_that_of_the_callers_own_pairs():
    model = FakePairModel()
    async with working(model) as worker:
        long, short = await asyncio.gather(
            similarity(worker, "a", ["x " * 600]), similarity(worker, "a", ["b"])
        )
    assert model.batches == [4]
    assert (long.truncated, short.truncated) == (True, False)


async def test_no_call_has_more_pairs_than_the_limit():
    model, sizes = FakePairModel(), []
    async with working(model, max_batch_pairs=3, on_batch=sizes.append) as worker:
        await similarity(worker, "a", ["b", "c", "d", "e"])
    assert model.batches == sizes == [3, 3, 2]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
async def test_a_value_that_is_no_finite_number_is_an_error(value):
    class Broken(FakePairModel):
        def score(self, pairs):
            return PairScores(np.full((len(pairs), 1), value), np.zeros(len(pairs), dtype=bool))

    async with working(Broken()) as worker:
        with pytest.raises(SimilarityUnavailable, match="finite"):
            await similarity(worker, "a", ["b"])


async def test_nan_in_one_callers_pair_fails_no_other():
    class NanForX(FakePairModel):
        def score(self, pairs):
            whole = super().score(pairs)
            values = whole.values.copy()
            values[["x" in pair for pair in pairs]] = np.nan
            return PairScores(values, whole.truncated)

    async with working(NanForX()) as worker:
        bad, good = await asyncio.gather(
            similarity(worker, "a b", ["x"]),
            similarity(worker, "a b", ["a c"]),
            return_exceptions=True,
        )
    assert isinstance(bad, SimilarityUnavailable)
    assert good.values.tolist() == [0.5]


async def test_a_context_is_cut_to_what_the_model_holds():
    async with working() as worker:
        texts = [("one two", "three"), ("word " * 400, "three")]
        short, long = await worker.fit_contexts(texts)
        assert short == "one two"
        assert len(long.split()) == 253
        assert await worker.fit_contexts([]) == []


async def test_any_failure_in_fitting_contexts_is_an_error_of_its_caller():
    class Unfit(FakePairModel):
        def fit_contexts(self, texts):
            raise ValueError("secret")

    async with working(Unfit()) as worker:
        with pytest.raises(SimilarityUnavailable, match="ValueError") as error:
            await worker.fit_contexts([("one", "two")])
        assert "secret" not in error.value.message
        assert (await similarity(worker, "a b", ["a c"])).values.tolist() == [0.5], "the loop lives"


async def test_an_error_with_a_code_of_its_own_keeps_it():
    class Unfit(FakePairModel):
        def score(self, pairs):
            raise SimilarityUnavailable("too busy", retry_after_s=3)

        def fit_contexts(self, texts):
            raise SimilarityUnavailable("too busy", retry_after_s=3)

    async with working(Unfit()) as worker:
        for name in CALLS:
            with pytest.raises(SimilarityUnavailable, match="too busy") as error:
                await getattr(worker, name)([("a", "b")])
            assert error.value.retry_after_s == 3


@pytest.mark.parametrize(("name", "of_model"), CALLS.items(), ids=CALLS)
async def test_it_is_busy_since_its_call_began(name, of_model):
    model = FakePairModel()
    begun, go_on = threading.Event(), threading.Event()
    call = getattr(model, of_model)

    def held(items):
        begun.set()
        assert go_on.wait(60)
        return call(items)

    setattr(model, of_model, held)
    async with working(model) as worker:
        assert worker.busy_since is None
        earliest = time.monotonic()
        asking = asyncio.create_task(getattr(worker, name)([("a", "b")]))
        await until(begun.is_set)
        assert earliest <= worker.busy_since <= time.monotonic()
        go_on.set()
        await asking
        await until(lambda: worker.busy_since is None)


async def test_the_warm_up_asks_the_model_once():
    model = FakePairModel()
    async with working(model) as worker:
        await worker.warm_up()
    assert model.batches == [1]


async def test_a_function_without_weights_is_not_warmed_up():
    model = FakePairModel()
    model.revision = None
    async with working(model) as worker:
        await worker.warm_up()
    assert model.batches == []


def model_with(**attributes):
    model = FakePairModel()
    for name, value in attributes.items():
        setattr(model, name, value)
    return model


# id: what makes a worker that is not the plain one
OTHERS = {
    "blanks": {"rules": PairRules(strip=False)},
    "equal texts": {"rules": PairRules(exact_match=False)},
    "kind": {"model": FakeNliModel()},
    "dtype": {"model": model_with(flags=("bfloat16",))},
    "length": {"model": model_with(max_length=256)},
    "model": {"model": model_with(model_id="other")},
    "revision": {"model": model_with(revision="2")},
    "no weights": {"model": model_with(revision=None)},
}


@pytest.mark.parametrize("changes", OTHERS.values(), ids=OTHERS)
def test_whatever_decides_a_score_is_in_the_identity(changes):
    assert new_worker(**changes).info.identity != new_worker().info.identity


@pytest.mark.parametrize(
    ("path", "config"),
    [
        (PAIR_MODELS["cross_encoder"], SimilarityConfig()),
        (NLI_MODELS["nli"], NliConfig(model="embedded")),
    ],
    ids=["cross-encoder", "NLI"],
)
def test_the_precision_of_the_weights_is_in_the_identity(path, config):
    def identity(dtype):
        return new_worker(resolve(path).load(replace(config, dtype=dtype))).info.identity

    assert identity("float32") == identity("float32") != identity("bfloat16")
