"""From configuration to workers: those of this process are loaded, the others connected."""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from models.engines.protocol import EngineConfig
from models.errors import ModelNotLoaded
from models.probes.protocol import ProbeConfig
from models.similarity.protocol import NliConfig, SimilarityConfig
from workers.config import Beside, Role, UpstreamConfig, WorkerConfig, variable
from workers.hooks import Hooks
from workers.loading import (
    check_checkpoints,
    check_names,
    load_comparers,
    load_generator,
    resolve,
)
from workers.protocol import Comparer, Generator, Workers
from workers.server import Served

# What answers at a url, by `GeneratorConfig.api` and `ComparerConfig.api`.
_CONNECT = {
    ("generation", "cocoa"): "workers.remote:connect_generator",
    ("generation", "openai"): "workers.openai.generator:connect_generator",
    ("similarity", "cocoa"): "workers.remote:connect_comparers",
    ("similarity", "vllm"): "workers.scorers:connect_comparers",
    ("similarity", "tei"): "workers.scorers:connect_comparers",
}
# What is heeded beside a url; the other settings of a model are for whoever loads it.
_HEEDED = {
    ("generation", "cocoa"): {"admission_limit"},
    ("generation", "openai"): {"admission_limit", "model"},
    ("similarity", "cocoa"): {"name"},
    ("similarity", "vllm"): {"name", "model", "strip", "exact_match", "max_batch_pairs"},
    ("similarity", "tei"): {"name", "strip", "exact_match", "max_batch_pairs"},
}


async def build_workers(config: WorkerConfig, hooks: Hooks | None = None) -> Workers:
    """All workers of a deployment; waits for as long as no server answers at a url.

    Args:
        config: which models, and where they are.
        hooks: what the workers are tied to.

    Raises:
        ModelNotLoaded: settings that exclude each other, or a model that cannot be loaded; names
            variable, reason and remedy.
    """
    hooks = hooks or Hooks()
    _check_urls(config)
    generation, similarity = config.generation, config.similarity
    generator: Generator | None = None
    comparers: Mapping[str, Comparer] = {}
    nli: Comparer | None = None
    beside = Beside.of(generation)
    if generation.urls:
        connect = resolve(_CONNECT["generation", generation.api])
        connected: Generator = await connect(config, hooks)
        generator, beside = connected, Beside.of_id(connected.info.model_id)
    if similarity.urls:
        connect = resolve(_CONNECT["similarity", similarity.api])
        comparers, nli = await connect(config, hooks, beside)
    return await asyncio.to_thread(_completed, config, hooks, generator, comparers, nli, beside)


def load_workers(config: WorkerConfig, hooks: Hooks | None = None) -> Workers:
    """All workers, every model in this process; blocks. Raises as `build_workers` does."""
    beside = Beside.of(config.generation)
    return _completed(config, hooks or Hooks(), None, {}, None, beside)


def load_served(role: Role, config: WorkerConfig, hooks: Hooks) -> Served:
    """What a worker process serves; blocks. Raises as `build_workers` does."""
    group = config.generation if role == "generation" else config.similarity
    if group.urls:
        raise ModelNotLoaded(f"{variable(f'{role}.url')} is for gateways; a worker loads its model")
    beside = Beside.of(config.generation)
    check_names(config, beside, {role})
    check_checkpoints(config, beside, {role})
    threads = _num_cores()
    if role == "generation":
        return Served(generator=load_generator(config, hooks, threads=threads))
    comparers, nli = load_comparers(config, hooks, threads=threads, beside=beside)
    return Served(comparers=comparers, nli=nli)


def _completed(
    config: WorkerConfig,
    hooks: Hooks,
    generator: Generator | None,
    comparers: Mapping[str, Comparer],
    nli: Comparer | None,
    beside: Beside,
) -> Workers:
    """The workers that are connected, and those that are missing, loaded."""
    here: set[Role] = set()
    if generator is None:
        here.add("generation")
    if not comparers or config.similarity.api != "cocoa":  # ours hold all that there is
        here.add("similarity")
    check_names(config, beside, here)
    check_checkpoints(config, beside, here)
    threads = max(1, _num_cores() // max(1, len(here)))  # two full pools slow each other
    if generator is None:
        generator = load_generator(config, hooks, threads=threads)
    if "similarity" in here:
        comparers, nli = load_comparers(
            config, hooks, threads=threads, beside=beside, given=comparers
        )
    default = config.similarity.name
    if default not in comparers:
        known = ", ".join(sorted(comparers))
        name = variable("similarity.name")
        raise ModelNotLoaded(f"{name} is {default!r}, and must be one of {known}")
    return Workers(generator=generator, comparers=comparers, default_similarity=default, nli=nli)


def _num_cores() -> int:
    return len(os.sched_getaffinity(0))


def _check_urls(config: WorkerConfig) -> None:
    """Refuse settings of models that another process loads, and of servers where there is no url.

    Raises:
        ModelNotLoaded: such a setting is there.
    """
    generation, similarity = config.generation, config.similarity
    if generation.urls and generation.api == "cocoa":
        _check_left_out("probes", config.probes, ProbeConfig, set(), "generation")
        if generation.max_request_tokens:
            message = "is heeded with COCOA_GENERATION__API=openai only"
            raise ModelNotLoaded(f"{variable('generation.max_request_tokens')} {message}")
    if similarity.urls and similarity.api == "cocoa":
        _check_left_out("nli", config.nli, NliConfig, set(), "similarity")
    _check_group("generation", generation, EngineConfig, generation.api)
    _check_group("similarity", similarity, SimilarityConfig, similarity.api)


def _check_group(
    role: Role, group: UpstreamConfig, of_model: type[EngineConfig | SimilarityConfig], api: str
) -> None:
    for url in group.urls:
        if not url.startswith(("http://", "https://")):
            message = "must begin with http:// or https://"
            raise ModelNotLoaded(f"{variable(f'{role}.url')} {message}")
    if group.urls:
        _check_left_out(role, group, of_model, _HEEDED[role, api], role)
        return
    names = [one.name for one in fields(type(group)) if not hasattr(of_model(), one.name)]
    for name in names:
        if getattr(group, name) != getattr(type(group)(), name):
            message = f"is heeded with {variable(f'{role}.url')} only"
            raise ModelNotLoaded(f"{variable(f'{role}.{name}')} {message}")


def _check_left_out(
    group: str, config: Any, of_model: type[Any], heeded: set[str], role: Role
) -> None:
    default = of_model()
    for one in fields(of_model):
        if one.name not in heeded and getattr(config, one.name) != getattr(default, one.name):
            setting, url = variable(f"{group}.{one.name}"), variable(f"{role}.url")
            raise ModelNotLoaded(f"{setting} is for the process that loads the model; {url} is set")
