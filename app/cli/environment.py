"""What commands share: options, settings from the environment, and codes to exit with."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from app.settings import Settings


Url = Annotated[
    str | None, typer.Option(help="Ask a running service instead of loading the models here.")
]
ApiKey = Annotated[
    str | None,
    typer.Option(
        envvar="COCOA_ASK_KEY",
        help="API key of that service; others can read it unless it stands in the variable.",
    ),
]


def settings_or_exit() -> "Settings":
    """Settings from the environment; where they are invalid the command ends and says which."""
    from app.settings import load_settings

    try:
        return load_settings()
    except ValueError as error:  # pydantic's ValidationError is one
        typer.echo(f"invalid settings: {error}", err=True)
        raise typer.Exit(2) from None


def exit_code_of(failure: BaseException | None) -> int:
    """2 for a model that cannot be loaded, as for invalid settings: another try would not help."""
    from models.errors import ModelNotLoaded

    if isinstance(failure, ModelNotLoaded):
        return 2
    return 1
