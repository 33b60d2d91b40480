"""The generation worker: hidden states go to probes and no further.

Foreign probes are not loaded.
"""

from dataclasses import replace

import numpy as np
import pytest

from models.engines.fake import FakeEngine
from models.engines.protocol import EngineConfig
from models.errors import InvalidLogits
from models.probes.card import ProbeMismatch
from models.probes.protocol import ProbeConfig
from models.records import GenerationRequest, SamplingParams
from models.similarity.protocol import NliConfig, SimilarityConfig
from models.threads import ModelThread
from tests.tiny_probes import random_probe, saved
from workers.build import load_workers
from workers.generation import GenerationWorker

pytestmark = pytest.mark.anyio

REQUEST = GenerationRequest(prompt="Hi", sampling=SamplingParams(max_new_tokens=8))
PREDICTED = {
    "predicted_dissimilarity": "consistency",
    "predicted_high_semantic_entropy": "semantic_entropy",
}


def worker():
    probes = {
        "predicted_dissimilarity": random_probe(layer=2),
        "predicted_high_semantic_entropy": random_probe("semantic_entropy", layer=1, seed=1),
    }
    return GenerationWorker(FakeEngine(), probes, ModelThread("probe"))


def load(probes):
    return load_workers(
        EngineConfig(engine="fake"),
        SimilarityConfig(name="fake"),
        NliConfig(model=""),
        probes,
        on_step=lambda rows: None,
        on_batch=lambda size: None,
    )


async def test_each_probe_reads_its_own_layer_and_the_states_stay_here():
    made = worker()
    generation = await made.generate(replace(REQUEST, statistics=frozenset(PREDICTED)))
    states = await made.engine.generate(replace(REQUEST, hidden_layers=(1, 2)))

    assert generation.answer_hidden_mean is None
    expected = {
        "predicted_dissimilarity": made.probes["predicted_dissimilarity"].read(
            states.answer_hidden_mean[[1]]
        )[0],
        "predicted_high_semantic_entropy": made.probes["predicted_high_semantic_entropy"].read(
            states.answer_hidden_mean[[0]]
        )[0],
    }
    assert generation.probe_readings == expected


async def test_a_probe_that_nobody_asked_for_is_not_read():
    made = worker()
    only = await made.generate(replace(REQUEST, statistics=frozenset({"predicted_dissimilarity"})))
    none = await made.generate(replace(REQUEST, statistics=frozenset({"answer_token_logprobs"})))

    assert only.probe_readings.keys() == {"predicted_dissimilarity"}
    assert none.probe_readings == {}


async def test_hidden_states_that_are_no_numbers_are_an_error_of_the_request():
    made = worker()
    generate = made.engine.generate

    async def broken(request, on_token=None):
        generation = await generate(request, on_token)
        return replace(
            generation, answer_hidden_mean=np.full_like(generation.answer_hidden_mean, np.nan)
        )

    made.engine.generate = broken
    with pytest.raises(InvalidLogits):
        await made.generate(replace(REQUEST, statistics=frozenset({"predicted_dissimilarity"})))


def test_configured_probes_are_loaded_and_named_by_what_they_predict(tmp_path):
    workers = load(ProbeConfig(saved(tmp_path), saved(tmp_path, "semantic_entropy", seed=1)))

    assert workers.generation.probes.keys() == PREDICTED.keys()
    assert workers.generation.statistics >= PREDICTED.keys()
    assert len(set(workers.generation.probe_sha256)) == 2


def test_auto_loads_no_probe_beside_another_model():
    assert load(ProbeConfig()).generation.probes == {}


@pytest.mark.parametrize(
    ("model", "named"),
    [
        ({"model_id": "other", "revision": None}, "revision"),
        ({"revision": "2"}, "revision"),
        ({"dimension": 9}, "dimension"),
    ],
    ids=["model", "revision", "dimension"],
)
def test_another_models_probe_is_refused_at_start(tmp_path, model, named):
    with pytest.raises(ProbeMismatch, match=named):
        load(ProbeConfig(saved(tmp_path, **model), ""))


def test_a_probe_of_the_other_target_is_refused(tmp_path):
    with pytest.raises(ProbeMismatch, match="target"):
        load(ProbeConfig(saved(tmp_path, "semantic_entropy"), ""))
