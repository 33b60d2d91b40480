"""Scorers over vLLM's `/score` and TEI's `/predict`: limits, cuts, failures, other weights."""

import asyncio
import socket
from contextlib import asynccontextmanager

import pytest
from starlette.responses import JSONResponse

from models.errors import SimilarityUnavailable
from tests.score_servers import APPS, overlap, reason_logged, score_server
from tests.worker_servers import ANYWHERE, running
from workers.config import SimilaritySettings
from workers.hooks import Hooks
from workers.remote.pair_servers import PairServerScorer, connect_similarity_scorers

pytestmark = pytest.mark.anyio

PAIRS = [(f"answer number {i}", "answer number 3") for i in range(11)]
LONG = ("word " * 40, "one word")


@pytest.fixture(params=APPS)
def api(request):
    return request.param


@asynccontextmanager
async def over(server, api, **settings):
    servers = SimilaritySettings(url=server.url, api=api, **settings).checked()
    similarity_scorers, nli = await connect_similarity_scorers(servers, Hooks(), ANYWHERE)
    assert nli is None
    async with running(similarity_scorers["cross_encoder"]) as similarity_scorer:
        yield similarity_scorer


async def test_scores_keep_their_pairs_in_calls_of_at_most_as_many_as_the_server_takes(api):
    async with score_server(api) as server, over(server, api) as similarity_scorer:
        reply = await similarity_scorer.compare(PAIRS)
        calls = [len(call) for call in server.calls]

    assert {pair: score for pair, ((score,), _) in reply.scores.items()} == {
        pair: pytest.approx(overlap(*pair, server)) for pair in PAIRS
    }
    if api == "tei":
        assert max(calls) == 4


async def test_pairs_of_callers_beside_each_other_share_calls(api):
    async with (
        score_server(api, max_call_pairs=32) as server,
        over(server, api) as similarity_scorer,
    ):
        server.calls.clear()
        await asyncio.gather(*(similarity_scorer.compare([pair]) for pair in PAIRS))

    assert [set(call) for call in server.calls] == [set(PAIRS)]


async def test_a_pair_that_is_cut_is_said_to_be_and_the_others_are_not(api):
    async with score_server(api) as server, over(server, api) as similarity_scorer:
        reply = await similarity_scorer.compare(
            [LONG, PAIRS[0], ("a much longer word or two", "Paris")]
        )

    assert [is_cut for _, is_cut in reply.scores.values()] == [True, False, False]


async def test_contexts_are_cut_from_the_left_between_words_so_that_the_pair_fits(api):
    context = " ".join(f"w{i}" for i in range(40))
    async with score_server(api) as server, over(server, api) as similarity_scorer:
        long, short = await similarity_scorer.fit_contexts([(context, "one two"), ("a b", "c")])

    # 32 are 2 · (12 words of context, 2 of text, 2 special ones).
    assert long == " ".join(f"w{i}" for i in range(28, 40))
    assert short == "a b"


@pytest.mark.parametrize(
    "reply",
    [
        JSONResponse({}, 500),
        JSONResponse({}, 502),
        JSONResponse({}, 413),
        {"data": [{"index": 0, "score": 2.0}]},
        {"data": []},
        [[{"score": "high"}]],
        [[{"score": 0.1}, {"score": 0.2}]],
        [],
        "no",
    ],
    ids=["500", "502", "413", "over 1", "none", "a word", "two labels", "empty", "text"],
)
async def test_every_failure_is_typed_and_over_with_the_next_call(api, reply):
    async with score_server(api) as server, over(server, api) as similarity_scorer:
        server.replies += [reply] * 8
        with pytest.raises(SimilarityUnavailable) as error:
            await similarity_scorer.compare(PAIRS[:1])
        assert "answer number" not in error.value.message
        server.replies.clear()
        assert (await similarity_scorer.compare(PAIRS[:1])).scores


@pytest.mark.parametrize("logit", [-5.5, 1.0001, 40.0])
async def test_scores_that_are_logits_are_refused_and_never_a_similarity(api, logit):
    async with score_server(api) as server, over(server, api) as similarity_scorer:
        reply = {"vllm": {"data": [{"index": 0, "score": logit}]}, "tei": [[{"score": logit}]]}
        server.replies += [reply[api]] * 4
        with pytest.raises(SimilarityUnavailable, match=r"its scores are not all in \[0, 1\]"):
            await similarity_scorer.compare(PAIRS[:1])


async def test_a_server_of_embeddings_is_refused_in_words(caplog):
    async with score_server("tei", kind="embedding") as server:
        servers = SimilaritySettings(url=server.url, api="tei").checked()
        similarity_scorer = PairServerScorer(servers, Hooks(), ANYWHERE)
        await reason_logged(similarity_scorer, caplog, "serve a cross-encoder")
        assert not server.calls


async def test_a_gateway_waits_for_a_server_of_logits_and_says_why(api, caplog):
    async with score_server(api, weights=-3.0) as server:
        servers = SimilaritySettings(url=server.url, api=api).checked()
        similarity_scorer = PairServerScorer(servers, Hooks(), ANYWHERE)
        await reason_logged(similarity_scorer, caplog, "its scores are not all in [0, 1]")


async def test_a_server_that_comes_back_with_other_weights_has_another_identity_at_once(api):
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    async with score_server(api, port=port) as server:
        context = over(server, api)
        similarity_scorer = await context.__aenter__()
        first = await similarity_scorer.compare(PAIRS)
    try:
        async with score_server(api, port=port, weights=0.1):
            second = await similarity_scorer.compare(PAIRS)
            assert second.identity == similarity_scorer.info.identity
    finally:
        await context.__aexit__(None, None, None)

    assert first.identity != second.identity
