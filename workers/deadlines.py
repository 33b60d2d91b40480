"""The one deadline of a call, and what is left of it."""

import asyncio
import time
from collections.abc import Awaitable
from typing import TypeVar

from models.errors import DeadlineExceeded

Result = TypeVar("Result")


async def within(timeout_s: float | None, work: Awaitable[Result]) -> Result:
    """What `work` returns.

    Raises:
        DeadlineExceeded: the time has passed.
    """
    try:
        async with asyncio.timeout(timeout_s) as deadline:
            return await work
    except TimeoutError:
        if not deadline.expired():
            raise
        raise DeadlineExceeded(f"no answer within {timeout_s:g} s") from None


def seconds_left(timeout_s: float | None, began_at: float) -> float | None:
    """Of a deadline that began at this monotonic second; None where there is none."""
    return None if timeout_s is None else max(0.0, timeout_s - (time.monotonic() - began_at))
