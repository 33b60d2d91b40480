"""The generation worker: one engine, its loop and its warm-up."""

from models.engines.protocol import Engine
from models.records import Generation, GenerationRequest, OnToken, SamplingParams


class GenerationWorker:
    """Around one `Engine`; the engine's own loop batches its requests."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    @property
    def probe_sha256(self) -> tuple[str, ...]:
        """Which probes' weights spoke, for cache keys."""
        return ()

    async def run(self) -> None:
        """The engine's loop, for the supervisor to watch."""
        await self.engine.run()

    async def warm_up(self) -> None:
        """One short request with every statistic, so that no client pays for first-call initialisation."""
        sampling = SamplingParams(num_samples=2, max_new_tokens=4, seed=0)
        await self.generate(GenerationRequest(prompt="Hello", sampling=sampling, statistics=self.engine.statistics))

    async def generate(self, request: GenerationRequest, on_token: OnToken | None = None) -> Generation:
        """See `Engine.generate`."""
        return await self.engine.generate(request, on_token)

    async def close(self) -> None:
        """End the loop and free the model."""
        await self.engine.close()
