"""The application: `create_app(settings)` builds everything, the lifespan owns it."""

import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version

from fastapi import FastAPI

from app.cache.build import make_cache
from app.errors import add_error_handlers
from app.middleware import RequestMiddleware
from app.pipeline import Pipeline
from app.routes import generate, ops, score
from app.settings import Settings
from app.telemetry import Telemetry
from workers.admission import Admission
from workers.build import load_workers
from workers.supervision import Supervisor

logger = logging.getLogger(__name__)


def create_app(settings: Settings, on_death: Callable[[], None] | None = None) -> FastAPI:
    """The service. Models load in the background while `/readyz` answers 503.

    Args:
        settings: of this deployment.
        on_death: called when a model cannot be loaded, or its loop dies or hangs; by default the
            process asks itself to end.
    """
    telemetry = Telemetry()
    cache = make_cache(settings.cache, telemetry.set_breaker)
    pipeline = Pipeline(
        Supervisor(on_death or _end_process, settings.stall_s),
        Admission(settings.generation.admission_limit),
        telemetry,
        cache,
    )

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(_start(pipeline, settings, telemetry))]
        tasks += [asyncio.create_task(cache.run())] if cache is not None else []
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await pipeline.supervisor.stop()
            if pipeline.workers is not None:
                pipeline.workers.pair_thread.shutdown(wait=False)

    app = FastAPI(title="cocoa-serve", version=version("cocoa-serve"), lifespan=lifespan)
    app.state.settings, app.state.telemetry, app.state.pipeline = settings, telemetry, pipeline
    app.include_router(generate.router)
    app.include_router(score.router)
    app.include_router(ops.router)
    add_error_handlers(app, telemetry)
    app.add_middleware(
        RequestMiddleware, telemetry=telemetry, max_body_bytes=settings.limits.max_body_bytes
    )
    telemetry.read_gauges(
        ready=lambda: pipeline.supervisor.state == "ready",
        admitted=lambda: pipeline.admission.num_admitted,
        waiting=lambda: pipeline.workers.generation.engine.num_waiting if pipeline.workers else 0,
    )
    telemetry.admission_limit.set(settings.generation.admission_limit)
    return app


async def _start(pipeline: Pipeline, settings: Settings, telemetry: Telemetry) -> None:
    try:
        workers = await asyncio.to_thread(
            load_workers,
            settings.generation,
            settings.similarity,
            settings.nli,
            settings.probes,
            on_step=telemetry.observe_step,
            on_batch=telemetry.observe_batch,
        )
        pipeline.use(workers, settings)
        await pipeline.supervisor.start(workers.by_name())
        logger.info(
            "ready: %s, %s",
            workers.generation.engine.model_id,
            ", ".join(sorted(workers.by_name())),
        )
    except Exception as error:
        logger.critical(
            "start-up failed: %s", error
        )  # there is no prompt yet that the text could quote
        pipeline.supervisor.die("start-up", error)


def _end_process() -> None:
    os.kill(os.getpid(), signal.SIGTERM)
