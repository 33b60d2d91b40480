"""The scoring core for an offline command, over the models that serve."""

from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import replace

from app.cache.memory import MemoryCache
from app.cache.protocol import CacheConfig
from app.installed import hand_over, installed
from app.scoring.memory import Memory
from app.scoring.observer import Observer
from app.scoring.scorer import Scorer
from app.settings import Settings
from cocoa_lab.alignment import Support, support_by
from cocoa_lab.running import MAX_IN_FLIGHT
from models.probes.protocol import ProbeConfig
from workers.admission import Admission
from workers.build import build_workers
from workers.protocol import Generator, Workers
from workers.supervision import Supervisor

# Beside a collection: probes are compared with what samples show by `cocoa probe evaluate`.
_NO_PROBES = ProbeConfig("", "")


@asynccontextmanager
async def lab_scorer(
    settings: Settings, generator: Generator | None = None, *, has_probes: bool = False
) -> AsyncIterator[Scorer]:
    """A scorer whose workers run while the context is open; it remembers pairs for so long.

    Args:
        settings: of the models, as they serve.
        generator: in place of the language model, which is then not loaded.
        has_probes: whether its probes read the answers; a worker elsewhere has them anyway.
    """
    hand_over(installed())  # commands did so already, modules that run alone did not
    config = settings.workers
    if generator is not None or not (has_probes or settings.generation.url):
        config = replace(config, probes=_NO_PROBES)
    config = replace(config, calibrator="")
    async with running_workers(build_workers(config, generator=generator)) as workers:
        memory = Memory(MemoryCache(CacheConfig()), Observer())
        yield Scorer(workers, Admission(MAX_IN_FLIGHT), memory)


@asynccontextmanager
async def running_workers(building: Awaitable[Workers]) -> AsyncIterator[Workers]:
    """Workers for a command: built, warm and watched, and ended with the context.

    Where a loop dies its waiters fail, and the command with them.
    """
    workers = await building
    supervisor = Supervisor(on_death=lambda: None)
    try:
        await supervisor.start(workers.by_name())
        yield workers
    finally:
        await supervisor.stop()


def support_of(workers: Workers) -> Support | None:
    """How far texts support each other, by AlignScore's scheme; None without an NLI model."""
    if workers.nli is None:
        return None
    return support_by(workers.nli)
