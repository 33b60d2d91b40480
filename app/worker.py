"""A worker process: `create_worker_app(role, settings)` serves one kind of model over the wire."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from app.http.hooks import hooks_of
from app.http.logs import described
from app.http.middleware import Gate, add_middleware
from app.http.telemetry import Telemetry
from app.installed import hand_over, installed
from app.plugin import Gateway
from app.settings import Settings
from workers.build import load_served
from workers.config import Role
from workers.hooks import Hooks
from workers.protocol import Served
from workers.remote.server import HeadCheck, not_ready, routes
from workers.supervision import Supervisor

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class WorkerService:
    """What stands behind the routes."""

    supervisor: Supervisor
    telemetry: Telemetry
    served: Served | None = None

    def ready(self) -> Served | None:
        if self.supervisor.state != "ready":
            return None
        return self.served

    def num_waiting(self) -> int:
        """Requests of which nothing has been computed yet."""
        if self.served is None or self.served.generator is None:
            return 0
        return self.served.generator.num_waiting


def create_worker_app(role: Role, settings: Settings, on_death: Callable[[], None]) -> Starlette:
    """One worker. Its model loads in the background while `/readyz` answers 503.

    Where the model cannot be loaded, or its loop dies or hangs, `on_death` is called.

    Raises:
        ModelNotLoaded: its secret cannot be read.
    """
    telemetry = Telemetry(role)
    service = WorkerService(Supervisor(on_death, settings.stall_s), telemetry)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with gateway.running():
            hooks = hooks_of(telemetry, gateway.headers)
            starting = _start(service, role, settings, hooks)
            task = asyncio.create_task(service.supervisor.attend(starting))
            try:
                yield
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                await service.supervisor.stop()

    operation = [
        Route("/livez", _livez, methods=["GET"]),
        Route("/readyz", _readyz, methods=["GET"]),
        Route("/metrics", _metrics, methods=["GET"]),
    ]
    secrets = settings.worker.keys("worker")
    served = [*routes(service.ready, _log_defect), *operation]
    app = Starlette(routes=served, lifespan=lifespan)
    gateway = Gateway(app, settings)
    hand_over(installed())
    for plugin in installed():
        if plugin.in_workers:
            plugin.install(gateway)
    app.state.settings, app.state.service = settings, service
    limits = replace(settings.limits, max_body_bytes=settings.worker.max_body_bytes)
    add_middleware(app, telemetry, limits, Gate())
    app.user_middleware.insert(-1, Middleware(HeadCheck, secrets=secrets))  # around `BodyLimit`
    for around in gateway.middleware:
        app.user_middleware.insert(0, around)
    telemetry.read_gauges(ready=lambda: service.supervisor.state == "ready")
    if role == "generation":
        telemetry.read_gauges(waiting_requests=service.num_waiting)
    return app


async def _start(service: WorkerService, role: Role, settings: Settings, hooks: Hooks) -> None:
    service.served = await asyncio.to_thread(load_served, role, settings.workers, hooks)
    workers = service.served.by_name()
    service.telemetry.set_models(workers)
    await service.supervisor.start(workers)
    logger.info("ready: %s worker, %s", role, ", ".join(sorted(workers)))


async def _livez(request: Request) -> Response:
    service: WorkerService = request.app.state.service
    if service.supervisor.state == "dead":
        return not_ready("a model loop has died")
    return JSONResponse({"status": "alive"})


async def _readyz(request: Request) -> Response:
    service: WorkerService = request.app.state.service
    if (served := service.ready()) is None:
        return not_ready()
    role = "similarity" if served.generator is None else "generation"
    return JSONResponse({"status": "ready", "worker": role})


async def _metrics(request: Request) -> Response:
    service: WorkerService = request.app.state.service
    return Response(service.telemetry.exposition(), media_type=CONTENT_TYPE_LATEST)


def _log_defect(error: Exception) -> None:
    logger.error("a call failed: %s", described(error))
