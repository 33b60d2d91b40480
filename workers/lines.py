"""Lines of a response as they come."""

from collections.abc import AsyncIterator

import httpx


async def lines(response: httpx.Response) -> AsyncIterator[bytes]:
    r"""Lines that are not blank, without their ends.

    httpx's own would end at every separator that Unicode knows, and some stand in JSON as they are.
    Bytes after the last \n are no line: whoever sent them was cut off.
    """
    pending: list[bytes] = []
    async for chunk in response.aiter_bytes():
        first, *rest = chunk.split(b"\n")
        pending.append(first)
        for piece in rest:
            if line := b"".join(pending).rstrip(b"\r"):
                yield line
            pending = [piece]
