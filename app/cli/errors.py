"""`cocoa errors`: the text of docs/errors.md, made from docstrings and the table of warnings."""

import inspect

import typer

from models.errors import answered
from models.warnings import Warned

_HEAD = """# Errors and warnings

Made from the code by `cocoa errors`; a test keeps it so. Each error is answered in the shape of
[api.md](api.md#errors); every 503 has `Retry-After`.

| status | code | meaning |
|---|---|---|"""
_WARNINGS = """
## Warnings

A response with scores has the codes of what to know before trusting them, in `warnings`.

| code | meaning | what to do |
|---|---|---|"""


def errors() -> None:
    """List every error and warning with its code and meaning, as Markdown."""
    lines = [_HEAD]
    for error in sorted(answered(), key=lambda error: error.status):
        text, _, _ = inspect.cleandoc(error.__doc__ or "").partition("\n\nAttributes:")
        lines.append(f"| {error.status} | `{error.code}` | {' '.join(text.split())} |")
    lines.append(_WARNINGS)
    lines += [f"| `{one}` | {one.meaning} | {one.remedy} |" for one in Warned]
    typer.echo("\n".join([*lines, ""]), nl=False)
