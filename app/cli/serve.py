"""`cocoa serve`: the HTTP service."""

from functools import partial
from typing import Annotated

import typer

from app.cli.environment import settings_or_exit

Host = Annotated[str | None, typer.Option(help="Address to listen on (COCOA_HOST, 127.0.0.1).")]
Port = Annotated[
    int | None, typer.Option(min=0, max=65535, help="Port to listen on (COCOA_PORT, 8000).")
]


def serve(host: Host = None, port: Port = None) -> None:
    """Serve the HTTP API; everything else is set by COCOA_* variables (docs/configuration.md)."""
    from app.cli.running import run
    from app.main import create_app

    settings = settings_or_exit()
    run(partial(create_app, settings), settings, host, port, ops_port=settings.ops_port)
