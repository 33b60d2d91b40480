"""The thread of a model: blocking calls run on it one after another.

It also reports how long the current call has run.
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

Params = ParamSpec("Params")
Result = TypeVar("Result")


class ModelThread(ThreadPoolExecutor):
    """An executor of one thread. A call that waits for its turn is not running yet.

    Attributes:
        busy_since: monotonic seconds at which the running call, or its present part, began; None
            between calls. Only the thread writes it.
    """

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(1, name, **options)
        self.busy_since: float | None = None

    @property
    def is_awaited(self) -> bool:
        """Whether further calls wait for the running one to end."""
        return not self._work_queue.empty()

    def mark(self) -> None:
        """Say from within a call that a part of it has ended, and that the next one begins now."""
        self.busy_since = time.monotonic()

    def submit(
        self, fn: Callable[Params, Result], /, *args: Params.args, **kwargs: Params.kwargs
    ) -> "Future[Result]":
        return super().submit(self._running()(fn), *args, **kwargs)

    @contextmanager
    def _running(self) -> Iterator[None]:
        self.busy_since = time.monotonic()
        try:
            yield
        finally:
            self.busy_since = None
