"""The location of a checkpoint, by its name."""

import re
from pathlib import Path

# Folders before a file's name, or a whole path of folders, where a word begins.
_FOLDERS = re.compile(r"(?<!\S)\S*/(?=[^\s/]*\.\w)|(?<!\S)\.{0,2}/\S*/")


def is_local(model: str) -> bool:
    """True where a folder is meant, be it there or not, and no id on the hub."""
    return model.startswith(("/", ".", "~")) or Path(model).is_dir()


def public_name(model: str) -> str:
    """A hub id as it is; of a local path only the folder's name.

    Paths are nobody else's business.
    """
    return Path(model).name if is_local(model) else model


def without_folders(text: str) -> str:
    """A text that names files, without the folders that they are in."""
    return _FOLDERS.sub("", text)
