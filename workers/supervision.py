"""Start, warm-up, watch, stop of workers.

A worker whose loop dies or hangs takes the service out of rotation.
"""

import asyncio
import faulthandler
import logging
import os
import signal
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Literal

from models.errors import ModelLost, ModelNotLoaded
from workers.protocol import Watched, Worker

logger = logging.getLogger(__name__)

State = Literal["starting", "ready", "dead", "stopped"]

_POLL_S = 0.5


class Supervisor:
    """Watches the loops of the workers of one process.

    Args:
        on_death: called once when start-up fails, a loop ends by itself or hangs; the process
            should then exit with 1. By default it signals itself to end.
        stall_s: a blocking call that runs for longer hangs; 0 lets every call run for as long as it
            takes. Time in which the whole process was stopped does not count.
    """

    def __init__(self, on_death: Callable[[], None] | None = None, stall_s: float = 0) -> None:
        self.state: State = "starting"  # "ready" from the last warm-up until a loop dies or `stop`
        self.ready = asyncio.Event()  # set with the last warm-up, for those who wait for it
        self.failure: BaseException | None = None  # that ended it; None where a loop just ended
        self._on_death = on_death or partial(os.kill, os.getpid(), signal.SIGTERM)
        self._stall_s = stall_s
        self._workers: list[Worker] = []
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def exit_code(self) -> int:
        """2 where a model cannot be loaded, as for invalid settings: no second try would help."""
        if isinstance(self.failure, ModelNotLoaded):
            return 2
        return 1

    async def start(
        self, workers: Mapping[str, Worker], others: Mapping[str, Watched] | None = None
    ) -> None:
        self._workers = list(workers.values())
        for name, worker in workers.items():
            task = asyncio.create_task(worker.run(), name=name)
            task.add_done_callback(self._ended)
            self._tasks.append(task)
        if self._stall_s:
            watching = self._watch({**workers, **(others or {})})
            self._tasks.append(asyncio.create_task(watching, name="watchdog"))
        for worker in self._workers:
            await worker.warm_up()
        if self.state == "starting":
            self.state = "ready"
            self.ready.set()

    def die(self, name: str, error: BaseException | None) -> None:
        """Be dead from now on: loading or a loop has failed."""
        if self.state in ("dead", "stopped"):
            return
        reason = type(error).__name__ if error else "ended"
        logger.critical("%s has died (%s)", name, reason, exc_info=error)
        self.end(error)

    async def attend(self, starting: Awaitable[None]) -> None:
        """Await what loads and starts the workers; where it fails, say why, and be dead."""
        try:
            await starting
        except Exception as error:
            # There is no prompt yet that the text could quote.
            defect = None if isinstance(error, ModelNotLoaded) else error
            logger.critical("start-up failed: %s", error, exc_info=defect)
            self.end(error)

    def end(self, error: BaseException | None) -> None:
        """Be dead from now on, for a reason that the log has already."""
        if self.state in ("dead", "stopped"):
            return
        self.state, self.failure = "dead", error
        self._on_death()

    async def stop(self) -> None:
        if self.state != "dead":
            self.state = "stopped"
        for worker in self._workers:
            await worker.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _watch(self, watched: Mapping[str, Watched]) -> None:
        """Once a call hangs, be dead and end the loops that await it, which fails their callers."""
        # The start of each call that ran at the last check, and how long it was seen running.
        running: dict[str, float | None] = dict.fromkeys(watched)
        ran_s = dict.fromkeys(watched, 0.0)
        looked_at = time.monotonic()
        hung: list[str] = []
        while not hung:
            await asyncio.sleep(_POLL_S)
            now = time.monotonic()
            # If more time has passed, nothing of this process ran, no call either.
            passed_s, looked_at = min(now - looked_at, 2 * _POLL_S), now
            for name, worker in watched.items():
                since = worker.busy_since
                if since is None or since != running[name]:
                    running[name], ran_s[name] = since, 0.0
                else:
                    ran_s[name] += passed_s
            hung = [name for name, seconds in ran_s.items() if seconds > self._stall_s]
        logger.error(
            "%s: a call has not returned within stall_s = %g s; all threads stand at:\n%s",
            ", ".join(hung),
            self._stall_s,
            _stacks(),
        )
        self.die(", ".join(hung), ModelLost("hangs"))
        for task in self._tasks:
            if task.get_name() in hung:
                task.cancel()

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self.die(task.get_name(), None if task.cancelled() else task.exception())


def _stacks() -> str:
    """Files and lines at which all threads stand, where the call hangs among them; no values."""
    with tempfile.TemporaryFile("w+") as file:
        faulthandler.dump_traceback(file)
        file.seek(0)
        return file.read()
