"""Similarity scorers over `/v1/embeddings`: what is sent, what becomes of the vectors, failures."""

import asyncio
from contextlib import asynccontextmanager

import numpy as np
import pytest
from starlette.responses import JSONResponse

from cocoa_lab.loading import running_workers
from models.errors import ModelNotLoaded, SimilarityUnavailable
from models.probes.protocol import ProbeConfig
from models.similarity.protocol import NliConfig
from models.similarity.vectors import Cosines
from tests import score_servers
from tests.score_servers import reason_logged, score_server, vector
from tests.worker_servers import ANYWHERE, running
from workers.build import build_workers
from workers.config import GeneratorConfig, SimilaritySettings, WorkerConfig
from workers.hooks import Hooks
from workers.remote.pair_servers import PairServerScorer, connect_similarity_scorers

pytestmark = pytest.mark.anyio

PAIRS = [(f"answer number {i}", "number 3") for i in range(40)]


@asynccontextmanager
async def over(server, **settings):
    servers = SimilaritySettings(url=server.url, api="embeddings", **settings).checked()
    similarity_scorers, nli = await connect_similarity_scorers(servers, Hooks(), ANYWHERE)
    assert nli is None
    async with running(similarity_scorers["embedding"]) as similarity_scorer:
        yield similarity_scorer


def expected(pairs, traits):
    cosines = Cosines.of(np.array([vector(text, traits) for text in Cosines.UNLIKE]))
    first, second = ([vector(text, traits) for text in texts] for texts in zip(*pairs, strict=True))
    return cosines.between(np.array(first), np.array(second))


async def test_scores_are_stretched_cosines_of_texts_that_are_each_sent_once():
    async with score_server("embeddings") as server, over(server) as similarity_scorer:
        server.calls.clear()
        reply = await similarity_scorer.compare(PAIRS)
        sent = [text for call in server.calls for text in call if "number" in text]

        found = [score for (score,), _ in map(reply.scores.get, PAIRS)]
        np.testing.assert_allclose(found, expected(PAIRS, server))
    assert len(sent) == len(set(sent)) == 41
    assert not any(is_cut for _, is_cut in reply.scores.values())


async def test_a_vector_of_zeros_has_no_similarity_and_fails_its_own_request_alone(monkeypatch):
    def vector_of(text, traits):
        return [0.0] * 62 if text == "?" else vector(text, traits)

    monkeypatch.setattr(score_servers, "vector", vector_of)
    async with score_server("embeddings") as server, over(server) as similarity_scorer:
        asked = [similarity_scorer.compare([("?", "number 3")]), similarity_scorer.compare(PAIRS)]
        failed, compared = await asyncio.gather(*asked, return_exceptions=True)

    assert isinstance(failed, SimilarityUnavailable)
    assert "a vector of zeros" in failed.message
    assert len(compared.scores) == len(PAIRS)


@pytest.mark.parametrize("most", [1, 10])
async def test_a_server_that_takes_fewer_texts_is_asked_by_more_calls(most):
    few = score_server("embeddings", max_call_texts=most, tells_index=False)
    async with few as server, over(server) as similarity_scorer:
        reply = await similarity_scorer.compare(PAIRS)
        num_refused = server.num_refused
        await similarity_scorer.compare([(f"{a}!", b) for a, b in PAIRS])
        assert server.num_refused == num_refused > 0  # refused once, and remembered
        found = [score for (score,), _ in map(reply.scores.get, PAIRS)]
        np.testing.assert_allclose(found, expected(PAIRS, server))


async def test_its_texts_are_cut_to_what_they_add_but_where_they_are_to_be_whole():
    async with score_server("embeddings") as server:
        async with over(server) as similarity_scorer:
            added = similarity_scorer.info
        async with over(server, compare="whole") as similarity_scorer:
            whole = similarity_scorer.info

    assert (added.rules.cuts, whole.rules.cuts) == (True, False)
    assert added.identity != whole.identity
    assert added.max_pair_tokens is None


async def test_a_model_that_it_does_not_list_is_refused_by_name(caplog):
    async with score_server("embeddings") as server:
        place = SimilaritySettings(url=server.url, api="embeddings", model="mine").checked()
        similarity_scorer = PairServerScorer(place, Hooks(), ANYWHERE)
        await reason_logged(similarity_scorer, caplog, "it lists encoder")


async def test_vectors_that_are_all_alike_are_waited_for_and_the_reason_is_logged(caplog):
    async with score_server("embeddings", dimension=1) as server:
        place = SimilaritySettings(url=server.url, api="embeddings").checked()
        similarity_scorer = PairServerScorer(place, Hooks(), ANYWHERE)
        await reason_logged(similarity_scorer, caplog, "the same vector")


ROW = {"index": 0, "embedding": [0.1, 0.2]}


@pytest.mark.parametrize(
    "reply",
    [
        JSONResponse({}, 500),
        JSONResponse({}, 413),
        {"data": []},
        {"data": [ROW]},
        {"data": [ROW, {"index": 1, "embedding": [0.1]}]},
        {"data": [ROW, {"index": 1, "embedding": []}]},
        {"data": [ROW, {"index": 1, "embedding": ["x", "y"]}]},
        "no",
    ],
    ids=["500", "413", "none", "one of two", "another length", "empty", "words", "text"],
)
async def test_every_failure_is_typed_and_over_with_the_next_call(reply):
    async with score_server("embeddings") as server, over(server) as similarity_scorer:
        server.replies += [reply] * 4
        with pytest.raises(SimilarityUnavailable) as error:
            await similarity_scorer.compare(PAIRS[:1])
        assert "answer number" not in error.value.message
        server.replies.clear()
        assert (await similarity_scorer.compare(PAIRS[:1])).scores


async def test_other_weights_are_another_identity():
    async with score_server("embeddings") as server, over(server) as similarity_scorer:
        first = similarity_scorer.info.identity
    async with score_server("embeddings", weights=0.5) as server, over(server) as similarity_scorer:
        assert similarity_scorer.info.identity != first


async def test_a_deployment_over_such_a_server_compares_by_it_and_loads_no_other_model():
    async with score_server("embeddings") as server:
        similarity = SimilaritySettings(url=server.url, api="embeddings", model="encoder")
        generation = GeneratorConfig(engine="fake", model="org/model")
        config = WorkerConfig(generation, similarity, NliConfig(model=""), ProbeConfig("", ""))
        async with running_workers(build_workers(config)) as workers:
            assert workers.default_similarity == "embedding"
            assert sorted(workers.similarity_scorers) == [
                "added",
                "embedding",
                "jaccard",
                "rouge_l",
            ]
            reply = await workers.similarity_scorers["embedding"].compare(PAIRS[:1])
            assert reply.scores.keys() == {PAIRS[0]}


def test_compare_is_no_setting_of_our_own_workers():
    with pytest.raises(ModelNotLoaded, match="COCOA_SIMILARITY__COMPARE"):
        SimilaritySettings(url="http://worker", compare="added").checked()
