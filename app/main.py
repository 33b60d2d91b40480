"""The application: `create_app(settings)` builds everything, the lifespan owns it."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from fastapi import FastAPI
from fastapi_offline import FastAPIOffline
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import BaseRoute

from app.cache.memory import make_cache
from app.cache.protocol import Cache
from app.http.document import add_document
from app.http.errors import add_error_handlers
from app.http.hooks import hooks_of
from app.http.middleware import Gate, add_middleware
from app.http.openai import routes as openai
from app.http.repeats import Repeats
from app.http.routes import answers, ops
from app.http.service import Service
from app.http.telemetry import Telemetry
from app.installed import hand_over, installed
from app.plugin import Gateway, Plugin, PluginInvalid
from app.revision import git_revision
from app.scoring.calibrators import load_calibrator
from app.scoring.deployment import models_of
from app.scoring.memory import Memory
from app.scoring.scorer import Policy, Scorer
from app.settings import Settings, completed
from models.errors import ModelNotLoaded
from models.estimators import known_estimators
from workers.admission import Admission
from workers.build import build_workers
from workers.hooks import Hooks
from workers.supervision import Supervisor

logger = logging.getLogger(__name__)


def create_app(
    settings: Settings,
    on_death: Callable[[], None] | None = None,
    plugins: Sequence[Plugin] | None = None,
    *,
    is_guarded: bool = True,
) -> FastAPI:
    """The service. Models load in the background while `/readyz` answers 503.

    Where a model cannot be loaded, or its loop dies or hangs, `on_death` is called; by default the
    process sends SIGTERM to itself. By default it has all plugins that are installed.
    Where it is not guarded, whoever reaches it needs no key.

    Raises:
        PluginInvalid: a plugin cannot be used, or serves or sets what others do.
    """
    if plugins is None:
        plugins = installed()
    hand_over(plugins)
    settings = completed(settings, tuple(plugins))
    telemetry = Telemetry()
    cache = make_cache(settings.cache, telemetry.set_breaker)
    supervisor = Supervisor(on_death, settings.stall_s)
    service = Service(settings, supervisor, telemetry)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with gateway.running():
            service.git_revision = await asyncio.to_thread(git_revision, settings.git_revision)
            hooks = replace(hooks_of(telemetry, gateway.headers), on_server=service.set_server)
            starting = _start(service, settings, hooks, cache, gateway.starts)
            tasks = [asyncio.create_task(supervisor.attend(starting))]
            if cache is not None:
                tasks.append(asyncio.create_task(cache.run()))
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                await supervisor.stop()
                app.state.body_thread.shutdown(wait=False)
                if service.scorer is not None:
                    for thread in service.scorer.threads.values():
                        thread.shutdown(wait=False)

    app = FastAPIOffline(
        title="cocoa-serve",
        version=version("cocoa-serve"),
        lifespan=lifespan,
        generate_unique_id_function=lambda route: route.name,  # the operation's name in clients
        redirect_slashes=False,  # a redirect would go to the host of the client's header
        telemetry={"tracing": False, "metrics": False, "logs": False},  # `app.http` has both
    )
    app.state.settings, app.state.service = settings, service
    app.state.is_draining, app.state.repeats = False, Repeats(service)
    app.state.body_thread = ThreadPoolExecutor(1, "bodies")
    gateway = Gateway(app, settings, is_guarded)
    for plugin in plugins:
        plugin.install(gateway)
    telemetry.add_counters(gateway.counters)
    access = service.access = gateway.access
    service.around, service.reads_texts = gateway.around, gateway.reads_texts
    endpoints: list[BaseRoute] = []
    for router in (answers.router, openai.router, ops.router, *gateway.routers):
        app.include_router(router)
        endpoints += router.routes
    _check_paths(endpoints)
    app.state.endpoints = endpoints
    add_error_handlers(app, telemetry)
    add_document(app, gateway.bodies, needs_keys=access is not None)
    gate = Gate.of(settings, access, gateway.open_paths, gateway.free_paths)
    add_middleware(app, telemetry, settings.limits, gate, endpoints)
    for around in gateway.middleware:
        app.user_middleware.insert(0, around)
    if settings.cors_origins:
        # Outermost: a browser's preflight has no key, and pages can read refusals, too.
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.cors_origins,
            allow_methods=["GET", "POST"],
            allow_headers=["*"],
            expose_headers=["X-Request-ID", "Retry-After"],
        )
    telemetry.read_gauges(
        ready=lambda: service.supervisor.state == "ready",
        admitted_requests=lambda: service.scorer.admission.num_admitted if service.scorer else 0,
        waiting_requests=lambda: service.scorer.num_waiting if service.scorer else 0,
    )
    telemetry.gauges["admission_limit_requests"].set(settings.generation.admission_limit)
    return app


async def _start(
    service: Service,
    settings: Settings,
    hooks: Hooks,
    cache: Cache | None,
    starts: Sequence[Callable[[], Awaitable[None]]],
) -> None:
    telemetry = service.telemetry
    for start in starts:
        await start()
    _check_calibrator(settings.calibrator)
    known_estimators()  # those of plugins are imported now, and for no request
    workers = await build_workers(settings.workers, hooks)
    admission = Admission(settings.generation.admission_limit, settings.limits.max_concurrent_items)
    if service.access is not None:
        shared_rows = service.access.shared_rows
        admission.take_turns(max(settings.generation.max_rows, shared_rows), shared_rows)
    calibrator = load_calibrator(settings.calibrator, models_of(workers))
    rejects_foreign = settings.prompt_out_of_domain == "reject"
    merges, leaves_out = settings.merge_system, settings.leave_out_tools
    policy = Policy(settings.limits, calibrator, rejects_foreign, merges, leaves_out)
    memory = None if cache is None else Memory(cache, telemetry)
    service.scorer = Scorer(workers, admission, memory, policy, telemetry)
    await service.supervisor.start(workers.by_name(), service.scorer.watched)
    for setting, reason in service.unmet().items():
        logger.warning("%s is set, and cannot be had: %s", setting, reason)
    for detail in service.scorer.passing_nothing():
        logger.info("by the calibrator %s", detail)
    names = ", ".join(sorted(workers.by_name()))
    info = workers.generator.info
    logger.info("ready: %s%s, %s", info.model_id, info.dtype and f" in {info.dtype}", names)


def _check_paths(routes: Sequence[BaseRoute]) -> None:
    """Refuse a plugin that serves what another one or the service itself does."""
    paths: set[str] = set()
    for route in routes:
        path: str = route.path  # type: ignore[attr-defined]
        if path in paths:
            raise PluginInvalid(f"a plugin serves {path}, as another one or the service does")
        paths.add(path)


def _check_calibrator(setting: str) -> None:
    """Refuse a path without a file before models are loaded, which may take minutes."""
    path = Path(setting)
    if setting not in ("", "auto") and not path.is_file():
        raise ModelNotLoaded(f"COCOA_CALIBRATOR: no such file: {path.absolute()}")
