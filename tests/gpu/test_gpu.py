"""Models on a GPU give the numbers that they give on a processor; `make test-gpu` runs this."""

import asyncio
import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from models.engines import rows
from models.engines.protocol import EngineConfig
from models.engines.rows import RowCache
from models.engines.transformers import TransformersEngine
from models.similarity.cross_encoder import CrossEncoderModel
from models.similarity.nli import NliModel
from models.similarity.protocol import NliConfig, SimilarityConfig
from tests.unit.models.engines.fast.test_captured import numbers_of
from tests.unit.models.engines.fast.test_lean import MODELS, model_of
from tests.unit.models.engines.tiny_engines import generated, request_for, running, sequences

pytestmark = pytest.mark.anyio

PROMPTS = [
    "Question: What is the capital of France?\nAnswer:",
    "Question: What is 12 + 30?\nAnswer:",
    "Question: What is the French word for 'water'?\nAnswer:",
]


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.bfloat16, 0.1)], ids=["float32", "bf16"]
)
@pytest.mark.parametrize("name", MODELS)
def test_steps_launched_as_graphs_are_those_launched_one_by_one(
    name, dtype, tolerance, monkeypatch
):
    model = model_of(MODELS[name]).to("cuda", dtype)
    with monkeypatch.context() as patched:
        patched.setattr(rows, "is_captured", lambda _: False)
        plain = RowCache(copy.deepcopy(model))
    caches = RowCache(model), plain
    for cache in caches:
        cache.tap.watch((1,))

    for seed in range(6):
        numbers = numbers_of(caches, seed)
        for ours, theirs in zip(numbers, numbers, strict=True):
            torch.testing.assert_close(ours, theirs, atol=tolerance, rtol=tolerance)
    sizes = caches[0]._captured._sizes.values()
    assert sum(size.graph is not None for size in sizes) > 5


@pytest.mark.parametrize("hidden_layers", [(), (2,)], ids=["full", "with hidden states"])
async def test_an_engine_on_a_gpu_says_what_it_says_on_a_processor(hidden_layers):
    asked = []
    for prompt in PROMPTS * 2:
        asked.append(request_for(prompt, max_new_tokens=40, hidden_layers=hidden_layers))
    found = []
    for device in ("cuda", "cpu"):
        engine = TransformersEngine.load(EngineConfig(device=device, dtype="float32"))
        async with running(engine) as worker:
            # alone first, then beside others
            of_device = [await worker.generate(asked[0])]
            found.append(of_device + await generated(worker, asked))

    for ours, theirs in zip(*found, strict=True):
        for one, other in zip(sequences(ours), sequences(theirs), strict=True):
            assert one.token_ids == other.token_ids
            np.testing.assert_allclose(one.token_logprobs, other.token_logprobs, atol=1e-3)
            np.testing.assert_allclose(one.token_entropies, other.token_entropies, atol=1e-3)
        if hidden_layers:
            np.testing.assert_allclose(
                ours.answer_hidden_mean, theirs.answer_hidden_mean, atol=1e-2
            )


async def test_requests_that_come_and_go_harm_no_other():
    """Beside clients that leave, whoever stays gets what it gets alone."""
    engine = TransformersEngine.load(EngineConfig(dtype="float32"))
    requests = [request_for(PROMPTS[i % 3], seed=i, max_new_tokens=32) for i in range(12)]
    async with running(engine) as worker:
        alone = [await worker.generate(request) for request in requests]
        waiting = [asyncio.ensure_future(worker.generate(request)) for request in requests]
        leaving = [asyncio.ensure_future(worker.generate(request)) for request in requests]
        await asyncio.sleep(0.05)
        for task in leaving[::2]:
            task.cancel()
        together = await asyncio.gather(*waiting)
        await asyncio.gather(*leaving, return_exceptions=True)

    for one, other in zip(alone, together, strict=True):
        assert [s.token_ids for s in sequences(one)] == [s.token_ids for s in sequences(other)]


@pytest.mark.parametrize(
    ("kind", "config"),
    [(CrossEncoderModel, SimilarityConfig()), (NliModel, NliConfig(model="embedded"))],
)
def test_pair_models_say_on_a_gpu_what_they_say_on_a_processor(kind, config):
    pairs = [("Paris", "It is Paris."), ("It is 42.", "It is 24."), ("Yes", "No " * 300)]
    ours, theirs = (
        kind.load(replace(config, device=device, dtype="float32")).score(pairs).values
        for device in ("cuda", "cpu")
    )
    np.testing.assert_allclose(ours, theirs, atol=1e-4)
