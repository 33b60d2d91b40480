"""`cocoa worker`: one model in a process of its own, for gateways that have its url."""

import ssl
from functools import partial
from typing import Annotated, Any, Literal

import typer

from app.cli.environment import fail, settings_or_exit
from app.cli.serve import Host, Port
from app.http import running
from app.settings import Settings
from app.worker import create_worker_app
from models.errors import ModelNotLoaded

# Longer than gateways keep a connection that they do not use, so that they never meet its end.
_KEEP_ALIVE_S = 75


def worker(
    role: Annotated[Literal["generation", "similarity"], typer.Argument(help="Which model.")],
    host: Host = None,
    port: Port = None,
) -> None:
    """Serve one model of this deployment to gateways (docs/workers.md)."""
    settings = settings_or_exit(host=host, port=port)
    try:
        settings.worker.tls_context("worker")  # which reads the files that the server will
    except ModelNotLoaded as error:
        fail(f"invalid settings: {error}", 2)
    running.run(partial(create_worker_app, role, settings), settings, **_options(settings))


def _options(settings: Settings) -> dict[str, Any]:
    config = settings.worker
    options: dict[str, Any] = {"timeout_keep_alive": _KEEP_ALIVE_S}
    if config.tls_cert_file:
        options |= {
            "ssl_certfile": config.tls_cert_file,
            "ssl_keyfile": config.tls_key_file or None,
        }
    if config.tls_ca_file:
        options |= {"ssl_ca_certs": config.tls_ca_file, "ssl_cert_reqs": ssl.CERT_REQUIRED}
    return options
