"""The contract of `workers.protocol.SimilarityScorer`, on every one that a deployment has."""

import asyncio
import atexit
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from cocoa_lab.loading import running_workers
from models.errors import NotReady
from models.others import SIMILARITIES
from models.similarity import OVER_NLI, PAIR_MODELS
from models.similarity.protocol import NliConfig
from tests.score_servers import score_server
from tests.tiny_models import tiny_encoder
from tests.worker_servers import remote_similarity_scorers
from workers.build import build_workers
from workers.config import GeneratorConfig, SimilaritySettings, WorkerConfig

pytestmark = pytest.mark.anyio

PAIRS = [("Paris", "It is Paris."), ("It is Paris.", "Paris"), ("", "Rome"), ("42. Or 43.", "43")]
# Those of one deployment: its default, what needs no weights, what an NLI model gives, and itself.
SERVERS = {"vLLM's /score": "vllm", "TEI's /predict": "tei", "/v1/embeddings": "embeddings"}
NAMES = [*PAIR_MODELS, *SIMILARITIES, OVER_NLI, "the NLI model"]


@cache
def encoder_folder():
    """Of an embedding model with random weights; removed at the end."""
    folder = TemporaryDirectory()
    atexit.register(folder.cleanup)
    tiny_encoder(Path(folder.name))
    return folder.name


@asynccontextmanager
async def comparing(name):
    """The similarity scorer of this name in running workers, with the embedded models."""
    if name in SERVERS:
        api = SERVERS[name]
        async with score_server(api) as server:
            config = WorkerConfig(
                generation=GeneratorConfig(engine="fake"),
                similarity=SimilaritySettings(url=server.url, api=api),
                nli=NliConfig(model=""),
            )
            async with running_workers(build_workers(config)) as workers:
                yield workers.similarity_scorers[workers.default_similarity]
        return
    is_remote = name.endswith(" over HTTP")
    name = name.removesuffix(" over HTTP")
    similarity = SimilaritySettings(name=name if name in PAIR_MODELS else "fake")
    if name == "embedding":
        similarity = SimilaritySettings(model=encoder_folder())
    config = WorkerConfig(
        generation=GeneratorConfig(engine="fake"),
        similarity=similarity,
        nli=NliConfig(model="embedded"),
    )
    async with running_workers(build_workers(config)) as workers:
        assert set(workers.similarity_scorers) <= set(NAMES), (
            "a similarity scorer that skips the suite"
        )
        if not is_remote:
            yield workers.nli if name == "the NLI model" else workers.similarity_scorers[name]
            return
        async with remote_similarity_scorers(workers.similarity_scorers, workers.nli) as (
            similarity_scorers,
            nli,
        ):
            yield nli if name == "the NLI model" else similarity_scorers[name]


@pytest.fixture(params=[*NAMES, *SERVERS, *(f"{name} over HTTP" for name in NAMES)])
def name(request):
    return request.param


async def test_each_distinct_pair_has_finite_values_one_for_each_label(name):
    async with comparing(name) as similarity_scorer:
        reply = await similarity_scorer.compare(PAIRS + PAIRS)
        nothing = await similarity_scorer.compare([])

    assert reply.scores.keys() == set(PAIRS)
    for values, is_cut in reply.scores.values():
        assert len(values) == len(similarity_scorer.info.labels)
        assert all(0 <= value <= 1 for value in values)
        assert is_cut is False
    assert nothing.scores == {}


async def test_callers_beside_each_other_get_what_each_would_get_alone(name):
    async with comparing(name) as similarity_scorer:
        replies = await asyncio.gather(*(similarity_scorer.compare([pair]) for pair in PAIRS * 8))
        together = await similarity_scorer.compare(PAIRS)

    for pair, reply in zip(PAIRS * 8, replies, strict=True):
        np.testing.assert_allclose(reply.scores[pair][0], together.scores[pair][0], atol=1e-5)


async def test_every_reply_names_the_weights_that_the_info_names(name):
    async with comparing(name) as similarity_scorer:
        assert (await similarity_scorer.compare(PAIRS)).identity == similarity_scorer.info.identity
        assert (await similarity_scorer.compare([])).identity == similarity_scorer.info.identity


async def test_contexts_come_back_in_order_whole_where_they_fit(name):
    async with comparing(name) as similarity_scorer:
        texts = [("one two", "three"), ("four", "five"), ("one two", "three")]
        assert await similarity_scorer.fit_contexts(texts) == ["one two", "four", "one two"]
        assert await similarity_scorer.fit_contexts([]) == []


@pytest.mark.parametrize("name", ["the NLI model", "the NLI model over HTTP"])
async def test_an_nli_model_says_where_its_tokens_end(name):
    texts = ["Paris is big.", "", "東京"]
    async with comparing(name) as similarity_scorer:
        ends = await similarity_scorer.token_ends([*texts, texts[0]])
        assert await similarity_scorer.token_ends([]) == []

    assert ends[0] == ends[3]
    assert ends[1] == []
    for text, found in zip(texts, ends[:3], strict=True):
        assert found == sorted(found)
        assert found[-1:] == ([len(text)] if text else [])
    with pytest.raises(NotReady):
        await similarity_scorer.token_ends(["Paris"])


async def test_a_caller_that_leaves_harms_nobody(name):
    async with comparing(name) as similarity_scorer:
        leaving = asyncio.create_task(similarity_scorer.compare(PAIRS))
        staying = asyncio.create_task(similarity_scorer.compare(PAIRS))
        await asyncio.sleep(0)
        leaving.cancel()
        assert (await staying).scores.keys() == set(PAIRS)
        with pytest.raises(asyncio.CancelledError):
            await leaving


async def test_once_closed_it_is_not_ready(name):
    async with comparing(name) as similarity_scorer:
        pass
    with pytest.raises(NotReady):
        await similarity_scorer.compare(PAIRS)
    with pytest.raises(NotReady):
        await similarity_scorer.fit_contexts([("one", "two")])


async def test_identities_differ_between_all_functions():
    identities = []
    for name in NAMES:
        async with comparing(name) as similarity_scorer:
            identities.append(similarity_scorer.info.identity)
    assert len(set(identities)) == len(NAMES)
