"""`/mcp`: the tools over HTTP, in the gateway itself."""

import json
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.exceptions import HTTPException
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from app.http.errors import failure
from app.http.json_calls import checked, json_of
from app.http.logs import current_request_id
from app.http.mcp.tools import FEEDBACK, GENERATE, Post, make_server
from app.http.requests.bodies import GenerateRequest, ScoreRequest, ask_of
from app.http.requests.feedback import FeedbackRequest
from app.http.responses import to_response
from app.http.schemas import ErrorResponse
from app.http.service import Service

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
        await self._sessions.handle_request(scope, receive, send)


def make_tools(service: Service, max_body_bytes: int) -> tuple[StreamableHTTPSessionManager, Route]:
    """The session manager, which runs while the tools are served, and their route.

    A call is one request with one response: nothing is kept between them, so that any gateway may
    answer. Names and pages that may ask are checked around all routes, and the key, too.
    """
    server = make_server(_here(service))
    server.streamable_http_app(
        streamable_http_path=PATH,
        stateless_http=True,
        json_response=True,
        max_request_body_size=max_body_bytes,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    return server.session_manager, _Tools(server.session_manager).route


def _here(service: Service) -> Post:
    async def post(path: str, body: Mapping[str, Any]) -> tuple[int, Mapping[str, Any]]:
        request_id = current_request_id.get() or uuid.uuid4().hex
        try:
            response = await _response(service, path, body, request_id)
        except Exception as error:
            status, fault = failure(error, request_id)
        else:
            return 200, json.loads(json_of(response))
        service.telemetry.observe_one("errors", fault.code)
        return status, ErrorResponse(error=fault).model_dump()

    return post


async def _response(service: Service, path: str, body: Mapping[str, Any], request_id: str) -> Any:
    if path == FEEDBACK:
        return await service.keep_label(checked(FeedbackRequest.model_validate, body))
    read: Callable[[Any], GenerateRequest | ScoreRequest] = ScoreRequest.model_validate
    if path == GENERATE:
        read = GenerateRequest.model_validate
    ask = ask_of(checked(read, body))
    return to_response(await service.run(ask, request_id), request_id)
