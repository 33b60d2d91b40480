"""`/mcp`: the tools over HTTP, in the gateway itself."""

import asyncio
import json
import uuid
from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request, Response
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from app.http.errors import answer_to
from app.http.logs import current_request_id
from app.plugins.mcp.tools import Post, make_server

PATH = "/mcp"


class _Tools:
    """The tools as an ASGI application, known to metrics and logs by their path."""

    def __init__(self, sessions: StreamableHTTPSessionManager) -> None:
        self._sessions = sessions
        self.route = Route(PATH, self)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = self.route
        if scope["method"] == "GET":  # a stream of messages that no call requested; there are none
            raise HTTPException(405, headers={"Allow": "POST"})
        if b"accept" not in dict(scope["headers"]):  # to the SDK that means nothing, not anything
            scope = {**scope, "headers": [*scope["headers"], (b"accept", b"application/json")]}
        await self._sessions.handle_request(scope, receive, send)


def make_tools(app: Starlette, max_bytes: int) -> tuple[StreamableHTTPSessionManager, APIRouter]:
    """The session manager, which runs while the tools are served, and their route.

    A call is one request with one response: nothing is kept between them, so that any gateway may
    answer. Names and pages that may ask are checked around all routes, and the key, too.
    """
    server = make_server(_here(app))
    server.streamable_http_app(
        streamable_http_path=PATH,
        stateless_http=True,
        json_response=True,
        max_request_body_size=max_bytes,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    router = APIRouter()
    router.routes.append(_Tools(server.session_manager).route)
    return server.session_manager, router


def _here(app: Starlette) -> Post:
    """What asks the endpoints of this application itself."""

    async def post(path: str, body: Mapping[str, Any]) -> tuple[int, Mapping[str, Any]]:
        state = {
            "request_id": current_request_id.get() or uuid.uuid4().hex,
            "body": json.dumps(body).encode(),
        }
        scope = {"type": "http", "path": path, "headers": [], "app": app, "state": state}
        try:
            response = await _answered(Request(scope, _never))
        except Exception as error:
            response = answer_to(error, scope, app.state.service.telemetry)
        return response.status_code, json.loads(bytes(response.body))

    return post


async def _answered(request: Request) -> Response:
    for route in request.app.state.endpoints:
        if isinstance(route, Route) and route.path == request.scope["path"]:
            response: Response = await route.endpoint(request)
            return response
    raise HTTPException(404)


async def _never() -> Message:
    """Wait: the client of such a request is this process, and stays."""
    message: Message = await asyncio.get_running_loop().create_future()
    return message
