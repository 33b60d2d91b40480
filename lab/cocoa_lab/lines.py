"""Files of lines whose writer may have been killed: the last line may be half."""

from collections.abc import Iterator
from pathlib import Path


def complete_lines(path: Path) -> Iterator[bytes]:
    """The lines of a file, newline included, without a half-written last one."""
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield line
