"""vLLM's `/score` with the embedded cross-encoder, held to the pair model in process."""

from contextlib import asynccontextmanager
from itertools import permutations

import numpy as np
import pytest

from models.embedded import CROSS_ENCODER_DIR
from models.similarity.cross_encoder import CrossEncoderModel
from models.similarity.protocol import SimilarityConfig
from tests.vllm.server import serving
from tests.worker_servers import ANYWHERE, running
from workers.config import SimilaritySettings
from workers.hooks import Hooks
from workers.remote.pair_servers import connect_similarity_scorers

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def server(tmp_path_factory, anyio_backend):
    folder = tmp_path_factory.mktemp("score")
    arguments = ("--runner", "pooling", "--enforce-eager")
    async with serving(
        folder, "score", *arguments, model=CROSS_ENCODER_DIR, probes=(), plugin=False
    ) as found:
        yield found


@asynccontextmanager
async def comparing(server):
    config = SimilaritySettings(url=str(server.client.base_url), api="vllm")
    similarity_scorers, _ = await connect_similarity_scorers(config.checked(), Hooks(), ANYWHERE)
    async with running(similarity_scorers["cross_encoder"]) as similarity_scorer:
        yield similarity_scorer


def pairs():
    """Answers beside each other: the same in other words, others in the same words, and neither."""
    texts = []
    for city in ("Paris", "Rome", "Tokyo", "New York"):
        texts += [city, f"It is {city}.", f"The capital is {city}.", f"The answer is {city}."]
    texts += [
        "42",
        "The answer is 42.",
        "I do not know.",
        "das alte Haus",
        "das alte Haus am Fluss",
    ]
    return list(permutations(texts, 2))


async def test_scores_are_those_of_the_pair_model_in_process(server):
    asked = pairs()
    local = CrossEncoderModel.load(SimilarityConfig()).score(asked)
    async with comparing(server) as similarity_scorer:
        reply = await similarity_scorer.compare(asked)

    found = np.array([reply.scores[pair][0] for pair in asked])
    assert np.ptp(local.values) > 0.5
    distance = np.abs(found - local.values).max()
    print(f"\n[/score] {len(asked)} pairs, farthest {distance:.2e}", flush=True)
    assert distance < 1e-4
    assert not any(is_cut for _, is_cut in reply.scores.values())


async def test_pairs_that_are_too_long_are_said_to_be_cut(server):
    long = ("word " * 700, "Paris")
    async with comparing(server) as similarity_scorer:
        reply = await similarity_scorer.compare([long, ("Paris", "Rome")])
        [context] = await similarity_scorer.fit_contexts([("one two " * 400, "three")])

    assert reply.scores[long][1]
    assert not reply.scores["Paris", "Rome"][1]
    assert 0 < len(context) < 3200
