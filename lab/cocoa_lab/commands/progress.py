"""The progress of commands that take long: a bar, or lines where nobody sees one move."""

import sys
import time
from datetime import timedelta
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
    """Plain lines with the first that is done, four a minute, and the last: for pipes and logs."""

    _told_at = float("-inf")

    def __init__(self, unit: str) -> None:
        super().__init__(disable=True)
        self._unit = unit

    def advance(self, *args: Any, **kwargs: Any) -> None:
        super().advance(*args, **kwargs)
        self._tell()

    def update(self, *args: Any, **kwargs: Any) -> None:
        super().update(*args, **kwargs)
        self._tell()

    def _tell(self) -> None:
        if time.monotonic() - self._told_at >= _A_LINE_EACH_S:
            self._told_at = time.monotonic()
            self._print()

    def stop(self) -> None:
        self._print()
        super().stop()

    def _print(self) -> None:
        for task in self.tasks:
            done, so_far = f"{task.completed:.0f}", timedelta(seconds=int(task.elapsed or 0))
            if task.total is not None:
                done += f"/{task.total:.0f}"
            line = f"{task.description}: {done} {self._unit}, {so_far} so far"
            if task.time_remaining:
                line += f", {timedelta(seconds=int(task.time_remaining))} left"
            print(line, file=sys.stderr, flush=True)


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
    if not console.is_terminal:
        return _Lines(unit)
    return Progress(*columns, console=console)
