"""Routes whose only input is a JSON body, read without FastAPI's dependency solver.

The solver costs as much as a whole answer from the cache.
"""

import asyncio
import json
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any

from fastapi import Request, Response, routing
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import TypeAdapter, ValidationError
from starlette.exceptions import HTTPException

# From here on a body takes milliseconds, and is checked beside the event loop.
_LARGE_BYTES = 32_768
# Numbers and texts are read at a hundred times the pace of lists and objects, which the garbage
# collector visits.
_MAX_CONTAINERS = 20_000

# Since FastAPI builds included routes late, what a route depends on there is known from this alone.
_INCLUSION: "ContextVar[Any | None] | None" = getattr(routing, "_effective_route_context_var", None)


class JsonBodyRoute(APIRoute):
    """Calls `endpoint(body, request)`; documented, checked and refused as FastAPI does it.

    Only that JSON which is not declared as such is read, too. Large bodies are read and checked one
    after another on the thread `app.state.body_thread`: several threads would hold the event loop
    up in turn.

    Where a route, its router or the application has dependencies, or the endpoint reads more than
    its body, FastAPI's own solver serves it: a dependency may be a lock on the door.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The endpoint behind the checks of its body."""
        if self._needs_solver():
            return super().get_route_handler()
        endpoint = self.endpoint
        adapter = TypeAdapter[Any](self.endpoint.__annotations__["body"])

        def checked(content_type: str, content: bytes) -> Any:
            value = _json_of(content_type, content)
            try:
                return adapter.validate_python(value, from_attributes=True)
            except ValidationError as error:
                raise RequestValidationError(_located(error)) from None

        async def handle(request: Request) -> Response:
            content_type, content = request.headers.get("content-type", ""), await request.body()
            if len(content) < _LARGE_BYTES:
                body = checked(content_type, content)
            else:
                thread: ThreadPoolExecutor = request.app.state.body_thread
                loop = asyncio.get_running_loop()
                body = await loop.run_in_executor(thread, checked, content_type, content)
            response: Response = await endpoint(body, request)
            return response

        return handle

    def _needs_solver(self) -> bool:
        """Whether the route, as it is included, depends on something else than its body."""
        if "body" not in self.endpoint.__annotations__:
            return True
        dependant: Dependant = self.dependant
        inclusion = None if _INCLUSION is None else _INCLUSION.get()
        if inclusion is not None and inclusion.original_route is self:
            dependant = inclusion.dependant
        return bool(
            dependant.dependencies
            or dependant.path_params
            or dependant.query_params
            or dependant.header_params
            or dependant.cookie_params
        )


def _located(error: ValidationError) -> list[Any]:
    """The errors as FastAPI locates them: in the body."""
    found = []
    for one in error.errors(include_url=False):
        found.append({**one, "loc": ("body", *one["loc"])})
    return found


def _json_of(content_type: str, content: bytes) -> Any:
    """What the content says, whatever type it declares; None where there is none.

    Raises:
        RequestValidationError: it says it is JSON and is not, or holds too many lists and objects.
        HTTPException: 400, no text, too deep, or a number of too many digits; 415, neither JSON nor
            said to be.
    """
    kind = content_type.partition(";")[0].strip().lower()
    is_declared = kind == "application/json" or (
        kind.startswith("application/") and kind.endswith("+json")
    )
    if not content and not is_declared:
        return None
    if _num_containers(content) > _MAX_CONTAINERS:
        message = f"Body should hold at most {_MAX_CONTAINERS} lists and objects"
        raise RequestValidationError(
            [{"type": "too_many_containers", "loc": ("body",), "msg": message}]
        )
    try:
        return json.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        if not is_declared:
            message = "send a JSON body, with Content-Type: application/json"
            raise HTTPException(415, message) from None
        if isinstance(error, json.JSONDecodeError):
            found = {"type": "json_invalid", "loc": ("body", error.pos), "msg": "JSON decode error"}
            raise RequestValidationError([found]) from None
        raise HTTPException(400, "There was an error parsing the body") from error


def _num_containers(content: bytes) -> int:
    """Lists and objects that a JSON text begins; brackets in its strings begin none."""
    num_brackets = content.count(b"[") + content.count(b"{")
    if num_brackets <= _MAX_CONTAINERS:
        return num_brackets
    unescaped = content.replace(rb"\\", b"").replace(rb"\"", b"")
    outside = unescaped.split(b'"')[::2]
    return sum(part.count(b"[") + part.count(b"{") for part in outside)
