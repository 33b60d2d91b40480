"""A client of a running service, or of the same application in this process, without a socket."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import httpx
import typer

from app.cli.environment import settings_or_exit
from app.main import create_app
from app.settings import Settings
from workers.supervision import Supervisor

_PATIENCE_S = 1  # with a service that may not run
_TIMEOUT_S = 90  # above the request's own deadline, which answers first


def own_url(settings: Settings) -> str:
    """The URL of the service of these settings, from its machine, with the paths of operation."""
    host, port = settings.host, settings.port
    if settings.ops_port is not None:
        host, port = settings.ops_host or host, settings.ops_port
    if host in ("0.0.0.0", "::"):  # noqa: S104 - every address, this machine's among them
        host = "127.0.0.1"
    return f"http://{host}:{port}"


async def ready_here(settings: Settings) -> str | None:
    """The URL at which the service of these settings answers requests; None where none is ready."""
    try:
        async with httpx.AsyncClient(timeout=_PATIENCE_S) as client:
            ready = await client.get(f"{own_url(settings)}/readyz")
    except (httpx.HTTPError, httpx.InvalidURL):
        return None
    told = told_by(ready)
    if role := told.get("worker"):
        typer.echo(f"a {role} worker answers at {own_url(settings)}, and no service", err=True)
    if role or told.get("status") != "ready":
        return None
    return own_url(settings.model_copy(update={"ops_port": None}))


def told_by(ready: httpx.Response) -> dict[str, Any]:
    """What `/readyz` says of what is ready; empty where something else answers."""
    with suppress(ValueError):
        if ready.is_success and isinstance(told := ready.json(), dict):
            return told
    return {}


@asynccontextmanager
async def client_of(url: str | None, key: str | None) -> AsyncIterator[httpx.AsyncClient]:
    """A client whose paths are those of the service at this URL.

    None loads the models here, and the command ends where they cannot be loaded.
    """
    if url is not None:
        headers = {}
        if key is not None:
            headers["Authorization"] = f"Bearer {key}"
        async with httpx.AsyncClient(base_url=url, headers=headers, timeout=_TIMEOUT_S) as client:
            yield client
        return
    died = asyncio.Event()

    def on_death() -> None:
        if supervisor.ready.is_set():
            os._exit(1)  # a thread may hang; the log has the reason
        died.set()

    # The caller needs no key here, and all paths are served at the one port there is.
    settings = settings_or_exit().model_copy(update={"ops_port": None})
    app = create_app(settings, on_death, is_guarded=False)
    supervisor: Supervisor = app.state.service.supervisor
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://cocoa", timeout=_TIMEOUT_S
        ) as client,
    ):
        events = [asyncio.create_task(event.wait()) for event in (supervisor.ready, died)]
        await asyncio.wait(events, return_when=asyncio.FIRST_COMPLETED)
        for event in events:
            event.cancel()
        if died.is_set():  # the log has the reason
            raise typer.Exit(supervisor.exit_code)
        yield client
