"""The generation worker: one engine, its loop and warm-up, and probes of its hidden states."""

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from models.engines.protocol import Engine
from models.probes.protocol import Probe
from models.records import (
    PROBE_STATISTICS,
    Generation,
    GenerationRequest,
    OnToken,
    ProbeReading,
    SamplingParams,
)


class GenerationWorker:
    """Around one `Engine`; the engine's own loop batches its requests.

    Attributes:
        probes: by name of the statistic that each predicts.
        statistics: what engine and probes can supply.

    Args:
        engine: answers.
        probes: read the hidden states of its answers.
        probe_thread: a one-thread executor, where they do.
    """

    def __init__(
        self,
        engine: Engine,
        probes: Mapping[str, Probe] | None = None,
        probe_thread: ThreadPoolExecutor | None = None,
    ) -> None:
        self.engine = engine
        self.probes = dict(probes or {})
        self._probe_thread = probe_thread

    @property
    def statistics(self) -> frozenset[str]:
        """Of the engine, and of the probes where the engine shows its hidden states."""
        return self.engine.statistics | self.probes.keys()

    @property
    def probe_sha256(self) -> tuple[str, ...]:
        """Which probes' weights speak, for cache keys."""
        return tuple(sorted(probe.sha256 for probe in self.probes.values()))

    @property
    def busy_since(self) -> float | None:
        """See `Engine.busy_since`."""
        return self.engine.busy_since

    async def run(self) -> None:
        """The engine's loop, for the supervisor to watch."""
        await self.engine.run()

    async def warm_up(self) -> None:
        """One short request with every statistic.

        It spares clients the cost of first-call initialisation.
        """
        sampling = SamplingParams(num_samples=2, max_new_tokens=4, seed=0)
        await self.generate(
            GenerationRequest(prompt="Hello", sampling=sampling, statistics=self.statistics)
        )

    async def generate(
        self, request: GenerationRequest, on_token: OnToken | None = None
    ) -> Generation:
        """See `Engine.generate`; hidden states are read here and go no further."""
        wanted = {name: probe for name, probe in self.probes.items() if name in request.statistics}
        if not wanted:
            return await self.engine.generate(request, on_token)
        layers = tuple(sorted({probe.layer for probe in wanted.values()}))
        asked = replace(
            request, statistics=request.statistics - PROBE_STATISTICS, hidden_layers=layers
        )
        generation = await self.engine.generate(asked, on_token)
        readings = await asyncio.get_running_loop().run_in_executor(
            self._probe_thread, _read, wanted, layers, generation
        )
        return replace(
            generation,
            answer_hidden_mean=None,
            probe_readings=readings,
            warnings=(*generation.warnings, *_warnings(generation, readings)),
        )

    async def close(self) -> None:
        """End the loop and free the model."""
        await self.engine.close()
        if self._probe_thread is not None:
            self._probe_thread.shutdown(wait=False)


def _read(
    probes: Mapping[str, Probe], layers: tuple[int, ...], generation: Generation
) -> dict[str, ProbeReading]:
    means = generation.answer_hidden_mean
    if means is None:
        raise ValueError("the engine gave no hidden states")
    return {
        name: probe.read(means[[layers.index(probe.layer)]])[0] for name, probe in probes.items()
    }


def _warnings(generation: Generation, readings: Mapping[str, ProbeReading]) -> list[str]:
    """A one-token answer has no step of its own: its probe reads the prompt's last state."""
    flags = {
        "one_token_answer": len(generation.answer.token_ids) == 1,
        "out_of_domain": any(reading.out_of_domain for reading in readings.values()),
    }
    return [code for code, flag in flags.items() if flag]
