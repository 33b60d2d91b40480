"""`cocoa key`: keys for clients of the service."""

import os
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal

import typer

from app.cli.environment import fail, settings_or_exit
from app.plugins.keys.records import KeysFileInvalid, digest_of, new_key, parse_keys

key = typer.Typer(help="Keys for clients of the service (docs/keys.md).", no_args_is_help=True)


@key.callback()
def _group() -> None:
    """Keep `new` a command of its own, though it is the only one."""


@key.command()
def new(
    name: Annotated[
        str, typer.Argument(help="For logs and metrics: letters, digits, '.', '_', '-'.")
    ],
    file: Annotated[
        Path | None, typer.Option(help="File that the entry is added to (COCOA_KEYS__FILE).")
    ] = None,
    namespace: Annotated[
        str, typer.Option(help="Keys of one namespace share cached answers; the name by default.")
    ] = "",
    requests_per_minute: Annotated[int | None, typer.Option(min=1)] = None,
    tokens_per_minute: Annotated[
        int | None, typer.Option(min=1, help="Computed ones: prompts, answers and samples.")
    ] = None,
    max_concurrent: Annotated[int | None, typer.Option(min=1, help="Requests under way.")] = None,
    mode: Annotated[
        Literal["full", "light"] | None, typer.Option(help="The only one that may be asked for.")
    ] = None,
    expires: Annotated[
        datetime | None,
        typer.Option(formats=["%Y-%m-%dT%H:%M:%S%z"], help="As in 2027-01-31T12:00:00Z."),
    ] = None,
) -> None:
    """Print a new key, once, on stdout; its entry goes to the file, or without one to stderr.

    A service that runs knows the key a second later.
    """
    fresh = new_key()
    fields = {
        "name": _quoted(name),
        "sha256": _quoted(digest_of(fresh)),
        "namespace": namespace and _quoted(namespace),
        "requests_per_minute": requests_per_minute,
        "tokens_per_minute": tokens_per_minute,
        "max_concurrent": max_concurrent,
        "modes": mode and f"[{_quoted(mode)}]",
        "expires": expires and expires.isoformat(),
    }
    lines = [f"{field} = {value}" for field, value in fields.items() if value]
    entry = "\n".join(["[[keys]]", *lines, ""])
    path = file or Path(vars(settings_or_exit())["keys"].file)
    try:
        parse_keys(entry.encode())
        if path == Path():
            typer.echo(entry, err=True, nl=False)
        else:
            _add(path, entry)
    except KeysFileInvalid as fault:
        fail(f"the key cannot be added: {fault}")
    except OSError as fault:
        fail(f"the key cannot be added to {path}: {fault.strerror}")
    typer.echo(fresh)


def _quoted(text: str) -> str:
    """The text as TOML quotes it, if a name is all that it is."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _add(path: Path, entry: str) -> None:
    """Put the entry at the end of the file in one step, so that nobody reads half of it."""
    path = path.resolve()
    content, rights = b"", 0o600
    if path.exists():
        content, rights = path.read_bytes(), path.stat().st_mode & 0o777
    if content:
        content = content.removesuffix(b"\n") + b"\n\n"
    content += entry.encode()
    parse_keys(content)
    written = path.with_name(f".{path.name}.new")
    with open(os.open(written, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, rights), "wb") as target:
        target.write(content)
        os.fsync(target.fileno())
    written.replace(path)
