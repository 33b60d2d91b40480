"""The `cocoa` command."""

from importlib.metadata import entry_points, version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from app.cli.ask import ask
from app.cli.doctor import doctor
from app.cli.estimators import errors, estimators
from app.cli.key import key
from app.cli.mcp import mcp
from app.cli.run_batch import run_batch
from app.cli.serve import serve
from app.cli.worker import worker

# Other distributions add commands under this group; each entry point is a function or a Typer.
_ADDED = "cocoa.commands"
_IN_LAB = ("calibrate", "check", "evaluate", "probe")


class _Commands(TyperGroup):
    """The commands of this package, and those that other installed distributions add.

    Entry points are read only for the list of commands and for a name that is not known here.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        return [*super().list_commands(ctx), *sorted(entry_points(group=_ADDED).names)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return super().get_command(ctx, cmd_name) or _added(ctx, cmd_name)


def _added(ctx: Any, name: str) -> Any:
    """The command that an entry point adds; None where there is none of that name."""
    found = list(entry_points(group=_ADDED, name=name))
    if found:
        command = found[0].load()
        commands = typer.Typer()
        if isinstance(command, typer.Typer):
            commands.add_typer(command, name=name)
        else:
            commands.command(name)(command)
            commands.callback()(lambda: None)  # a Typer of one command is that command
        return typer.main.get_group(commands).get_command(ctx, name)
    if name in _IN_LAB:
        typer.echo(
            f"`cocoa {name}` comes with cocoa-lab, which is not installed: "
            "`pip install -e 'lab[evaluation]'` in a checkout of cocoa-serve",
            err=True,
        )
        raise typer.Exit(1)
    return None


app = typer.Typer(
    name="cocoa",
    cls=_Commands,
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
app.command("run-batch")(run_batch)
app.command()(mcp)
app.command()(doctor)
app.command()(estimators)
app.command()(errors)
app.add_typer(key, name="key")


def main() -> None:
    app()
