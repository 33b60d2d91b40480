"""`cocoa errors`: the text of docs/errors.md, made from docstrings."""

import inspect

import typer

from models.errors import answered

_HEAD = """# Errors

Made from the docstrings by `cocoa errors`; a test keeps it so. Each is answered in the shape of
[api.md](api.md#errors); every 503 has `Retry-After`.

| status | code | meaning |
|---|---|---|"""


def errors() -> None:
    """List every error of the service with status, code and meaning, as Markdown."""
    lines = [_HEAD]
    for error in sorted(answered(), key=lambda error: error.status):
        text, _, _ = inspect.cleandoc(error.__doc__ or "").partition("\n\nAttributes:")
        lines.append(f"| {error.status} | `{error.code}` | {' '.join(text.split())} |")
    typer.echo("\n".join([*lines, ""]), nl=False)
