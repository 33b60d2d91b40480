"""Settings of a command, or its end with 2 and a message."""

from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from app.settings import Settings


def settings_or_exit() -> "Settings":
    """Settings from the environment; where they are invalid the command ends and says which."""
    from app.settings import load_settings

    try:
        return load_settings()
    except ValueError as error:  # pydantic's ValidationError is one
        typer.echo(f"invalid settings: {error}", err=True)
        raise typer.Exit(2) from None
