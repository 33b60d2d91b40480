"""`cocoa doctor`: what is wrong with a deployment, asked from inside of it."""

from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.environment import ApiKey, settings_or_exit

if TYPE_CHECKING:
    from app.settings import Settings


def doctor(
    url: Annotated[
        str | None, typer.Option(help="The service; by default at COCOA_OPS_PORT or COCOA_PORT.")
    ] = None,
    api_key: ApiKey = None,
    patience_s: Annotated[
        float, typer.Option(min=1, help="Seconds that servers of a model are waited for.")
    ] = 15.0,
) -> None:
    """Look at a gateway and all that it depends on, by its own settings; 1 if something is wrong.

    A server of others is tried out as at the gateway's start (docs/servers.md).
    """
    import asyncio
    import logging

    logging.getLogger().addHandler(logging.NullHandler())  # what clients log is told below
    settings = settings_or_exit()
    is_well = asyncio.run(_tell(settings, url or own_url(settings), api_key, patience_s))
    raise typer.Exit(0 if is_well else 1)


def own_url(settings: "Settings") -> str:
    """Where the service of these settings tells how it is, from its own machine."""
    host, port = settings.host, settings.port
    if settings.ops_port is not None:
        host, port = settings.ops_host or host, settings.ops_port
    if host in ("0.0.0.0", "::"):  # noqa: S104 - every address, this machine's own among them
        host = "127.0.0.1"
    return f"http://{host}:{port}"


async def _tell(settings: "Settings", url: str, key: str | None, patience_s: float) -> bool:
    from app.cli.examining import examine

    is_well = True
    async for finding in examine(settings, url, key, patience_s):
        is_well &= finding.is_well
        verdict = "ok" if finding.is_well else "WRONG"
        typer.echo(f"{verdict:6}{finding.what:11} {finding.words}")
    return is_well
