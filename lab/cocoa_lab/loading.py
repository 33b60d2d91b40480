"""The scoring core for an offline command: over the models that serve, without probes."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from app.cache.memory import MemoryCache
from app.cache.protocol import CacheConfig
from app.scoring.memory import Memory
from app.scoring.observer import Observer
from app.scoring.scorer import Scorer
from app.settings import Settings
from cocoa_lab.quality import Support
from cocoa_lab.running import MAX_IN_FLIGHT
from models.errors import NotReady
from models.probes.protocol import ProbeConfig
from models.records import Generation, GenerationRequest, OnToken, Pair
from workers.admission import Admission
from workers.build import build_workers
from workers.protocol import FirstTokenReply, Generator, GeneratorInfo, Workers
from workers.supervision import running_workers

# What samples show is stored; probes are compared with it by `cocoa probe evaluate`.
_NO_PROBES = ProbeConfig("", "")


class RecordedGenerator:
    """A model whose generations are recorded: it says what it is, and generates nothing more."""

    busy_since = None
    num_waiting = 0

    def __init__(self, info: GeneratorInfo) -> None:
        self.info = info
        self._closed = asyncio.Event()

    async def run(self) -> None:
        await self._closed.wait()

    async def warm_up(self) -> None:
        pass

    async def close(self) -> None:
        self._closed.set()

    async def generate(
        self, request: GenerationRequest, on_token: OnToken | None = None
    ) -> Generation:
        raise NotReady(f"{self.info.model_id} is not loaded")

    async def first_token_logprobs(
        self, request: GenerationRequest, groups: Sequence[Sequence[str]]
    ) -> FirstTokenReply:
        raise NotReady(f"{self.info.model_id} is not loaded")


_: type[Generator] = RecordedGenerator  # mypy holds the class to its protocol


@asynccontextmanager
async def lab_scorer(
    settings: Settings, generator: Generator | None = None
) -> AsyncIterator[Scorer]:
    """A scorer whose workers run while the context is open; it remembers pairs for so long.

    Args:
        settings: of the models, as they serve.
        generator: in place of the language model, which is then not loaded.
    """
    config = settings.workers
    if generator is not None or not settings.generation.urls:
        config = replace(config, probes=_NO_PROBES)  # a worker elsewhere has its probes anyway
    config = replace(config, calibrator="")
    async with running_workers(build_workers(config, generator=generator)) as workers:
        memory = Memory(MemoryCache(CacheConfig()), Observer())
        yield Scorer(workers, Admission(MAX_IN_FLIGHT), memory)


def support_of(workers: Workers) -> Support | None:
    """How far texts support each other, by AlignScore's scheme; None without an NLI model."""
    if "align" not in workers.comparers:
        return None
    comparer = workers.comparers["align"]

    async def support(pairs: Sequence[Pair]) -> list[float]:
        reply = await comparer.compare(pairs)
        return [reply.scores[pair][0][0] for pair in pairs]  # the only value of each score

    return support
