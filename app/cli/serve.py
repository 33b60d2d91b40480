"""`cocoa serve`: the HTTP service."""

import logging
import math
import os
import signal
import socket
from typing import Annotated, NoReturn

import typer
import uvicorn

from app.cli.environment import settings_or_exit
from app.http.connections import BACKLOG, Connections
from app.http.logs import set_up_logging
from app.http.telemetry import Telemetry
from app.main import create_app
from models.errors import ModelNotLoaded

logger = logging.getLogger(__name__)


def serve(
    host: Annotated[
        str | None, typer.Option(help="Address to listen on (COCOA_HOST, 127.0.0.1).")
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port to listen on (COCOA_PORT, 8000).")
    ] = None,
) -> None:
    """Serve the HTTP API; everything else is set by COCOA_* variables (docs/configuration.md)."""
    settings = settings_or_exit()
    log = set_up_logging(settings.log_level, settings.log_format)
    host = host or settings.host
    port = settings.port if port is None else port
    _check_free(host, port)
    code = 0

    def on_death() -> None:
        nonlocal code
        # As with invalid settings: to start it again would not help.
        refused = isinstance(app.state.service.supervisor.failure, ModelNotLoaded)
        code = 2 if refused else 1
        server.should_exit = True

    app = create_app(settings, on_death)
    telemetry: Telemetry = app.state.service.telemetry
    log.on_lost = telemetry.observe_lost_line
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            http=Connections(settings.limits, telemetry).protocol,  # type: ignore[arg-type]
            ws="none",
            backlog=BACKLOG,
            host=host,
            port=port,
            log_level=settings.log_level,
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=math.ceil(settings.drain_s),
        )
    )
    # After a graceful end uvicorn raises the signal once more, which by default would kill the
    # process: no exit code 0.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: _leave(code))
    server.run()
    _leave(code)


def _check_free(host: str, port: int) -> None:
    """End with 1 where the address is taken.

    The server would find that out, too, but the process could end only when its models are loaded.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, port), family=family).close()
    except OSError as error:
        logger.error("cannot listen on %s:%d: %s", host, port, error.strerror)
        raise typer.Exit(1) from None


def _leave(code: int) -> NoReturn:
    """End the process whatever its threads do.

    A thread that loads a model, or hangs, would hold `sys.exit` back.
    """
    logging.shutdown()
    os._exit(code)
