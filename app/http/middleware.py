"""Pure ASGI around every request: its id, the body limit, its metrics, its line in the log."""

import asyncio
import logging
import re
import time
import uuid
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.http.errors import STATUS, defect_body, error_body, error_response, headers_of
from app.http.gate import Gate, NoSuchPath
from app.http.logs import current_request_id
from app.http.schemas import ErrorBody
from app.http.telemetry import Telemetry
from app.settings import Limits
from models.errors import CocoaError, NotReady

logger = logging.getLogger(__name__)

_NO_RESPONSE = 499  # stands in the metrics where the client went before a response began
_PROBES = ("/livez", "/readyz", "/metrics")  # asked every few seconds: no events
_MAX_DIGITS = 19  # of a length that is worth reading
_REQUEST_ID = re.compile(rb"[\x21-\x7e]{1,128}")


class RequestMiddleware:
    """Reads the body itself and replays it to the application.

    That way its limit holds for chunked bodies too.

    A client's `X-Request-ID` of up to 128 printable characters is kept, else one is made; every
    response carries it.

    Args:
        app: what is served.
        telemetry: told of every request.
        limits: of bodies.
        gate: lets requests pass; None lets all.
    """

    def __init__(
        self, app: ASGIApp, telemetry: Telemetry, limits: Limits, gate: Gate | None = None
    ) -> None:
        self._app = app
        self._telemetry = telemetry
        self._limits = limits
        self._passed = (lambda scope: nullcontext()) if gate is None else gate.passed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started_at = time.perf_counter()
        request_id = _request_id(scope)
        state = scope.setdefault("state", {})
        state["request_id"], state["started_at"] = request_id, started_at
        in_logs = current_request_id.set(request_id)
        status = _NO_RESPONSE

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [
                    *message.get("headers", ()),
                    (b"x-request-id", request_id.encode()),
                ]
            await send(message)

        try:
            async with self._passed(scope):
                body = await self._read_body(scope, receive)
                await self._app(scope, _replay(body, receive), send_with_id)
        except CocoaError as kept_out:  # by the gate: those of routes are answered there
            told = self._counted(scope, error_body(kept_out, request_id))
            headers, retry_after_s = headers_of(kept_out), kept_out.retry_after_s
            refusal = error_response(STATUS[type(kept_out)], told, retry_after_s, headers)
            await refusal(scope, receive, send_with_id)
        except NoSuchPath:
            nowhere = error_response(404, self._error(scope, "not_found", "Not Found"))
            await nowhere(scope, receive, send_with_id)
        except _RefusedBody as refused:
            error = self._error(scope, refused.code, str(refused))
            closing = {"Connection": "close"} if refused.status == 408 else None
            refusal = error_response(refused.status, error, headers=closing)
            await refusal(scope, receive, send_with_id)
        except ClientDisconnect:
            pass  # half a body is nobody's request
        except asyncio.CancelledError:
            # The server gives up draining; without a response here it would send an untyped 500.
            if status == _NO_RESPONSE:
                farewell = error_response(
                    503, self._error(scope, NotReady.code, "the service has stopped")
                )
                await farewell(scope, receive, send_with_id)
            raise
        except Exception as error:
            # Starlette's own handler would raise on to the server, whose log would quote the
            # exception's text.
            defect = self._counted(scope, defect_body(error, request_id))
            if status == _NO_RESPONSE:
                await error_response(500, defect)(scope, receive, send_with_id)
        finally:
            route = getattr(scope.get("route"), "path", "none")  # the template, never the raw path
            seconds = time.perf_counter() - started_at
            status = state.get("status", status)  # a stream that has begun can still fail
            self._telemetry.observe_request(route, status, seconds)
            _log(route, status, seconds, scope["state"])
            current_request_id.reset(in_logs)

    def _error(self, scope: Scope, code: str, message: str) -> ErrorBody:
        request_id = scope["state"]["request_id"]
        body = ErrorBody(code=code, message=message, field=None, request_id=request_id)
        return self._counted(scope, body)

    def _counted(self, scope: Scope, body: ErrorBody) -> ErrorBody:
        """The body of an error, counted, its code kept for the log."""
        self._telemetry.observe_error(body.code)
        scope["state"]["error_code"] = body.code
        return body

    async def _read_body(self, scope: Scope, receive: Receive) -> bytes:
        """The whole body.

        Raises:
            ClientDisconnect: the client went before its body was complete.
            _RefusedBody: it is too large, by its declared length or as it comes, or too slow.
        """
        max_bytes, max_s = self._limits.max_body_bytes, self._limits.max_body_s
        declared = dict(scope["headers"]).get(b"content-length", b"0").lstrip(b"0")
        if declared.isdigit() and (len(declared) > _MAX_DIGITS or int(declared) > max_bytes):
            raise _RefusedBody(413, "body_too_large", f"the body exceeds {max_bytes} bytes")
        try:
            async with asyncio.timeout(max_s) as deadline:
                return await _whole_body(receive, max_bytes)
        except TimeoutError:
            if not deadline.expired():
                raise
            message = f"the body was not there in {max_s:g} s"
            raise _RefusedBody(408, "request_timeout", message) from None


async def _whole_body(receive: Receive, max_bytes: int) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientDisconnect
        chunks.append(message.get("body", b""))
        size += len(chunks[-1])
        if size > max_bytes:
            raise _RefusedBody(413, "body_too_large", f"the body exceeds {max_bytes} bytes")
        if not message.get("more_body", False):
            return b"".join(chunks)


class _RefusedBody(Exception):
    """A body that is not read to its end.

    Attributes:
        status: of the answer.
        code: of its error.
    """

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


def _log(route: str, status: int, seconds: float, state: Mapping[str, Any]) -> None:
    level = (
        logging.DEBUG if route in _PROBES else logging.WARNING if status >= 500 else logging.INFO
    )
    fields = {
        "route": route,
        "status": status,
        "seconds": round(seconds, 4),
        "code": state.get("error_code"),
        "key": state.get("key"),
    }
    logger.log(level, "request", extra=fields)


def _request_id(scope: Scope) -> str:
    given = dict(scope["headers"]).get(b"x-request-id", b"")
    return given.decode() if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex


def _replay(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives the body once and then what the server says.

    That way a disconnect is still seen.
    """
    given = False

    async def replayed() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replayed
