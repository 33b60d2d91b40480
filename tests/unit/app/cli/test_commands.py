"""Commands that plugins add to `cocoa`."""

from importlib.metadata import EntryPoint

import pytest
import typer
from typer.testing import CliRunner

import app.cli
from app.cli import app as cocoa
from app.plugin import Plugin, PluginInvalid

group = typer.Typer()


@group.command()
def wave():
    typer.echo("waved")


@group.command()
def nod():
    typer.echo("nodded")


def greet(name: str):
    """Greet somebody."""
    typer.echo(f"hello {name}")


@pytest.fixture
def installed(monkeypatch):
    """Has these commands be all that plugins have."""

    def install(**values):
        commands = {name: (f"{__name__}:{value}", f"{name} it.") for name, value in values.items()}
        monkeypatch.setattr(EntryPoint, "load", lambda point: globals()[point.attr])
        monkeypatch.setattr(app.cli, "installed", lambda: [Plugin("guest", commands=commands)])

    return install


def run(*arguments):
    return CliRunner().invoke(cocoa, arguments)


def test_a_function_is_a_command(installed):
    installed(greet="greet")
    assert run("greet", "you").output == "hello you\n"


def test_a_typer_is_a_group_of_commands(installed):
    installed(gesture="group")
    assert run("gesture", "nod").output == "nodded\n"


def test_the_help_lists_them_with_the_others(installed):
    installed(greet="greet", gesture="group")
    shown = run("--help").output
    assert "greet it." in shown
    assert "gesture it." in shown
    assert "serve" in shown


@pytest.mark.parametrize("name", ["calibrate", "check", "evaluate", "probe"])
def test_without_the_lab_its_commands_say_what_to_install(name, installed):
    installed()
    result = run(name, "testbed")
    assert (result.exit_code, "cocoa-lab, which is not installed" in result.stderr) == (1, True)
    assert name not in run("--help").output


def test_a_plugin_that_cannot_be_used_ends_the_command_in_words(monkeypatch):
    def installed():
        raise PluginInvalid("the plugin guest cannot be imported: ...")

    monkeypatch.setattr(app.cli, "installed", installed)
    result = run("--help")
    assert (result.exit_code, "the plugin guest" in result.stderr) == (2, True)


def test_a_command_that_nobody_has_is_refused(installed):
    installed()
    result = run("nonsense")
    assert (result.exit_code, "No such command" in result.stderr) == (2, True)


@pytest.mark.parametrize("name", app.cli.COMMANDS)
def test_the_list_says_of_a_command_what_its_own_help_says(name):
    said = " ".join(run(name, "--help").output.replace("│", " ").split())
    assert app.cli.COMMANDS[name] in said
