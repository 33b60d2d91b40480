"""From configuration to workers; the only reader of ENGINES and PAIR_MODELS."""

import logging
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from models.embedded import PROBES_DIR
from models.engines import ENGINES
from models.engines.protocol import Engine, EngineConfig, OnStep
from models.probes.protocol import Probe, ProbeConfig
from models.similarity import LEXICAL, PAIR_MODELS
from models.similarity.align import AlignModel
from models.similarity.entailment import EntailmentModel
from models.similarity.lexical import LexicalModel
from models.similarity.pairs import PairRules
from models.similarity.protocol import NliConfig, PairModel, SimilarityConfig
from models.threads import ModelThread
from workers.generation import GenerationWorker
from workers.similarity import SimilarityWorker
from workers.supervision import Worker

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Workers:
    """The workers of one process.

    Attributes:
        similarity: one a similarity function, by name.
        default_similarity: the one that serves where a request names none.
        nli: None where no NLI model is loaded.
        pair_thread: where all pair models run.
    """

    generation: GenerationWorker
    similarity: dict[str, SimilarityWorker]
    default_similarity: str
    nli: SimilarityWorker | None
    pair_thread: ModelThread

    def by_name(self) -> dict[str, Worker]:
        """All of them, for the supervisor."""
        named: dict[str, Worker] = {"generation": self.generation}
        named |= {f"similarity-{name}": worker for name, worker in self.similarity.items()}
        return named if self.nli is None else named | {"nli": self.nli}


def load_workers(
    generation: EngineConfig,
    similarity: SimilarityConfig,
    nli: NliConfig,
    probes: ProbeConfig,
    *,
    on_step: OnStep,
    on_batch: Callable[[int], None],
) -> Workers:
    """Load all models; blocks.

    Raises:
        KeyError: an engine, pair model or similarity function that is not in its table, or whose
            model is not loaded.
        ProbeMismatch: a probe that was trained for another model.
        Exception: whatever loading a checkpoint raises.
    """
    share = max(
        1, len(os.sched_getaffinity(0)) // 2
    )  # two full torch thread pools slow each other 2.3 times
    engine = _attribute(ENGINES[generation.engine]).load(
        replace(generation, threads=generation.threads or share), on_step
    )
    thread = _one_thread("similarity", similarity.threads or share)
    as_worker = partial(
        SimilarityWorker,
        rules=PairRules(similarity.strip, similarity.exact_match),
        thread=thread,
        max_batch_pairs=similarity.max_batch_pairs,
        on_batch=on_batch,
    )
    nli_model = _load_nli(nli, generation)
    models = _similarity_models(similarity, nli, nli_model)
    if similarity.model == "embedded" != generation.model and similarity.name == "cross_encoder":
        logger.warning(
            "the embedded cross-encoder knows the embedded language model's answers only: "
            "name another"
        )
    loaded = _load_probes(probes, generation, engine)
    return Workers(
        generation=GenerationWorker(engine, loaded, _one_thread("probe", 1) if loaded else None),
        similarity={name: as_worker(model) for name, model in models.items()},
        default_similarity=similarity.name,
        nli=as_worker(nli_model) if nli_model is not None else None,
        pair_thread=thread,
    )


def nli_checkpoint(config: NliConfig, generation: EngineConfig) -> str:
    """Which NLI model to load, "" for none.

    "auto" is the embedded one beside the embedded language model only.
    """
    if config.model != "auto":
        return config.model
    return "embedded" if is_embedded(generation) else ""


def _load_nli(config: NliConfig, generation: EngineConfig) -> PairModel | None:
    checkpoint = nli_checkpoint(config, generation)
    if not checkpoint:
        return None
    model: PairModel = _attribute(PAIR_MODELS[config.name]).load(replace(config, model=checkpoint))
    return model


def _similarity_models(
    config: SimilarityConfig, nli_config: NliConfig, nli: PairModel | None
) -> dict[str, PairModel]:
    """The default function, those without weights, and those that the NLI model gives."""
    models: dict[str, PairModel] = {
        name: LexicalModel(_attribute(path)) for name, path in LEXICAL.items()
    }
    if nli is not None:
        models |= {"nli": EntailmentModel(nli, nli_config.similarity), "align": AlignModel(nli)}
    if config.name not in models:
        models[config.name] = _attribute(PAIR_MODELS[config.name]).load(config)
    return models


def _load_probes(config: ProbeConfig, generation: EngineConfig, engine: Engine) -> dict[str, Probe]:
    """The probes by the statistic that each predicts.

    "auto" is the embedded one beside the embedded language model only.
    """
    probes: dict[str, Probe] = {}
    for name, folder in (
        ("consistency", config.consistency),
        ("semantic_entropy", config.high_semantic_entropy),
    ):
        if folder == "auto":
            folder = str(PROBES_DIR / name) if is_embedded(generation) else ""
        if folder:
            probe: Probe = _attribute("models.probes.probe:TrainedProbe").load(
                Path(folder),
                target=name,
                model_id=engine.model_id,
                revision=engine.revision,
                dimension=engine.hidden_size,
                num_layers=engine.num_layers,
            )
            probes[probe.statistic] = probe
    return probes


def is_embedded(generation: EngineConfig) -> bool:
    """Whether the language model is the one that ships with the project."""
    return (generation.engine, generation.model) == ("transformers", "embedded")


def _one_thread(name: str, threads: int) -> ModelThread:
    return ModelThread(name, _limit_threads, (threads,))


def _limit_threads(threads: int) -> None:
    if torch := sys.modules.get("torch"):  # where no loaded model needs it, neither does its thread
        torch.set_num_threads(threads)


def _attribute(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)
