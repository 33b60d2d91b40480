"""The contract of `workers.protocol.Comparer`, on every one that a deployment has."""

import asyncio
import atexit
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from models.errors import NotReady
from models.similarity import OVER_NLI, PAIR_MODELS, registered_models
from models.similarity.protocol import NliConfig
from tests.score_servers import score_server
from tests.tiny_models import tiny_encoder
from tests.worker_servers import remote_comparers
from workers.build import build_workers
from workers.config import ComparerConfig, GeneratorConfig, WorkerConfig
from workers.supervision import running_workers

pytestmark = pytest.mark.anyio

PAIRS = [("Paris", "It is Paris."), ("It is Paris.", "Paris"), ("", "Rome"), ("42. Or 43.", "43")]
# Those of one deployment: its default, what needs no weights, what an NLI model gives, and itself.
SERVERS = {"vLLM's /score": "vllm", "TEI's /predict": "tei", "/v1/embeddings": "embeddings"}
NAMES = [*PAIR_MODELS, *registered_models(), OVER_NLI, "the NLI model"]


@cache
def encoder_folder():
    """Of an embedding model with random weights; removed at the end."""
    folder = TemporaryDirectory()
    atexit.register(folder.cleanup)
    tiny_encoder(Path(folder.name))
    return folder.name


@asynccontextmanager
async def comparing(name):
    """The comparer of this name in running workers, with the embedded models."""
    if name in SERVERS:
        api = SERVERS[name]
        async with score_server(api) as server:
            config = WorkerConfig(
                generation=GeneratorConfig(engine="fake"),
                similarity=ComparerConfig(url=server.url, api=api),
                nli=NliConfig(model=""),
            )
            async with running_workers(build_workers(config)) as workers:
                yield workers.comparers[workers.default_similarity]
        return
    is_remote = name.endswith(" over HTTP")
    name = name.removesuffix(" over HTTP")
    similarity = ComparerConfig(name=name if name in PAIR_MODELS else "fake")
    if name == "embedding":
        similarity = ComparerConfig(model=encoder_folder())
    config = WorkerConfig(
        generation=GeneratorConfig(engine="fake"),
        similarity=similarity,
        nli=NliConfig(model="embedded"),
    )
    async with running_workers(build_workers(config)) as workers:
        assert set(workers.comparers) <= set(NAMES), "a comparer that skips the suite"
        if not is_remote:
            yield workers.nli if name == "the NLI model" else workers.comparers[name]
            return
        async with remote_comparers(workers.comparers, workers.nli) as (comparers, nli):
            yield nli if name == "the NLI model" else comparers[name]


@pytest.fixture(params=[*NAMES, *SERVERS, *(f"{name} over HTTP" for name in NAMES)])
def name(request):
    return request.param


async def test_each_distinct_pair_has_finite_values_one_for_each_label(name):
    async with comparing(name) as comparer:
        reply = await comparer.compare(PAIRS + PAIRS)
        nothing = await comparer.compare([])

    assert reply.scores.keys() == set(PAIRS)
    for values, is_cut in reply.scores.values():
        assert len(values) == len(comparer.info.labels)
        assert all(0 <= value <= 1 for value in values)
        assert is_cut is False
    assert nothing.scores == {}


async def test_callers_beside_each_other_get_what_each_would_get_alone(name):
    async with comparing(name) as comparer:
        replies = await asyncio.gather(*(comparer.compare([pair]) for pair in PAIRS * 8))
        together = await comparer.compare(PAIRS)

    for pair, reply in zip(PAIRS * 8, replies, strict=True):
        np.testing.assert_allclose(reply.scores[pair][0], together.scores[pair][0], atol=1e-5)


async def test_every_reply_names_the_weights_that_the_info_names(name):
    async with comparing(name) as comparer:
        assert (await comparer.compare(PAIRS)).identity == comparer.info.identity
        assert (await comparer.compare([])).identity == comparer.info.identity


async def test_contexts_come_back_in_order_whole_where_they_fit(name):
    async with comparing(name) as comparer:
        texts = [("one two", "three"), ("four", "five"), ("one two", "three")]
        assert await comparer.fit_contexts(texts) == ["one two", "four", "one two"]
        assert await comparer.fit_contexts([]) == []


@pytest.mark.parametrize("name", ["the NLI model", "the NLI model over HTTP"])
async def test_an_nli_model_says_where_its_tokens_end(name):
    texts = ["Paris is big.", "", "東京"]
    async with comparing(name) as comparer:
        ends = await comparer.token_ends([*texts, texts[0]])
        assert await comparer.token_ends([]) == []

    assert ends[0] == ends[3]
    assert ends[1] == []
    for text, found in zip(texts, ends[:3], strict=True):
        assert found == sorted(found)
        assert found[-1:] == ([len(text)] if text else [])
    with pytest.raises(NotReady):
        await comparer.token_ends(["Paris"])


async def test_a_caller_that_leaves_harms_nobody(name):
    async with comparing(name) as comparer:
        leaving = asyncio.create_task(comparer.compare(PAIRS))
        staying = asyncio.create_task(comparer.compare(PAIRS))
        await asyncio.sleep(0)
        leaving.cancel()
        assert (await staying).scores.keys() == set(PAIRS)
        with pytest.raises(asyncio.CancelledError):
            await leaving


async def test_once_closed_it_is_not_ready(name):
    async with comparing(name) as comparer:
        pass
    with pytest.raises(NotReady):
        await comparer.compare(PAIRS)
    with pytest.raises(NotReady):
        await comparer.fit_contexts([("one", "two")])


async def test_identities_differ_between_all_functions():
    identities = []
    for name in NAMES:
        async with comparing(name) as comparer:
            identities.append(comparer.info.identity)
    assert len(set(identities)) == len(NAMES)
