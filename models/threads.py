"""The thread of a model: blocking calls run on it one after another.

It also reports how long the current call has run.
"""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ContextDecorator
from typing import Any, ParamSpec, TypeVar

Params = ParamSpec("Params")
Result = TypeVar("Result")


class _Running(ContextDecorator):
    """A call that runs; monotonic seconds at which it, or its present part, began."""

    since: float | None = None

    def __enter__(self) -> None:
        self.since = time.monotonic()

    def __exit__(self, *_: object) -> None:
        self.since = None


class ModelThread(ThreadPoolExecutor):
    """An executor of one thread. A call that waits for its turn is not running yet."""

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(1, name, **options)
        self._running = _Running()

    @property
    def busy_since(self) -> float | None:
        """Monotonic seconds at which the running call, or its part, began; None between calls."""
        return self._running.since

    def mark(self) -> None:
        """Say from within a call that a part of it has ended, and that the next one begins now."""
        self._running.since = time.monotonic()

    def submit(
        self, fn: Callable[Params, Result], /, *args: Params.args, **kwargs: Params.kwargs
    ) -> "Future[Result]":
        return super().submit(self._running(fn), *args, **kwargs)
