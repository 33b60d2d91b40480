"""Where a checkpoint lies, as far as its name tells."""

from pathlib import Path


def is_local(model: str) -> bool:
    """Whether a folder is meant, be it there or not, and no id on the hub."""
    return model.startswith(("/", ".", "~")) or Path(model).is_dir()


def public_name(model: str) -> str:
    """A hub id as it is; of a local path only the folder's name.

    Paths are nobody else's business.
    """
    return Path(model).name if is_local(model) else model
