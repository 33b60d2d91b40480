"""The `cocoa` command."""

from importlib.metadata import version
from typing import Annotated

import typer

from app.cli.ask import ask
from app.cli.calibrate import calibrate
from app.cli.estimators import estimators
from app.cli.evaluate import evaluate
from app.cli.key import key
from app.cli.probe import probe
from app.cli.serve import serve
from app.cli.worker import worker

app = typer.Typer(
    name="cocoa",
    help="Answers with CoCoA uncertainty scores.",
    no_args_is_help=True,
    add_completion=False,
)


@app.callback(invoke_without_command=True)
def _options(
    *,
    show_version: Annotated[
        bool, typer.Option("--version", is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    if show_version:
        typer.echo(version("cocoa-serve"))
        raise typer.Exit


app.command()(serve)
app.command()(worker)
app.command()(ask)
app.command()(estimators)
app.command()(evaluate)
app.command()(calibrate)
app.add_typer(probe, name="probe")
app.add_typer(key, name="key")


def main() -> None:
    """Entry point of the console script."""
    app()
