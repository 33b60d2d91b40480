"""Workers for a command: loaded, warm, watched, and ended with it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from workers.protocol import Workers
from workers.supervision import Supervisor


@asynccontextmanager
async def running_workers(load: Callable[[], Workers]) -> AsyncIterator[Workers]:
    """What `load` returns, ready; where a loop dies its waiters fail, and the command with them."""
    workers = await asyncio.to_thread(load)
    supervisor = Supervisor(on_death=lambda: None)
    try:
        await supervisor.start(workers.by_name())
        yield workers
    finally:
        await supervisor.stop()
