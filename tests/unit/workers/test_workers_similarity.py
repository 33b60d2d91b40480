"""SimilarityWorker: both directions, multiplicity, one caller's poison.

Also the rules that need no model.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from types import SimpleNamespace

import numpy as np
import pytest

from models.errors import ModelLost, NotReady, SimilarityUnavailable
from models.records import PairScores
from models.similarity.fake import FakeNliModel, FakePairModel
from models.similarity.pairs import PairRules, answer_pairs, answer_relation
from workers.similarity import SimilarityWorker

pytestmark = pytest.mark.anyio


async def similarity(worker, answer, samples):
    """What a request makes of a worker: the pairs it needs, and their scores as similarities."""
    table = await worker.table(answer_pairs(answer, samples, worker.rules))
    return SimpleNamespace(
        values=answer_relation(answer, samples, table, "similarity"), truncated=table.truncated
    )


def new_worker(model=None, rules=None, **options):
    options = {"max_batch_pairs": 64, "thread": ThreadPoolExecutor(1)} | options
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


async def test_similarity_is_the_mean_of_both_directions():
    async with working() as worker:
        result = await similarity(worker, "a b", ["a c d e"])
    assert FakePairModel().score([("a b", "a c d e"), ("a c d e", "a b")]).values.tolist() == [
        [0.5],
        [0.25],
    ]
    np.testing.assert_array_equal(result.values, [0.375])


async def test_samples_keep_their_order_and_multiplicity_while_each_distinct_pair_is_asked_once():
    async with working() as worker:
        result = await similarity(worker, "a b", ["a c", "x", " a c ", "a b", "x"])
        assert worker.model.batches == [4]
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
    async with working() as worker:
        result = await similarity(worker, answer, samples)
        assert worker.model.batches == []
    assert result.values.tolist() == expected
    assert not result.truncated


async def test_with_the_rules_off_the_model_is_asked_for_equal_and_unstripped_texts():
    async with working(rules=PairRules(strip=False, exact_match=False)) as worker:
        await similarity(worker, "a", ["a", " a", ""])
        assert worker.model.batches == [5]


@pytest.mark.parametrize(("num_words", "truncated"), [(507, False), (508, True)])
async def test_a_pair_beyond_the_models_length_is_flagged(num_words, truncated):
    async with working() as worker:
        result = await similarity(worker, "a b", ["x " * num_words])
    assert result.truncated is truncated


async def test_the_flag_is_that_of_the_callers_own_pairs():
    async with working() as worker:
        long, short = await asyncio.gather(
            similarity(worker, "a", ["x " * 600]), similarity(worker, "a", ["b"])
        )
        assert worker.model.batches == [4]
    assert (long.truncated, short.truncated) == (True, False)


async def test_requests_at_once_share_a_call_and_get_their_own_values():
    async with working() as worker:
        results = await asyncio.gather(
            similarity(worker, "a b", ["a c"]),
            similarity(worker, "a b", ["a c", "b"]),
            similarity(worker, "q", ["r"]),
        )
        assert worker.model.batches == [6]
    assert [result.values.tolist() for result in results] == [[0.5], [0.5, 0.75], [0]]


async def test_no_call_has_more_pairs_than_the_limit():
    sizes = []
    async with working(max_batch_pairs=3, on_batch=sizes.append) as worker:
        await similarity(worker, "a", ["b", "c", "d", "e"])
        assert worker.model.batches == sizes == [3, 3, 2]


async def test_a_poisoned_pair_fails_its_own_caller_only():
    async with working() as worker:
        good, bad, other = await asyncio.gather(
            similarity(worker, "a b", ["a c"]),
            similarity(worker, "a b", ["<poison> secret"]),
            similarity(worker, "a b", ["b"]),
            return_exceptions=True,
        )
        assert isinstance(bad, SimilarityUnavailable)
        assert "secret" not in bad.message
        assert "ValueError" in bad.message
        assert (good.values.tolist(), other.values.tolist()) == ([0.5], [0.75])
        assert (await similarity(worker, "a b", ["a c"])).values.tolist() == [0.5]


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
            values = [
                [np.nan] if "x" in pair else value
                for pair, value in zip(pairs, whole.values, strict=True)
            ]
            return PairScores(np.array(values, dtype=float).reshape(-1, 1), whole.truncated)

    async with working(NanForX()) as worker:
        bad, good = await asyncio.gather(
            similarity(worker, "a b", ["x"]),
            similarity(worker, "a b", ["a c"]),
            return_exceptions=True,
        )
    assert isinstance(bad, SimilarityUnavailable)
    assert good.values.tolist() == [0.5]


async def test_every_label_of_a_model_is_in_the_table():
    async with working(FakeNliModel()) as worker:
        table = await worker.table([("a b", "a c")])
    assert [table.value("a b", "a c", label) for label in table.labels] == [0.5, 0.25, 0.25]


async def test_a_context_is_cut_to_what_the_model_holds():
    async with working() as worker:
        assert await worker.fit_context("one two", "three") == "one two"
        assert len((await worker.fit_context("word " * 400, "three")).split()) == 253


async def test_a_lost_model_ends_the_loop_and_its_callers_get_not_ready():
    class Lost(FakePairModel):
        def score(self, pairs):
            raise ModelLost("device")

    worker = new_worker(Lost())
    loop = asyncio.create_task(worker.run())
    with pytest.raises(NotReady):
        await similarity(worker, "a", ["b"])
    with pytest.raises(ModelLost):
        await loop
    with pytest.raises(NotReady):
        await similarity(worker, "a", ["b"])
    await worker.close()


async def test_the_warm_up_asks_the_model_once():
    async with working() as worker:
        await worker.warm_up()
        assert worker.model.batches == [1]
