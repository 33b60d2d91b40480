"""A file of JSON lines that an interrupted run continues.

Lines stand in the order of the prompts although results come in any order, and each is flushed as
it is written. A run that was killed leaves at most one half-written line, which is dropped.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import orjson

from app.lines import end_of_last_line

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Item = TypeVar("Item")


class AnotherRun(ValueError):
    """A file or folder belongs to a run with another model or other settings, or to none."""


def check_same(found: "DataclassInstance", wanted: "DataclassInstance", subject: str) -> None:
    """Compare the header that was found with the one that this run would write.

    Args:
        found: header of the file.
        wanted: this run's, of the same class.
        subject: how the message begins, such as "the generations in this folder have".

    Raises:
        AnotherRun: the headers differ; the message names the first difference.
    """
    theirs = as_json(found)
    for name, value in as_json(wanted).items():
        if theirs[name] != value:
            raise AnotherRun(f"{subject} {name} = {theirs[name]!r}, this run has {value!r}")


def as_json(header: "DataclassInstance") -> dict[str, Any]:
    """The header's fields as they come back from a file, where tuples are lists."""
    fields: dict[str, Any] = json.loads(json.dumps(asdict(header)))
    return fields


class LineFile:
    """A file of JSON lines, open to append.

    Args:
        path: made where it is missing.
        num_bytes: how much of the file is kept; None keeps all complete lines.
    """

    def __init__(self, path: Path, num_bytes: int | None = None) -> None:
        self._file = path.open("ab")
        if num_bytes is None:
            num_bytes = end_of_last_line(path)
        self._file.truncate(num_bytes)

    def append(self, value: Mapping[str, Any]) -> None:
        """Write one line and flush it."""
        options = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE
        self._file.write(orjson.dumps(value, option=options))
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class InOrder(Generic[Item]):
    """Items that come in any order and are written in that of their positions: 0, 1, 2 …

    Args:
        write: called with each item once all before it are written.
    """

    def __init__(self, write: Callable[[Item], None]) -> None:
        self._write = write
        self._waiting: dict[int, Item] = {}
        self._next = 0

    def put(self, position: int, item: Item) -> None:
        """Write the item, and those that waited for it, as soon as all before it are written."""
        self._waiting[position] = item
        while self._next in self._waiting:
            self._write(self._waiting.pop(self._next))
            self._next += 1
