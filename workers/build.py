"""From configuration to workers: those of this process are loaded, the others connected."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from functools import partial

from models.errors import ModelNotLoaded
from workers.config import ADAPTERS, LanguageModel, Role, WorkerConfig, refuse_changes, variable
from workers.hooks import Hooks
from workers.loading import (
    check_name,
    check_settings,
    default_similarity,
    load_generator,
    load_similarity_scorers,
    resolve,
)
from workers.protocol import Generator, NliScorer, Served, SimilarityScorer, Worker, Workers

logger = logging.getLogger(__name__)


async def build_workers(
    config: WorkerConfig, hooks: Hooks | None = None, generator: Generator | None = None
) -> Workers:
    """All workers of a deployment; waits for as long as no server answers at a url.

    Raises:
        ModelNotLoaded: settings that exclude each other, or a model that cannot be loaded; names
            variable, reason and remedy.
    """
    hooks = hooks or Hooks()
    generation, similarity = config.generation.checked(), config.similarity.checked()
    loaded_here: set[Role] = set()
    if generator is None and not generation.url:
        loaded_here.add("generation")
    if not similarity.url or similarity.api != "cocoa":  # ours hold all that there is
        loaded_here.add("similarity")
    language_model = LanguageModel.of(config.generation)
    if generator is None:
        generator = await connect_generator(config, hooks)
    if generator is not None:
        language_model = LanguageModel.of_id(generator.info.model_id)
    similarity_scorers, nli = await connect_similarity_scorers(config, hooks, language_model)
    await asyncio.to_thread(check_settings, config, language_model, loaded_here)
    if generator is None:
        generator = await asyncio.to_thread(load_generator, config, hooks)
    if "similarity" in loaded_here:
        load = partial(load_similarity_scorers, config, hooks, language_model)
        similarity_scorers, nli = await asyncio.to_thread(load, similarity_scorers, generator)
    default = default_similarity(config.similarity, language_model, similarity_scorers)
    check_name("similarity.name", default, sorted(similarity_scorers))
    if default != config.similarity.name and default == "added":
        logger.info(
            "answers are compared by the words that they add to their question, since the embedded"
            " similarity model does not know those of this language model; %s takes a"
            " cross-encoder, such as cross-encoder/stsb-roberta-large, or BAAI/bge-reranker-v2-m3"
            " for many languages",
            variable("similarity.model"),
        )
    given = default
    if config.similarity.name == "auto" and similarity_scorers[default].info.is_embedded:
        given = "added"  # what came with a request no embedded language model has said
    return Workers(
        generator=generator,
        similarity_scorers=similarity_scorers,
        nli=nli,
        default_similarity=default,
        similarity_of_given=given,
    )


def load_served(role: Role, config: WorkerConfig, hooks: Hooks) -> Served:
    """The workers that a worker process serves; blocks. Raises as `build_workers` does."""
    group = config.generation if role == "generation" else config.similarity
    if group.url:
        raise ModelNotLoaded(f"{variable(f'{role}.url')} is for gateways; a worker loads its model")
    language_model = LanguageModel.of(config.generation)
    check_settings(config, language_model, {role})
    if role == "generation":
        return Served(generator=load_generator(config, hooks))
    similarity_scorers, nli = load_similarity_scorers(config, hooks, language_model)
    return Served(similarity_scorers=similarity_scorers, nli=nli)


async def connect(role: Role, config: WorkerConfig, hooks: Hooks) -> Sequence[Worker]:
    """The workers of this role in another process, once it answers; see `build_workers`."""
    if role == "generation":
        generator = await connect_generator(config, hooks)
        return list(filter(None, [generator]))
    language_model = LanguageModel.of(config.generation)
    similarity_scorers, _ = await connect_similarity_scorers(config, hooks, language_model)
    return list(similarity_scorers.values())


async def connect_generator(config: WorkerConfig, hooks: Hooks) -> Generator | None:
    """The generator that another process holds, once it answers; None where this one loads it."""
    generation = config.generation.checked()
    if not generation.url:
        return None
    # Clients of servers are imported only where a deployment has such servers.
    if generation.api != "cocoa":
        if generation.api not in ADAPTERS:
            named = f"{variable('generation.api')} is '{generation.api}'"
            raise ModelNotLoaded(f"{named}, and no installed plugin speaks it (docs/plugins.md)")
        connect = resolve(ADAPTERS[generation.api])
        adapter: Generator = await connect(generation, hooks, config.probes)
        return adapter
    refuse_changes("probes", config.probes, "generation")
    connect = resolve("workers.remote.worker:connect_generator")
    ours: Generator = await connect(generation, hooks)
    return ours


async def connect_similarity_scorers(
    config: WorkerConfig, hooks: Hooks, language_model: LanguageModel
) -> tuple[Mapping[str, SimilarityScorer], NliScorer | None]:
    """The similarity scorers of another process, with its NLI model; none where no url is set."""
    similarity = config.similarity.checked()
    if not similarity.url:
        return {}, None
    connect = resolve("workers.remote.pair_servers:connect_similarity_scorers")
    if similarity.api == "cocoa":
        refuse_changes("nli", config.nli, "similarity")
        connect = resolve("workers.remote.worker:connect_similarity_scorers")
    connected: tuple[Mapping[str, SimilarityScorer], NliScorer | None]
    connected = await connect(similarity, hooks, language_model)
    return connected
