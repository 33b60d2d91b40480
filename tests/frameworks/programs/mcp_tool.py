# /// script
# dependencies = ["mcp==2.3.0"]
# ///
"""MCP's own client, at /mcp: a tool's structured content has confidence and uncertainty."""

import asyncio

from mcp import Client
from telling import QUESTION, URL, tell


async def called():
    """What the tool returns."""
    async with Client(f"{URL.removesuffix('/v1')}/mcp") as tools:
        return await tools.call_tool("answer", {"question": QUESTION})


result = asyncio.run(called())
tell(globals(), ["result.structured_content['uncertainty']"])
