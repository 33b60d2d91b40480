"""Why a command has failed, in words for whoever typed it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer


@contextmanager
def errors_told() -> Iterator[None]:
    """An expected error ends the command with 1 and one line, a model that is not loaded with 2."""
    import httpx

    from models.errors import CocoaError, ModelNotLoaded

    try:
        yield
    except ModuleNotFoundError as error:  # networks, plots and pages come from an extra
        typer.echo(f"{error}: pip install -e 'lab[evaluation]' in the checkout", err=True)
        raise typer.Exit(1) from None
    except ModelNotLoaded as error:
        typer.echo(error, err=True)
        raise typer.Exit(2) from None
    except (CocoaError, ImportError, OSError, ValueError, httpx.HTTPError) as error:
        typer.echo(reason_of(error), err=True)
        raise typer.Exit(1) from None


def reason_of(error: Exception) -> str:
    """What an expected error says, without the name of its class; of a file its whole path.

    A refusal names its field, as the service does.
    """
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{Path(str(error.filename)).absolute()}: {error.strerror}"
    if field := getattr(error, "field", None):
        return f"{field}: {error}"
    return str(error) or type(error).__name__
