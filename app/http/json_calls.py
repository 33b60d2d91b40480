"""Calls in JSON: the body read and checked, the work ended with its client, the answer written."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from operator import itemgetter
from typing import Any, TypeVar

import orjson
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from app.http.requests.faults import faults_of

Result = TypeVar("Result")

# A body of this size takes milliseconds, and is read and checked beside the event loop.
_LARGE_BYTES = 32_768
# The garbage collector visits lists and objects: they take a hundred times as long to read as the
# same bytes of numbers and text.
_MAX_CONTAINERS = 20_000
# An answer from the cache is there sooner, and is spared the price of watching its client.
_UNWATCHED_S = 0.005


def takes(*names: str) -> dict[str, Any]:
    """`openapi_extra` of a route whose body is of the schema with this name, or one of several."""
    schemas: list[dict[str, Any]] = [{"$ref": f"#/components/schemas/{name}"} for name in names]
    schema = schemas[0]
    if len(schemas) > 1:
        schema = {"oneOf": schemas, "title": "Body"}
    return {"requestBody": {"content": {"application/json": {"schema": schema}}, "required": True}}


async def read_body(request: Request, adapter: TypeAdapter[Result]) -> Result:
    """The checked body of a request.

    Large bodies take turns on the thread `app.state.body_thread`: several threads would hold up the
    event loop one after another.

    Raises:
        RequestValidationError: it is declared as JSON and is not, holds too many lists and objects,
            names a member of an object twice, or is not of the adapter's type.
        HTTPException: 400 where it is not UTF-8, nested too deep, or has a number of too many
            digits; 415 where it is neither JSON nor declared as JSON.
    """
    content = request.state.body
    content_type = request.headers.get("content-type", "")
    if len(content) < _LARGE_BYTES:
        return _body(adapter, content_type, content)
    thread: ThreadPoolExecutor = request.app.state.body_thread
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(thread, _body, adapter, content_type, content)


def is_in_background(request: Request) -> bool:
    """True where the caller's other requests go first: urgency 7 of RFC 9218."""
    return request.headers.get("priority", "").strip().startswith("u=7")


@asynccontextmanager
async def unless_gone(request: Request) -> AsyncIterator[None]:
    """Cancel the work within as soon as the client disconnects.

    FastAPI would let the work of a client that has gone run on.

    Raises:
        ClientDisconnect: the client has gone before the work was done.
    """
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    watching: asyncio.Task[None] | None = None
    has_gone = False

    async def watch() -> None:
        nonlocal has_gone
        while (await request.receive())["type"] != "http.disconnect":
            pass
        has_gone = True
        if task is not None:
            task.cancel()

    def begin() -> None:
        nonlocal watching
        watching = loop.create_task(watch())

    timer = loop.call_later(_UNWATCHED_S, begin)
    try:
        yield
    except asyncio.CancelledError:
        if has_gone:
            raise ClientDisconnect from None
        raise
    finally:
        timer.cancel()
        if watching is not None:
            watching.cancel()
        if has_gone and task is not None:
            task.uncancel()


def json_response(body: Any) -> Response:
    return Response(json_of(body), media_type="application/json")


def json_of(body: Any) -> bytes:
    """JSON of plain values, of shapes, and of plain values that hold some.

    Fields of every answer are plain values, since a shape would check each value once more.
    """
    try:
        return orjson.dumps(body, default=BaseModel.model_dump, option=orjson.OPT_SERIALIZE_NUMPY)
    except orjson.JSONEncodeError:  # of an integer beyond 64 bits, in a tool that is repeated
        return to_json(body, inf_nan_mode="null", fallback=lambda array: array.tolist())


def checked(read: Callable[[Any], Result], value: Any) -> Result:
    """The value as pydantic reads it; raises its faults as an error that every endpoint answers."""
    try:
        return read(value)
    except ValidationError as error:
        raise RequestValidationError(faults_of(error)) from None


def _body(adapter: TypeAdapter[Result], content_type: str, content: bytes) -> Result:
    """The content as the adapter reads it, where empty content is None.

    Unlike FastAPI, JSON sent with another Content-Type is accepted.
    """
    kind = content_type.partition(";")[0].strip().lower()
    is_declared = kind == "application/json" or (
        kind.startswith("application/") and kind.endswith("+json")
    )
    if not content:
        return checked(adapter.validate_python, None)
    if _num_containers(content) > _MAX_CONTAINERS:
        message = f"Body should hold at most {_MAX_CONTAINERS} lists and objects"
        raise RequestValidationError([{"type": "too_many_containers", "loc": (), "msg": message}])
    try:
        value = json.loads(content.decode("utf-8-sig"), object_pairs_hook=_members)
    except (ValueError, RecursionError) as error:
        if not is_declared:
            message = "send a JSON body, with Content-Type: application/json"
            raise HTTPException(415, message) from None
        if isinstance(error, json.JSONDecodeError):
            place = f"the body is not valid JSON at line {error.lineno}, column {error.colno}"
            raise RequestValidationError([{"type": "json_invalid", "msg": place}]) from None
        raise HTTPException(400) from error
    return checked(adapter.validate_python, value)


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these members, none of which may come twice: one would be ignored."""
    value = dict(pairs)
    if len(value) < len(pairs):
        [(twice, _)] = Counter(map(itemgetter(0), pairs)).most_common(1)
        message = f"the body names {twice!r:.60} twice in one object"
        raise RequestValidationError([{"type": "named_twice", "loc": (), "msg": message}])
    return value


def _num_containers(content: bytes) -> int:
    """The number of lists and objects that a JSON text begins; brackets in strings begin none."""
    num_brackets = content.count(b"[") + content.count(b"{")
    if num_brackets <= _MAX_CONTAINERS:
        return num_brackets
    unescaped = content.replace(rb"\\", b"").replace(rb"\"", b"")
    outside = b"".join(unescaped.split(b'"')[::2])
    return outside.count(b"[") + outside.count(b"{")
