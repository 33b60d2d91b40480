"""The time that an ask may take."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from models.errors import DeadlineExceeded


@asynccontextmanager
async def deadline(timeout_s: float | None, began_at: float | None = None) -> AsyncIterator[None]:
    """End what runs within once the time has passed.

    Args:
        timeout_s: None lets it take as long as it takes.
        began_at: when the time began, by the loop's clock; None for now.

    Raises:
        DeadlineExceeded: it has passed.
    """
    ends_at = None
    if began_at is None:
        began_at = asyncio.get_running_loop().time()
    if timeout_s is not None:
        ends_at = began_at + timeout_s
    try:
        async with asyncio.timeout_at(ends_at) as timeout:
            yield
    except TimeoutError:
        if not timeout.expired():
            raise
        message = f"no result within timeout_s = {timeout_s:g} s"
        raise DeadlineExceeded(message) from None
