"""From configuration to workers."""

import os

import pytest

from models.engines import ENGINES
from models.engines.fake import FakeEngine
from models.engines.protocol import EngineConfig
from models.probes.protocol import ProbeConfig
from models.similarity.fake import FakePairModel
from models.similarity.protocol import NliConfig, SimilarityConfig
from workers.build import load_workers, nli_checkpoint

FAKE = EngineConfig(engine="fake"), SimilarityConfig(name="fake")


class Recording(FakeEngine):
    @classmethod
    def load(cls, config, on_step=None):
        engine = super().load(config, on_step)
        engine.config = config
        return engine


def load(generation, similarity, nli=None):
    nli = nli or NliConfig(model="")
    return load_workers(
        generation,
        similarity,
        nli,
        ProbeConfig("", ""),
        on_step=lambda rows: None,
        on_batch=lambda size: None,
    )


def test_names_become_models_and_rules():
    workers = load(FAKE[0], SimilarityConfig(name="fake", strip=False, exact_match=False))
    assert isinstance(workers.generation.engine, FakeEngine)
    worker = workers.similarity[workers.default_similarity]
    assert isinstance(worker.model, FakePairModel)
    assert (worker.rules.strip, worker.rules.exact_match) == (False, False)


def test_functions_without_weights_are_always_there_and_those_over_nli_share_its_model():
    without = load(*FAKE)
    assert (sorted(without.similarity), without.nli) == (["fake", "jaccard", "rouge_l"], None)

    workers = load(*FAKE, NliConfig(name="fake_nli", model="fake"))
    assert sorted(workers.similarity) == ["align", "fake", "jaccard", "nli", "rouge_l"]
    workers.similarity["nli"].model.score([("a", "b")])
    workers.similarity["align"].model.score([("a", "b")])
    assert workers.nli.model.batches == [1, 1]
    assert set(workers.by_name()) == {
        "generation",
        "nli",
        *(f"similarity-{name}" for name in workers.similarity),
    }


def test_the_default_similarity_may_be_one_over_nli():
    workers = load(
        FAKE[0], SimilarityConfig(name="align"), NliConfig(name="fake_nli", model="fake")
    )
    assert workers.similarity[workers.default_similarity].model.labels == ("similarity",)


@pytest.mark.parametrize(
    ("nli", "generation", "checkpoint"),
    [
        (NliConfig(), EngineConfig(), "embedded"),
        (NliConfig(), EngineConfig(model="org/model"), ""),
        (NliConfig(), EngineConfig(engine="fake"), ""),
        (NliConfig(model=""), EngineConfig(), ""),
        (NliConfig(model="org/nli"), EngineConfig(model="org/model"), "org/nli"),
    ],
    ids=["beside the embedded model", "beside another", "beside a fake", "none", "named"],
)
def test_the_embedded_nli_model_serves_beside_the_embedded_language_model_only(
    nli, generation, checkpoint
):
    assert nli_checkpoint(nli, generation) == checkpoint


@pytest.mark.parametrize(
    ("generation", "similarity"),
    [
        (EngineConfig(engine="nosuch"), FAKE[1]),
        (FAKE[0], SimilarityConfig(name="nosuch")),
    ],
    ids=["engine", "pair model"],
)
def test_an_unknown_name_is_refused(generation, similarity):
    with pytest.raises(KeyError, match="nosuch"):
        load(generation, similarity)


@pytest.mark.parametrize(("num_cores", "threads", "expected"), [(8, 0, 4), (1, 0, 1), (8, 3, 3)])
def test_the_cores_are_divided_among_the_two_models_unless_threads_are_set(
    monkeypatch, num_cores, threads, expected
):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(num_cores)))
    monkeypatch.setitem(ENGINES, "recording", f"{__name__}:Recording")
    workers = load(EngineConfig(engine="recording", threads=threads), FAKE[1])
    assert workers.generation.engine.config.threads == expected
