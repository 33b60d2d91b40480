"""The `cocoa` command; what a command needs is imported when it runs."""

from importlib import import_module
from importlib.metadata import EntryPoint, version
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from app.installed import hand_over, installed
from app.plugin import Plugin, PluginInvalid

# Each is a function or a Typer in a module of its name; beside it what the list of commands says.
_LIST = """
serve       Serve the HTTP API; everything else is set by COCOA_* variables (docs/configuration.md).
worker      Serve one model of this deployment to gateways (docs/workers.md).
ask         Answer one prompt and say how sure the model is.
doctor      Look at a gateway and all that it depends on, by its settings; 1 if something is wrong.
"""
COMMANDS = dict(line.split(maxsplit=1) for line in _LIST.strip().splitlines())
_IN_LAB = ("calibrate", "check", "evaluate", "probe")


class _Commands(TyperGroup):
    """The commands of this package, and those that other installed distributions add.

    Entry points are read only for the list of commands and for a name that is not known here.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        return [*COMMANDS, *_of_plugins()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return super().get_command(ctx, cmd_name) or _command(ctx, cmd_name)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the list of commands, without importing any of ours or of plugins."""
        listed = dict(COMMANDS)
        for name, (_, text) in _of_plugins().items():
            listed[name] = text
        for name, text in listed.items():
            self.add_command(TyperCommand(name, help=text))
        super().format_help(ctx, formatter)


def _plugins() -> tuple[Plugin, ...]:
    try:
        return installed()
    except PluginInvalid as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None


def _of_plugins() -> dict[str, tuple[str, str]]:
    """Where each command of a plugin is, and what the list says of it."""
    commands: dict[str, tuple[str, str]] = {}
    for plugin in _plugins():
        commands |= plugin.commands
    return commands


def _command(ctx: Any, name: str) -> Any:
    """The command of this name; None where there is none."""
    hand_over(_plugins())
    if name in COMMANDS:
        from models.lasting import lasting

        module = name.replace("-", "_")
        with lasting():
            command = getattr(import_module(f"app.cli.{module}"), module)
    elif name in _of_plugins():
        command = EntryPoint(name, _of_plugins()[name][0], "cocoa.plugins").load()
    elif name in _IN_LAB:
        typer.echo(
            f"`cocoa {name}` comes with cocoa-lab, which is not installed: "
            "`pip install -e 'lab[evaluation]'` in a checkout of cocoa-serve",
            err=True,
        )
        raise typer.Exit(1)
    else:
        return None
    commands = typer.Typer()
    if isinstance(command, typer.Typer):
        commands.add_typer(command, name=name)
    else:
        commands.command(name)(command)
        commands.callback()(lambda: None)  # a Typer of one command is that command
    return typer.main.get_group(commands).get_command(ctx, name)


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


def main() -> None:
    app()
