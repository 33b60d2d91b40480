"""From configuration to workers."""

import asyncio
import gc
import os
import threading
from dataclasses import replace
from unittest.mock import Mock

import pytest
import torch

from cocoa_lab.distances import domain_to_bytes
from cocoa_lab.loading import running_workers
from models.errors import ModelNotLoaded
from models.probes.domain import PromptDomain, beside
from models.probes.protocol import ProbeConfig
from models.similarity import PAIR_MODELS
from models.similarity.pairs import PairRules
from models.similarity.protocol import NliConfig
from tests.fakes.engine import FakeEngine
from tests.fakes.pair_models import FakeNliModel, FakePairModel
from tests.made_calibrators import calibrator, with_prompts
from tests.tiny_models import tiny_encoder
from tests.tiny_probes import saved
from tests.worker_servers import listening, make_app
from workers import loading
from workers.build import build_workers, load_served
from workers.config import GeneratorConfig, LanguageModel, SimilaritySettings, WorkerConfig
from workers.hooks import Hooks
from workers.loading import nli_checkpoint
from workers.supervision import Supervisor

FAKE = GeneratorConfig(engine="fake"), SimilaritySettings(name="fake")
FAKE_NLI, NO_NLI = NliConfig(name="fake_nli", model="fake"), NliConfig(model="")


def load(generation, similarity, nli=NO_NLI, **told):
    config = WorkerConfig(generation, similarity, nli, ProbeConfig("", ""))
    return asyncio.run(build_workers(config, Hooks(**told)))


def warmed_up(generation, similarity, nli=NO_NLI):
    """Workers that have run, and ended."""

    async def run():
        config = WorkerConfig(generation, similarity, nli, ProbeConfig("", ""))
        async with running_workers(build_workers(config)):
            pass

    asyncio.run(run())


def test_names_become_models_and_rules():
    workers = load(FAKE[0], SimilaritySettings(name="fake", strip=False, exact_match=False))
    assert workers.generator.info.model_id == "fake"
    similarity_scorer = workers.similarity_scorers[workers.default_similarity]
    assert similarity_scorer.info.model_id == "fake"
    assert similarity_scorer.info.rules == PairRules(strip=False, exact_match=False)


def test_functions_without_weights_are_always_there_and_those_over_nli_share_its_model(
    monkeypatch,
):
    loaded = Mock(side_effect=FakeNliModel.load)
    monkeypatch.setattr(FakeNliModel, "load", loaded)
    without = load(*FAKE)
    assert (sorted(without.similarity_scorers), without.nli) == (
        ["added", "fake", "jaccard", "rouge_l"],
        None,
    )

    workers = load(*FAKE, FAKE_NLI)
    assert sorted(workers.similarity_scorers) == ["added", "fake", "jaccard", "nli", "rouge_l"]
    loaded.assert_called_once()
    named = {f"similarity-{name}" for name in workers.similarity_scorers}
    assert workers.by_name().keys() == {"generation", "nli", *named}


def test_the_default_similarity_may_be_one_over_nli():
    workers = load(FAKE[0], SimilaritySettings(name="nli"), FAKE_NLI)
    assert workers.default_similarity == "nli"


def test_every_function_has_an_identity_of_its_own():
    workers = load(*FAKE, FAKE_NLI)
    similarity_scorers = [*workers.similarity_scorers.values(), workers.nli]
    assert len(
        {similarity_scorer.info.identity for similarity_scorer in similarity_scorers}
    ) == len(similarity_scorers)


def test_what_an_nli_models_similarity_is_belongs_to_its_identity():
    identities = set()
    for kind in ("entailment", "contradiction"):
        workers = load(*FAKE, NliConfig(name="fake_nli", model="fake", similarity=kind))
        identities.add(workers.similarity_scorers["nli"].info.identity)
    assert len(identities) == 2


@pytest.mark.parametrize(
    ("nli", "generation", "checkpoint"),
    [
        (NliConfig(), GeneratorConfig(), "embedded"),
        (NliConfig(), GeneratorConfig(model="embedded-second"), "embedded"),
        (NliConfig(), GeneratorConfig(model="org/model"), ""),
        (NliConfig(), GeneratorConfig(engine="fake"), ""),
        (NliConfig(model=""), GeneratorConfig(), ""),
        (NliConfig(model="org/nli"), GeneratorConfig(model="org/model"), "org/nli"),
    ],
    ids=[
        "beside the first",
        "beside the second",
        "beside another",
        "beside a fake",
        "none",
        "named",
    ],
)
def test_the_embedded_nli_model_serves_beside_the_embedded_language_models_only(
    nli, generation, checkpoint
):
    assert nli_checkpoint(nli, LanguageModel.of(generation)) == checkpoint


@pytest.mark.parametrize(
    ("generation", "similarity", "nli", "message"),
    [
        (
            GeneratorConfig(engine="bert"),
            FAKE[1],
            NO_NLI,
            "COCOA_GENERATION__ENGINE is 'bert', .* transformers",
        ),
        (
            FAKE[0],
            SimilaritySettings(name="bert"),
            NO_NLI,
            "COCOA_SIMILARITY__NAME is 'bert', .* rouge_l",
        ),
        (*FAKE, NliConfig(name="bert", model="fake"), "COCOA_NLI__NAME is 'bert', .* nli"),
    ],
    ids=["engine", "pair model", "NLI model"],
)
def test_an_unknown_name_is_refused_with_the_known_ones(generation, similarity, nli, message):
    with pytest.raises(ValueError, match=message):
        load(generation, similarity, nli)


def test_the_second_embedded_language_model_is_loaded_by_its_name_and_has_no_probe_of_the_first():
    config = WorkerConfig(
        GeneratorConfig(model="embedded-second"), FAKE[1], NliConfig(model=""), ProbeConfig()
    )
    info = asyncio.run(build_workers(config)).generator.info
    assert info.model_id == "embedded-second"
    assert not info.probes


@pytest.mark.parametrize(
    ("generation", "is_foreign"),
    [
        (GeneratorConfig(), False),
        (GeneratorConfig(model="embedded-second"), False),
        (GeneratorConfig(engine="fake", model="org/model"), True),
    ],
    ids=["first", "second", "another"],
)
def test_the_embedded_cross_encoder_warns_of_answers_that_it_does_not_know(
    generation, is_foreign, caplog
):
    load(generation, SimilaritySettings(name="cross_encoder"))
    assert ("COCOA_SIMILARITY__MODEL: the embedded pair model" in caplog.text) is is_foreign


@pytest.mark.parametrize(
    ("generation", "similarity", "expected"),
    [
        (GeneratorConfig(), SimilaritySettings(), "cross_encoder"),
        (GeneratorConfig(engine="fake", model="org/model"), SimilaritySettings(), "added"),
        (
            GeneratorConfig(engine="fake", model="org/model"),
            SimilaritySettings(name="rouge_l"),
            "rouge_l",
        ),
        (FAKE[0], FAKE[1], "fake"),
    ],
)
def test_beside_a_foreign_model_answers_are_compared_by_what_they_add(
    generation, similarity, expected, caplog
):
    caplog.set_level("INFO")
    workers = load(generation, similarity)
    assert workers.default_similarity == expected
    assert ("by the words that they add to their question" in caplog.text) == (expected == "added")
    assert ("cross_encoder" in workers.similarity_scorers) is (expected == "cross_encoder")
    cutting = [name for name, one in workers.similarity_scorers.items() if one.info.rules.cuts]
    assert cutting == ["added"]


@pytest.mark.parametrize(
    ("similarity", "expected"),
    [
        (SimilaritySettings(), "added"),
        (SimilaritySettings(name="cross_encoder"), "cross_encoder"),
        (FAKE[1], "fake"),
    ],
    ids=["by default", "named", "another"],
)
def test_samples_of_strangers_are_not_compared_by_the_embedded_model_unless_told(
    similarity, expected
):
    workers = load(GeneratorConfig(), similarity)
    assert workers.similarity_of_given == expected


@pytest.mark.parametrize(
    ("options", "is_cut"), [({}, True), ({"compare": "whole"}, False)], ids=["auto", "whole"]
)
def test_a_checkpoint_of_vectors_is_the_default_and_reads_what_answers_add(
    tmp_path, options, is_cut
):
    tiny_encoder(tmp_path)
    workers = load(FAKE[0], SimilaritySettings(model=str(tmp_path), **options))
    assert workers.default_similarity == "embedding"
    assert "cross_encoder" not in workers.similarity_scorers
    assert workers.similarity_scorers["embedding"].info.rules.cuts is is_cut


def test_a_cross_encoder_reads_what_answers_add_where_it_is_told_to():
    workers = load(GeneratorConfig(), SimilaritySettings(compare="added"))
    by_default = (
        load(GeneratorConfig(), SimilaritySettings()).similarity_scorers["cross_encoder"].info
    )
    cutting = workers.similarity_scorers["cross_encoder"].info
    assert (cutting.rules.cuts, by_default.rules.cuts) == (True, False)
    assert cutting.identity != by_default.identity


@pytest.mark.parametrize(
    ("generation", "name"),
    [(GeneratorConfig(), "rouge_l"), (GeneratorConfig(engine="fake", model="org/model"), "auto")],
    ids=["named", "by default beside a foreign model"],
)
def test_what_a_function_without_weights_reads_cannot_be_set(generation, name):
    with pytest.raises(ModelNotLoaded, match=r"COCOA_SIMILARITY__COMPARE is heeded by"):
        load(generation, SimilaritySettings(name=name, compare="whole"))


def test_an_embedding_model_is_to_be_named():
    with pytest.raises(ModelNotLoaded, match="COCOA_SIMILARITY__MODEL must name an embedding"):
        load(FAKE[0], SimilaritySettings(name="embedding"))


@pytest.mark.parametrize("name", ["rouge_l", "jaccard"])
@pytest.mark.usefixtures("without_lab")
def test_a_default_similarity_of_the_lab_is_refused_without_it_with_what_to_install(name):
    message = f"COCOA_SIMILARITY__NAME is '{name}', and {name} is the lab's: install the lab"
    with pytest.raises(ModelNotLoaded, match=message):
        load(FAKE[0], SimilaritySettings(name=name))


def test_a_default_similarity_over_an_nli_model_that_is_not_loaded_is_refused():
    with pytest.raises(ValueError, match="COCOA_SIMILARITY__NAME is 'nli', and must be one of"):
        load(FAKE[0], SimilaritySettings(name="nli"))


@pytest.mark.parametrize(
    ("is_embedded", "num_cores", "cpu_limit", "threads", "expected"),
    [
        (False, 8, None, 0, 8),
        (False, 8, "550000 100000", 0, 5),
        (False, 8, "50000 100000", 0, 1),
        (False, 2, "800000 100000", 0, 2),
        (False, 8, None, 3, 3),
        (True, 8, "max 100000", 0, 4),
        (True, 8, "500000 100000", 0, 2),
        (True, 1, None, 0, 1),
        (True, 8, None, 3, 3),
    ],
)
def test_a_model_computes_on_all_cores_and_an_embedded_one_on_half_unless_threads_are_set(
    monkeypatch, tmp_path, is_embedded, num_cores, cpu_limit, threads, expected
):
    model = LanguageModel("one", is_embedded)
    monkeypatch.setattr(LanguageModel, "of", lambda generation: model)
    limits = {}
    monkeypatch.setattr(loading, "_CPU_LIMIT", tmp_path / "cpu.max")
    if cpu_limit is not None:
        loading._CPU_LIMIT.write_text(f"{cpu_limit}\n")

    def limit(num_threads):
        limits[threading.current_thread().name] = num_threads

    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(num_cores)))
    monkeypatch.setattr(torch, "set_num_threads", limit)
    generation = GeneratorConfig(engine="fake", threads=threads)
    warmed_up(generation, SimilaritySettings(name="fake", threads=threads))
    beside = {limits.pop(name) for name in [*limits] if name.startswith(("asyncio", "texts"))}
    assert (beside, limits.pop("generation_0")) == ({1}, expected)
    assert limits == ({"similarity_0": expected} if is_embedded or threads else {})


@pytest.mark.parametrize(
    ("generation_threads", "similarity_threads", "device", "expected"),
    [
        (0, 0, "cpu", "generation_0"),
        (2, 0, "cpu", "similarity_0"),
        (0, 2, "cpu", "similarity_0"),
        (0, 0, "cuda", "similarity_0"),
    ],
)
def test_pair_models_share_one_thread_on_a_processor_that_of_the_language_model(
    monkeypatch, generation_threads, similarity_threads, device, expected
):
    threads, score = set(), FakePairModel.score

    def noted(model, pairs):
        threads.add(threading.current_thread().name)
        return score(model, pairs)

    monkeypatch.setattr(FakePairModel, "score", noted)
    generation = replace(FAKE[0], threads=generation_threads, device=device)
    warmed_up(generation, replace(FAKE[1], threads=similarity_threads), FAKE_NLI)
    assert threads == {expected}


@pytest.mark.anyio
async def test_the_sizes_of_steps_and_batches_are_told():
    steps, batches = [], []
    config = WorkerConfig(*FAKE, NliConfig(model=""), ProbeConfig("", ""))
    hooks = Hooks(on_step=steps.append, on_batch=batches.append)
    workers = await build_workers(config, hooks)
    supervisor = Supervisor(lambda: None)
    await supervisor.start(workers.by_name())
    await supervisor.stop()

    assert 3 in steps, "an answer and two samples"
    assert batches == [1], "a function without weights is not warmed up"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"generation": GeneratorConfig(model="/no/where")},
            "COCOA_GENERATION__MODEL=where: no such",
        ),
        (
            {"similarity": SimilaritySettings(model="/no/where")},
            "COCOA_SIMILARITY__MODEL=where: no such",
        ),
        ({"nli": NliConfig(model="/no/where")}, "COCOA_NLI__MODEL=where: no such"),
    ],
    ids=["language model", "pair model", "NLI model"],
)
def test_a_checkpoint_that_cannot_be_loaded_is_told_before_any_other_is_loaded(
    monkeypatch, changed, message
):
    monkeypatch.setattr(FakeEngine, "load", None)
    models = {"generation": FAKE[0], "similarity": FAKE[1], "nli": NliConfig(model="")}
    with pytest.raises(ModelNotLoaded, match=message):
        asyncio.run(build_workers(WorkerConfig(**models | changed)))


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            RuntimeError("/no/where is odd\nmore"),
            "COCOA_GENERATION__MODEL=.* cannot be loaded: RuntimeError: /no/where is odd$",
        ),
        (
            ValueError("/no/where is odd\nmore"),
            "COCOA_GENERATION__MODEL=.* cannot be loaded: /no/where is odd$",
        ),
        (
            ModuleNotFoundError("No module named 'torch'"),
            r"'torch': pip install '\.\[models",
        ),
    ],
)
def test_whatever_loading_raises_becomes_one_line_with_its_remedy(monkeypatch, error, message):
    collects = []

    def fail(config):
        collects.append(gc.isenabled())
        raise error

    monkeypatch.setattr(FakeEngine, "load", fail)
    with pytest.raises(ModelNotLoaded, match=message):
        load(*FAKE)
    assert collects == [False]  # while there is no garbage
    assert gc.isenabled()


@pytest.mark.parametrize(
    ("generation", "model", "foreign_to"),
    [
        ("org/model", "embedded", ("SIMILARITY", "NLI")),
        ("org/model", "other", ()),
        ("embedded-long", "embedded", ("SIMILARITY",)),
        ("embedded-second", "embedded", ()),
    ],
)
def test_an_embedded_pair_model_beside_a_language_model_that_it_does_not_know_says_so(
    monkeypatch, caplog, generation, model, foreign_to
):
    # Weightless stand-ins under the names of models that have weights.
    monkeypatch.setitem(PAIR_MODELS, "cross_encoder", PAIR_MODELS["fake"])
    monkeypatch.setattr("workers.loading._check_checkpoint", lambda *args: None)
    similarity = SimilaritySettings(name="cross_encoder", model=model)
    asked = GeneratorConfig(engine="fake", model=generation)
    workers = load(asked, similarity, NliConfig(name="fake_nli", model=model))

    similarity_scorers = workers.similarity_scorers
    assert similarity_scorers["cross_encoder"].info.is_out_of_domain is ("SIMILARITY" in foreign_to)
    for one in (similarity_scorers["nli"], workers.nli):
        assert one.info.is_out_of_domain is ("NLI" in foreign_to)
    assert not similarity_scorers["rouge_l"].info.is_out_of_domain
    for group in ("SIMILARITY", "NLI"):
        told = f"COCOA_{group}__MODEL: the embedded pair model" in caplog.text
        assert told is (group in foreign_to)


def test_a_probe_is_refused_beside_an_engine_that_lacks_what_it_reads(tmp_path, monkeypatch):
    class Lacking(FakeEngine):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            lacking = self.info.statistics - {"answer_token_entropies"}
            self.info = replace(self.info, statistics=lacking)

    def with_probe(**changes):
        folder = saved(tmp_path / str(len(changes)), **changes)
        config = WorkerConfig(*FAKE, NliConfig(model=""), ProbeConfig(folder, ""))
        return asyncio.run(build_workers(config))

    monkeypatch.setattr("tests.fakes.engine.FakeEngine", Lacking)
    with pytest.raises(ModelNotLoaded, match=r"PROBES.* sp, mte, log_length .* the model lacks"):
        with_probe()
    assert with_probe(token_features=()).generator.info.probes


def with_calibrator(path):
    config = WorkerConfig(*FAKE, NliConfig(model=""), ProbeConfig("", ""), str(path))
    return asyncio.run(build_workers(config)).generator.info.prompts


def test_the_prompts_of_a_calibrator_are_loaded_with_it(tmp_path):
    path = tmp_path / "made.json"
    made = with_prompts(calibrator(), path)
    assert with_calibrator(path) == made.prompts
    assert with_calibrator("") == with_calibrator("auto") == ""


def test_prompts_that_are_not_the_calibrators_or_of_another_model_are_refused(tmp_path):
    path = tmp_path / "made.json"
    with_prompts(calibrator(), path)
    beside(path).write_bytes(domain_to_bytes(PromptDomain("other", 2, ())))
    with pytest.raises(ModelNotLoaded, match=r"COCOA_CALIBRATOR.*not the file that the calibrator"):
        with_calibrator(path)
    beside(path).unlink()
    with pytest.raises(ModelNotLoaded, match="holds no prompts of calibration"):
        with_calibrator(path)
    with_prompts(calibrator(), path, generator="other")
    with pytest.raises(ModelNotLoaded, match="another language model's"):
        with_calibrator(path)


def test_a_worker_of_generation_looks_at_no_similarity_model(tmp_path):
    nowhere = SimilaritySettings(model=str(tmp_path / "nowhere"))
    config = WorkerConfig(FAKE[0], nowhere, NO_NLI, ProbeConfig("", ""))
    served = load_served("generation", config, Hooks())
    assert served.generator is not None
    with pytest.raises(ModelNotLoaded, match="COCOA_SIMILARITY__MODEL=nowhere"):
        load_served("similarity", config, Hooks())
    asyncio.run(served.generator.close())


FOREIGN = GeneratorConfig(engine="fake", model="org/model")


@pytest.mark.parametrize("known", [FOREIGN, GeneratorConfig()], ids=["that knows", "by default"])
def test_a_gateway_with_a_foreign_model_compares_by_added_behind_a_similarity_worker(known):
    def config(generation, similarity):
        return WorkerConfig(generation, similarity, NliConfig(), ProbeConfig("", ""))

    served = load_served("similarity", config(known, SimilaritySettings()), Hooks())
    assert ("cross_encoder" in served.similarity_scorers) is (known is not FOREIGN)

    async def connected():
        async with listening(make_app(lambda: served)) as port:
            behind = SimilaritySettings(url=f"http://127.0.0.1:{port}")
            async with running_workers(build_workers(config(FOREIGN, behind))) as workers:
                return workers.default_similarity, workers.similarity_of_given

    assert asyncio.run(connected()) == ("added", "added")
