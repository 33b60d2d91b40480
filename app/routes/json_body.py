"""Routes whose only input is a JSON body, without FastAPI's dependencies.

Those cost as much as a cached answer.
"""

import json
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import TypeAdapter, ValidationError
from starlette.exceptions import HTTPException


class JsonBodyRoute(APIRoute):
    """Calls `endpoint(body, request)`; documented, checked and refused as FastAPI does it."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The endpoint behind the checks of its body."""
        endpoint, adapter = self.endpoint, TypeAdapter[Any](self.endpoint.__annotations__["body"])

        async def handle(request: Request) -> Response:
            value = _json_of(request.headers.get("content-type", ""), await request.body())
            try:
                body = adapter.validate_python(value, from_attributes=True)
            except ValidationError as error:
                found = [
                    {**one, "loc": ("body", *one["loc"])} for one in error.errors(include_url=False)
                ]
                raise RequestValidationError(found) from None
            response: Response = await endpoint(body, request)
            return response

        return handle


def _json_of(content_type: str, content: bytes) -> Any:
    """What the content says; content of another type stays bytes, which no body is made of.

    Raises:
        RequestValidationError: it says it is JSON and is not.
        HTTPException: 400, no text, too deep, or a number of too many digits.
    """
    kind = content_type.partition(";")[0].strip().lower()
    if not (
        kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))
    ):
        return content or None
    try:
        return json.loads(content.decode("utf-8-sig"))
    except json.JSONDecodeError as error:
        where = ("body", error.pos)
        raise RequestValidationError(
            [{"type": "json_invalid", "loc": where, "msg": "JSON decode error"}]
        ) from None
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, "There was an error parsing the body") from error
