"""Why a command has failed, in words for whoever typed it."""

from pathlib import Path


def reason_of(error: Exception) -> str:
    """What an expected error says, without the name of its class; of a file its whole path."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{Path(str(error.filename)).absolute()}: {error.strerror}"
    return str(error) or type(error).__name__
