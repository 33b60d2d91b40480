"""`cocoa serve`: the HTTP service."""

import logging
from collections.abc import Callable
from typing import Annotated

import typer
from fastapi import FastAPI

from app.cli.environment import settings_or_exit
from app.http import running
from app.http.access import is_loopback
from app.main import create_app

logger = logging.getLogger(__name__)

Host = Annotated[str | None, typer.Option(help="Address to listen on (COCOA_HOST, 127.0.0.1).")]
Port = Annotated[
    int | None, typer.Option(min=0, max=65535, help="Port to listen on (COCOA_PORT, 8000).")
]


def serve(host: Host = None, port: Port = None) -> None:
    """Serve the HTTP API; everything else is set by COCOA_* variables (docs/configuration.md)."""
    settings = settings_or_exit(host=host, port=port)

    def make_app(on_death: Callable[[], None]) -> FastAPI:
        app = create_app(settings, on_death)
        if app.state.service.access is None and not is_loopback(settings.host):
            logger.warning(
                "listening on %s without keys: whoever reaches it may ask, so set "
                "COCOA_KEYS__FILE, or see that nobody else does",
                settings.host,
            )
        return app

    running.run(make_app, settings, ops_port=settings.ops_port)
