"""`cocoa estimators` and `cocoa errors`: the text of docs/estimators.md and docs/errors.md."""

import typer


def estimators() -> None:
    """List every estimator with formula, needs, cost and use, as Markdown."""
    from app.cli.listing import page

    typer.echo(page(), nl=False)


def errors() -> None:
    """List every error of the service with status, code and meaning, as Markdown."""
    from app.cli.listing import errors_page

    typer.echo(errors_page(), nl=False)
