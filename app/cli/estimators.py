"""`cocoa estimators`: what there is, from the docstrings; the same text is docs/estimators.md."""

import typer


def estimators() -> None:
    """List every estimator with formula, needs, cost and use, as Markdown."""
    from app.cli.listing import page

    typer.echo(page(), nl=False)
