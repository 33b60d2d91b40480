"""From configuration to workers; the only reader of ENGINES and of the tables of pair models."""

import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from models.embedded import LANGUAGE_MODELS, PROBES_DIR
from models.engines import ENGINES
from models.engines.protocol import EngineConfig, EngineInfo, OnStep
from models.errors import ModelNotLoaded
from models.locations import public_name
from models.probes.card import ProbeMismatch
from models.probes.features import STATISTICS_READ
from models.probes.protocol import Probe, ProbeConfig
from models.similarity import ALWAYS_LOADED, ENTAILMENT, NLI_MODELS, OVER_NLI, PAIR_MODELS
from models.similarity.pairs import PairRules
from models.similarity.protocol import NliConfig, PairModel, SimilarityConfig
from models.threads import ModelThread
from workers.align import AlignWorker
from workers.generation import GenerationWorker
from workers.protocol import Comparer, Workers
from workers.similarity import SimilarityWorker

logger = logging.getLogger(__name__)

_CHECK = "models.loadable:check_checkpoint"
# What those of the tables that load a checkpoint need of it.
_HEADS = {
    ("generation.model", "transformers"): "causal",
    ("similarity.model", "cross_encoder"): "classifier",
    ("nli.model", "nli"): "classifier",
}
_PROBE = "models.probes.probe:TrainedProbe"


def _ignore(size: int) -> None:
    """For whoever does not watch the sizes of batches."""


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """What a deployment says about all of its models."""

    generation: EngineConfig = field(default_factory=EngineConfig)
    similarity: SimilarityConfig = field(default_factory=SimilarityConfig)
    nli: NliConfig = field(default_factory=NliConfig)
    probes: ProbeConfig = field(default_factory=ProbeConfig)


def load_workers(
    config: WorkerConfig,
    *,
    on_step: OnStep = _ignore,
    on_batch: Callable[[int], None] = _ignore,
) -> Workers:
    """Load all models; blocks.

    Args:
        config: which models.
        on_step: told after each decoding step how many rows it had.
        on_batch: told the number of pairs of each call of a pair model.

    Raises:
        ModelNotLoaded: an unknown engine, NLI model or similarity function, or one of the latter
            whose NLI model is not loaded, or a checkpoint that cannot be loaded; names variable,
            reason and remedy.
    """
    _check_names(config)
    _check_checkpoints(config)
    share = max(1, len(os.sched_getaffinity(0)) // 2)  # two full pools slow each other 2.3 times
    generation, similarity = config.generation, config.similarity
    with _loading("generation.model", generation.model):
        engine = resolve(ENGINES[generation.engine]).load(generation)
    probes = _load_probes(config.probes, generation, engine.info)
    generator = GenerationWorker(
        engine,
        probes,
        model_thread=_thread("generation", generation.threads or share),
        text_thread=_thread("texts", 1),
        on_step=on_step,
    )
    nli_model = _load_nli(config.nli, generation)
    as_worker = partial(
        SimilarityWorker,
        rules=PairRules(similarity.strip, similarity.exact_match),
        thread=_thread("similarity", similarity.threads or share),
        max_batch_pairs=similarity.max_batch_pairs,
        on_batch=on_batch,
    )
    nli: Comparer | None = None
    comparers: dict[str, Comparer] = {}
    if nli_model is not None:
        is_foreign = _is_out_of_domain("nli.model", config.nli.model, generation)
        nli = as_worker(nli_model, is_out_of_domain=is_foreign)
        entailment = resolve(ENTAILMENT)(nli_model, config.nli.similarity)
        comparers["nli"] = as_worker(entailment, is_out_of_domain=is_foreign)
        comparers["align"] = AlignWorker(nli)
    for name in (*ALWAYS_LOADED, similarity.name):
        if name not in comparers:
            with _loading("similarity.model", similarity.model):
                pair_model = resolve(PAIR_MODELS[name]).load(similarity)
            is_foreign = name == "cross_encoder" and _is_out_of_domain(
                "similarity.model", similarity.model, generation
            )
            comparers[name] = as_worker(pair_model, is_out_of_domain=is_foreign)
    return Workers(
        generator=generator, comparers=comparers, default_similarity=similarity.name, nli=nli
    )


def nli_checkpoint(config: NliConfig, generation: EngineConfig) -> str:
    """Which NLI model to load, "" for none.

    "auto" is the embedded one, beside the embedded language models only.
    """
    if config.model != "auto":
        return config.model
    return "embedded" if is_embedded(generation) else ""


def is_embedded(generation: EngineConfig) -> bool:
    """Whether the language model is one of those that ship with the project."""
    return generation.engine == "transformers" and generation.model in LANGUAGE_MODELS


def resolve(path: str) -> Any:
    """What "module:name" names; importing it may take seconds."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


def _check_names(config: WorkerConfig) -> None:
    """Refuse names that no table has, before anything is loaded."""
    functions = [*PAIR_MODELS]
    if nli_checkpoint(config.nli, config.generation):
        functions += OVER_NLI
    named: dict[str, tuple[str, Iterable[str]]] = {
        "generation.engine": (config.generation.engine, ENGINES),
        "similarity.name": (config.similarity.name, functions),
        "nli.name": (config.nli.name, NLI_MODELS),
    }
    for setting, (name, known) in named.items():
        if name not in known:
            valid = ", ".join(known)
            raise ModelNotLoaded(f"{variable(setting)} is {name!r}, and must be one of {valid}")


def _check_checkpoints(config: WorkerConfig) -> None:
    """Refuse checkpoints that cannot be loaded, before any of them is, which may take minutes."""
    generation, similarity, nli = config.generation, config.similarity, config.nli
    nli_model = nli_checkpoint(nli, generation)
    asked = [
        ("generation.model", generation.engine, generation.model, generation.revision),
        ("similarity.model", similarity.name, similarity.model, similarity.revision),
        ("nli.model", nli.name, nli_model, nli.revision),
    ]
    for setting, name, model, revision in asked:
        head = _HEADS.get((setting, name))
        shipped = LANGUAGE_MODELS if setting == "generation.model" else ("embedded",)
        if head is not None and model and model not in shipped:
            with _loading(setting, model):
                resolve(_CHECK)(model, revision, head)


def _load_nli(config: NliConfig, generation: EngineConfig) -> PairModel | None:
    checkpoint = nli_checkpoint(config, generation)
    if not checkpoint:
        return None
    with _loading("nli.model", checkpoint):
        model: PairModel = resolve(NLI_MODELS[config.name]).load(replace(config, model=checkpoint))
    return model


def variable(setting: str) -> str:
    """What a deployment sets: "generation.model" is COCOA_GENERATION__MODEL."""
    return f"COCOA_{setting.upper().replace('.', '__')}"


@contextmanager
def _loading(setting: str, model: str) -> Iterator[None]:
    """Whatever goes wrong within is one line with the variable, the model and the reason.

    Raises:
        ModelNotLoaded: anything was raised.
    """
    name = public_name(model)
    try:
        yield
    except ModelNotLoaded as error:
        raise ModelNotLoaded(f"{variable(setting)}={name}: {error}") from None
    except ModuleNotFoundError as error:
        raise ModelNotLoaded(f"{error}: pip install 'cocoa-serve[models]'") from None
    except Exception as error:
        [line, *_] = [*str(error).splitlines(), ""]
        reason = f"{type(error).__name__}: {line.replace(model, name)}"
        raise ModelNotLoaded(f"{variable(setting)}={name} cannot be loaded: {reason}") from error


def _is_out_of_domain(setting: str, model: str, generation: EngineConfig) -> bool:
    """Whether an embedded pair model is to compare another language model's answers.

    The log says how to change that.
    """
    if model != "embedded" or generation.model in LANGUAGE_MODELS:
        return False
    logger.warning(
        "%s: the embedded pair model knows the answers of the embedded language models only, and "
        "compares those of another one here: set it to a model that knows them",
        variable(setting),
    )
    return True


def _load_probes(
    config: ProbeConfig, generation: EngineConfig, engine: EngineInfo
) -> Mapping[str, Probe]:
    """By the statistic that each predicts.

    "auto" is the embedded probe, beside the embedded language model that it was trained for only.
    """
    is_theirs = is_embedded(generation) and generation.model == "embedded"
    folders = {
        "consistency": ("probes.consistency", config.consistency),
        "semantic_entropy": ("probes.high_semantic_entropy", config.high_semantic_entropy),
    }
    probes: dict[str, Probe] = {}
    for target, (setting, folder) in folders.items():
        if folder == "auto":
            folder = str(PROBES_DIR / target) if is_theirs else ""
        if folder:
            with _loading(setting, folder):
                probe: Probe = resolve(_PROBE).load(
                    Path(folder),
                    target=target,
                    model_id=engine.model_id,
                    revision=engine.revision,
                    dimension=engine.hidden_size,
                    num_layers=engine.num_layers,
                )
                if probe.token_features and not engine.statistics >= STATISTICS_READ:
                    raise ProbeMismatch(
                        f"the probe reads {', '.join(probe.token_features)} of an answer, "
                        f"for which {generation.engine} lacks statistics"
                    )
            probes[probe.statistic] = probe
    return probes


def _thread(name: str, threads: int) -> ModelThread:
    return ModelThread(name, _limit_threads, (threads,))


def _limit_threads(threads: int) -> None:
    if torch := sys.modules.get("torch"):  # where no loaded model needs it, neither does its thread
        torch.set_num_threads(threads)
