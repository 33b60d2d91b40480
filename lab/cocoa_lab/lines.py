"""Files of lines whose writer may have been killed: the last line may be half."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson


def complete_lines(path: Path) -> Iterator[bytes]:
    """The lines of a file, newline included, without a half-written last one."""
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield line


def objects_in(path: Path, *names: str) -> Iterator[dict[str, Any]]:
    """The JSON object of each complete line.

    Raises:
        ValueError: a line is none, or has no field of one of these names; names file and line.
    """
    for number, line in enumerate(complete_lines(path), start=1):
        try:
            fields = orjson.loads(line)
        except ValueError:
            fields = None
        if not isinstance(fields, dict) or not fields.keys() >= set(names):
            raise ValueError(f"{path}, line {number}: it is damaged")
        yield fields
