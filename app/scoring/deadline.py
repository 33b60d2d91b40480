"""The one deadline of an ask."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from models.errors import DeadlineExceeded


@asynccontextmanager
async def deadline(timeout_s: float | None) -> AsyncIterator[None]:
    """End what runs within once the time has passed; None lets it take as long as it takes.

    Raises:
        DeadlineExceeded: it has.
    """
    try:
        async with asyncio.timeout(timeout_s) as timeout:
            yield
    except TimeoutError:
        if not timeout.expired():
            raise
        message = f"no result within timeout_s = {timeout_s:g} s"
        raise DeadlineExceeded(message) from None
