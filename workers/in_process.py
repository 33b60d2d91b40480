"""Workers for a command: loaded or connected, warm, watched, and ended with it."""

from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager

from workers.protocol import Workers
from workers.supervision import Supervisor


@asynccontextmanager
async def running_workers(building: Awaitable[Workers]) -> AsyncIterator[Workers]:
    """What is built, ready; where a loop dies its waiters fail, and the command with them."""
    workers = await building
    supervisor = Supervisor(on_death=lambda: None)
    try:
        await supervisor.start(workers.by_name())
        yield workers
    finally:
        await supervisor.stop()
