"""Work side by side: the first failure ends the rest."""

import asyncio
from collections.abc import Awaitable
from typing import Any


async def both(*work: Awaitable[Any]) -> list[Any]:
    """What each of them returns, in their order.

    Raises:
        Exception: what the first that fails raises; the others are cancelled then, and have ended.
    """
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        return list(await asyncio.gather(*tasks))
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
