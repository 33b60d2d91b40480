"""AlignWorker: AlignScore's scheme over the comparer of an NLI model."""

import asyncio
import threading
from contextlib import asynccontextmanager

import pytest

from models.errors import NotReady
from models.similarity.align import cells, chunks, num_cells
from models.similarity.pairs import PairRules
from models.threads import ModelThread
from tests.aligned import align_scores
from tests.conftest import until
from tests.fakes.pair_models import FakeNliModel
from workers.similarity import AlignWorker, SimilarityWorker

pytestmark = pytest.mark.anyio


class HeldNliModel(FakeNliModel):
    """A model whose calls wait for `gate`."""

    def __init__(self):
        super().__init__()
        self.gate = threading.Event()

    def score(self, pairs):
        assert self.gate.wait(30)
        return super().score(pairs)


def over(model, max_batch_pairs=64):
    thread = ModelThread("similarity")
    return SimilarityWorker(model, PairRules(), thread=thread, max_batch_pairs=max_batch_pairs)


@asynccontextmanager
async def aligning(model, max_batch_pairs=64):
    """The worker over a running worker of the model."""
    nli = over(model, max_batch_pairs)
    worker = AlignWorker(nli)
    loops = [asyncio.create_task(one.run()) for one in (nli, worker)]
    try:
        yield worker
    finally:
        if isinstance(model, HeldNliModel):
            model.gate.set()
        await worker.close()
        await nli.close()
        await asyncio.gather(*loops)


async def test_the_score_is_the_mean_over_sentences_of_each_ones_best_chunk():
    context = "a b. " + "c d " * 400 + "."
    pairs = [(context, "x y. a b."), ("a b. c.", "x."), ("", "Rome")]
    async with aligning(FakeNliModel()) as worker:
        reply = await worker.compare(pairs)

    assert len(chunks(context)) == 2
    for pair, expected in zip(pairs, align_scores(FakeNliModel(), pairs), strict=True):
        assert reply.scores[pair][0] == (pytest.approx(expected),)
    assert reply.identity == worker.info.identity


async def test_each_distinct_chunk_and_sentence_is_asked_once():
    model = FakeNliModel()
    async with aligning(model) as worker:
        await worker.compare([("a b. c.", "x. y."), ("a b. c.", "x.")])
    assert model.batches == [2]


async def test_a_pair_is_flagged_where_one_of_its_cells_is_cut_and_no_other():
    long = "a b. " + "c " * 600 + "."
    async with aligning(FakeNliModel()) as worker:
        reply = await worker.compare([(long, "x. y."), ("a b.", "x.")])
    assert [is_cut for _, is_cut in reply.scores.values()] == [True, False]


async def test_many_sentences_run_in_slices_and_those_of_a_caller_that_left_do_not_run():
    model = HeldNliModel()
    claim = " ".join(f"It is {number}." for number in range(700))
    async with aligning(model, max_batch_pairs=8) as worker:
        leaving = asyncio.create_task(worker.compare([("a b.", claim)]))
        await until(lambda: worker.busy_since is not None)
        staying = asyncio.create_task(worker.compare([("a b.", "x.")]))
        await asyncio.sleep(0)
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        model.gate.set()
        await staying
    assert model.batches == [8, 1]


async def test_a_short_request_does_not_wait_for_all_sentences_of_a_long_one():
    model = HeldNliModel()
    claim = " ".join(f"It is {number}." for number in range(700))
    async with aligning(model, max_batch_pairs=8) as worker:
        long = asyncio.create_task(worker.compare([("a b.", claim)]))
        await until(lambda: worker.busy_since is not None)
        short = asyncio.create_task(worker.compare([("a b.", "x. y.")]))
        await asyncio.sleep(0)
        model.gate.set()
        await short
        assert not long.done()
        assert len((await long).scores) == 1


async def test_contexts_are_fitted_by_the_nli_model_and_a_closed_one_refuses():
    async with aligning(FakeNliModel()) as worker:
        assert await worker.fit_contexts([("one two", "three")]) == ["one two"]
    with pytest.raises(NotReady):
        await worker.compare([("a", "b")])


def test_the_info_says_that_it_reads_sentences_and_is_none_of_the_nli_models():
    nli = over(FakeNliModel())
    info, nli = AlignWorker(nli).info, nli.info
    assert (info.labels, info.is_by_sentence, nli.is_by_sentence) == (("similarity",), True, False)
    assert info.identity != nli.identity


def test_cells_are_counted_as_they_are_made():
    pairs = [("a. " * 800, "x. y. z."), ("a. " * 800, "x."), ("", ""), ("b.", "x. y. z.")]
    num_made = sum(len(row) for grid in cells(pairs).values() for row in grid)
    assert num_cells(pairs) == num_made == 3 * 3 + 3 + 1 + 3
