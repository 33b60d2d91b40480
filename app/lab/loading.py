"""Models for an offline command: those that serve, without probes."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

from app.lab.quality import Support
from app.settings import Settings
from models.probes.protocol import ProbeConfig
from models.records import Pair
from workers.build import Workers, load_workers, nli_checkpoint
from workers.in_process import running_workers

# What samples show is stored; probes are compared with it by `cocoa probe evaluate`.
_NO_PROBES = ProbeConfig("", "")


def lab_workers(
    settings: Settings, *, generates: bool = True
) -> AbstractAsyncContextManager[Workers]:
    """Workers that run while the context is open.

    generates: whether a language model is needed; without, the fake one stands in.
    """
    return running_workers(lambda: _load(settings, generates))


def support_of(workers: Workers) -> Support | None:
    """How far texts support each other, by AlignScore's scheme; None without an NLI model."""
    if "align" not in workers.similarity:
        return None
    worker = workers.similarity["align"]

    async def support(pairs: Sequence[Pair]) -> list[float]:
        scored = await worker.scores(pairs)
        return [scored[pair][0][0] for pair in pairs]  # of values and truncation the only value

    return support


def _load(settings: Settings, generates: bool) -> Workers:
    generation, nli = settings.generation, settings.nli
    if not generates:
        nli = replace(nli, model=nli_checkpoint(nli, generation))
        generation = replace(generation, engine="fake")
    return load_workers(
        generation, settings.similarity, nli, _NO_PROBES, on_step=_ignore, on_batch=_ignore
    )


def _ignore(size: int) -> None:
    """Nobody watches the sizes of batches here."""
