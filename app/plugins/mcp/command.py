"""`cocoa mcp`: the tools for agents, over standard input and output."""

import asyncio
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import httpx

from app.cli.clients import client_of
from app.cli.environment import ApiKey, Url, fail


def mcp(url: Url = None, key: ApiKey = None) -> None:
    """Serve tools to an agent that starts this command (Model Context Protocol)."""
    if find_spec("mcp") is None:
        fail("this needs the package mcp: pip install '.[mcp]' in the checkout", 2)
    asyncio.run(_serve(url, key))


async def _serve(url: str | None, key: str | None) -> None:
    from app.plugins.mcp.tools import make_server  # needs the package

    async with client_of(url, key) as client:

        async def post(path: str, body: Mapping[str, Any]) -> tuple[int, Mapping[str, Any]]:
            try:
                response = await client.post(path, json=body)
                return response.status_code, response.json()
            except httpx.TransportError as error:
                return _no_response("generation_unavailable", type(error).__name__)
            except ValueError:
                return _no_response("engine_error", "what answers there is no cocoa service")

        await make_server(post).run_stdio_async()


def _no_response(code: str, message: str) -> tuple[int, Mapping[str, Any]]:
    return 503, {"error": {"code": code, "message": message, "field": None}}
