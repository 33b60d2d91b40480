"""An application under uvicorn, from its address to the exit code of its process."""

import asyncio
import logging
import math
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NoReturn

import uvicorn
from starlette.applications import Starlette
from starlette.types import ASGIApp

from app.http.connections import BACKLOG, ConnectionLimits
from app.http.logs import set_up_logging
from app.http.middleware import at_ops_port
from app.http.telemetry import Telemetry
from app.plugin import PluginInvalid
from app.settings import Settings
from models.errors import ModelNotLoaded

logger = logging.getLogger(__name__)

_OPS_DRAIN_S = 1.0
# Given what to call on death.
MakeApp = Callable[[Callable[[], None]], Starlette]


def run(
    make_app: MakeApp, settings: Settings, *, ops_port: int | None = None, **uvicorn_options: Any
) -> NoReturn:
    """Serve until a signal or a death, then end the process: 0, 1, or 2 for wrong settings."""
    log = set_up_logging(settings.log_level, settings.log_format)
    host, port = settings.host, settings.port
    ops_host = settings.ops_host or host
    _check_free(host, port)
    if ops_port is not None:
        _check_free(ops_host, ops_port)
    code = 0

    def on_death() -> None:
        nonlocal code
        code = app.state.service.supervisor.exit_code
        server.should_exit = True

    try:
        app = make_app(on_death)
    except (ModelNotLoaded, PluginInvalid) as error:
        logger.critical("start-up failed: %s", error)
        _leave(2)
    telemetry: Telemetry = app.state.service.telemetry
    log.on_lost = partial(telemetry.observe_one, "lost_log_lines")

    def config(asgi: ASGIApp, host: str, port: int, drain_s: float, **more: Any) -> uvicorn.Config:
        return uvicorn.Config(
            asgi,
            http=ConnectionLimits(settings.limits, telemetry).protocol,  # type: ignore[arg-type]
            ws="none",
            backlog=BACKLOG,
            host=host,
            port=port,
            log_level=settings.log_level,
            log_config=None,
            access_log=False,
            proxy_headers=False,  # nothing here asks where a request comes from
            timeout_graceful_shutdown=math.ceil(drain_s),
            **more,
        )

    ops = None
    if ops_port is not None:
        at_port = at_ops_port(app)
        ops = _OpsServer(config(at_port, ops_host, ops_port, _OPS_DRAIN_S, lifespan="off"))
    server = _Server(config(app, host, port, settings.drain_s, **uvicorn_options), app, ops)
    # After a graceful end uvicorn raises the signal once more, which by default would kill the
    # process: no exit code 0.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: _leave(code))
    server.run()
    _leave(code)


class _Server(uvicorn.Server):
    """A server, and where operation has a port of its own a second one, which ends last."""

    def __init__(self, config: uvicorn.Config, app: Starlette, ops: "_OpsServer | None") -> None:
        super().__init__(config)
        self._app = app
        self._ops = ops
        self._ops_ended: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._ops is not None:
            self._ops_ended = asyncio.create_task(self._ops.serve())

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # From here on `/readyz` says that nothing more is to be sent.
        self._app.state.is_draining = True
        await super().shutdown(sockets)
        if self._ops is not None and self._ops_ended is not None:
            self._ops.should_exit = True
            await self._ops_ended


class _OpsServer(uvicorn.Server):
    """The second server, which leaves signals to the first."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _check_free(host: str, port: int) -> None:
    """End with 1 where the address is taken.

    The server would find that out, too, but the process could end only when its models are loaded.
    """
    family = socket.AF_INET
    if ":" in host:
        family = socket.AF_INET6
    try:
        socket.create_server((host, port), family=family).close()
    except OSError as error:
        logger.error("cannot listen on %s:%d: %s", host, port, error.strerror)
        sys.exit(1)


def _leave(code: int) -> NoReturn:
    """End the process whatever its threads do.

    A thread that loads a model, or hangs, would hold `sys.exit` back.
    """
    logging.shutdown()
    os._exit(code)
