"""The progress of commands that take long: a bar, or lines where nobody sees one move."""

import time
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

_A_LINE_EACH_S = 15


class _Lines(Progress):
    """A line with the first that is done, and then four a minute: for pipes and logs."""

    _told_at = float("-inf")

    def advance(self, *args: Any, **kwargs: Any) -> None:
        super().advance(*args, **kwargs)
        self._tell()

    def update(self, *args: Any, **kwargs: Any) -> None:
        super().update(*args, **kwargs)
        self._tell()

    def _tell(self) -> None:
        if time.monotonic() - self._told_at >= _A_LINE_EACH_S:
            self._told_at = time.monotonic()
            self.console.print(self.get_renderable())


def progress_of(unit: str) -> Progress:
    """What is done, how many of how many, and the time left, on standard error."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(f"{unit},"),
        TimeElapsedColumn(),
        TextColumn("so far,"),
        TimeRemainingColumn(),
        TextColumn("left"),
    )
    console = Console(stderr=True)
    made = Progress if console.is_terminal else _Lines
    return made(*columns, console=console)
