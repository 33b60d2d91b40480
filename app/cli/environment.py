"""Shared by commands: options, settings from the environment, and codes to exit with."""

from typing import TYPE_CHECKING, Annotated, NoReturn
from urllib.parse import urlsplit

import typer

if TYPE_CHECKING:
    from app.settings import Settings


def as_url(given: str | None) -> str | None:
    """The value of an option that has to be a URL of HTTP."""
    try:
        parts = urlsplit(given or "http://localhost")
        is_url = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        is_url = False
    if given == "" or not is_url:
        raise typer.BadParameter("should be a URL, as http://localhost:8000")
    return given


def _as_key(given: str | None) -> str | None:
    if given is not None and not (given.isascii() and given.isprintable()):
        raise typer.BadParameter("has characters that no key has")
    return given


Url = Annotated[
    str | None,
    typer.Option(callback=as_url, help="Ask a running service instead of loading the models here."),
]
ApiKey = Annotated[
    str | None,
    typer.Option(
        callback=_as_key,
        envvar="COCOA_ASK_KEY",
        help="API key of that service; others can read it unless it stands in the variable.",
    ),
]


def settings_or_exit(**options: object) -> "Settings":
    """Settings from the environment; where they are invalid the command ends and says which.

    Options of a command that are not None go first.
    """
    from app.settings import load_settings

    update = {name: value for name, value in options.items() if value is not None}
    try:
        return load_settings().model_copy(update=update)
    except ValueError as error:  # pydantic's ValidationError is one
        fail(f"invalid settings: {error}", 2)


def fail(message: str, code: int = 1) -> NoReturn:
    """End the command and say why."""
    typer.echo(message, err=True)
    raise typer.Exit(code) from None
