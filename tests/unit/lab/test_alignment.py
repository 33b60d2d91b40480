"""AlignScore's scheme over the similarity scorer of an NLI model."""

import pytest

from cocoa_lab.alignment import chunks, support_by
from models.similarity.pairs import PairRules
from models.threads import ModelThread
from tests.aligned import align_scores
from tests.fakes.pair_models import FakeNliModel
from tests.worker_servers import running
from workers.similarity import NliWorker

pytestmark = pytest.mark.anyio


async def supports(model, pairs):
    """The support of pairs by a running worker of the model."""
    thread = ModelThread("similarity")
    nli = NliWorker(model, rules=PairRules(), thread=thread, max_batch_pairs=64)
    async with running(nli):
        return await support_by(nli)(pairs)


async def test_support_is_the_mean_over_sentences_of_each_ones_best_chunk():
    context = "a b. " + "c d " * 400 + "."
    pairs = [(context, "x y. a b."), ("a b. c.", "x."), ("", "Rome"), (context, "x y. a b.")]

    assert len(chunks(context)) == 2
    expected = align_scores(FakeNliModel(), pairs)
    assert len(set(expected)) > 1
    assert await supports(FakeNliModel(), pairs) == pytest.approx(expected)


async def test_each_distinct_chunk_and_sentence_is_asked_once():
    model = FakeNliModel()
    await supports(model, [("a b. c.", "x. y."), ("a b. c.", "x.")])
    assert model.batches == [2]
