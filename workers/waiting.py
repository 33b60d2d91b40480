"""Waiting for work: under a deadline, and for several things at once."""

import asyncio
import time
from collections.abc import Awaitable
from typing import Any, TypeVar

from models.errors import DeadlineExceeded

Result = TypeVar("Result")


async def in_time(timeout_s: float | None, work: Awaitable[Result]) -> Result:
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


def deadline_of(timeout_s: float | None) -> float | None:
    """Monotonic second at which a call that begins now is due; None where nobody waits for it."""
    return None if timeout_s is None else time.monotonic() + timeout_s


async def together(*work: Awaitable[Any]) -> list[Any]:
    """What each of them returns, in their order.

    Raises:
        Exception: what the first that fails raises; the others are cancelled then, and have ended.
    """
    tasks = list(map(asyncio.ensure_future, work))
    try:
        return list(await asyncio.gather(*tasks))
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
