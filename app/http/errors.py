"""The one shape of every error response."""

import logging
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.types import Scope

from app.http.logs import described
from app.http.openai_errors import is_of_openai, openai_error, openai_status
from app.http.schemas import ErrorBody, ErrorResponse, Fault
from app.http.telemetry import Telemetry
from models import errors

logger = logging.getLogger(__name__)

_HTTP_CODES = {
    400: "invalid_json",
    404: "not_found",
    405: "method_not_allowed",
    408: "request_timeout",
    413: "body_too_large",
    415: "unsupported_media_type",
}
# Every code that a response may have.
CODES = (
    {error.code for error in errors.answered()}
    | set(_HTTP_CODES.values())
    | {"http_error", "invalid_http", "head_too_large"}
)
# Names in requests of those fields of an `Ask` that are called differently there.
_FIELDS = {"primary": "estimator", "light": "mode", "grammar": "response_format"}
_NO_NAMES: Mapping[str, str] = MappingProxyType({})
# In a message: a word with _ in it, which is no word of a sentence.
_FIELD = re.compile(r"(?<![\w.])[a-z]+_\w+")
_MAX_FIELD_CHARACTERS = 64


def add_error_handlers(app: FastAPI, telemetry: Telemetry) -> None:
    for code in sorted(CODES):
        telemetry.counters["errors"].labels(code)  # from 0, so that `rate` sees the first

    async def handle(request: Request, error: Exception) -> Response:
        return answer_to(error, request.scope, telemetry)

    for kind in (errors.CocoaError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, handle)


def answer_to(error: Exception, scope: Scope, telemetry: Telemetry) -> Response:
    """The response to the error that ended a request."""
    status, body = counted_failure(error, scope, telemetry)
    headers: dict[str, str] = {}
    if isinstance(error, HTTPException):
        headers |= error.headers or {}
    if isinstance(error, errors.Unauthorized):
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(error, errors.CocoaError) and error.retry_after_s is not None:
        headers["Retry-After"] = str(error.retry_after_s)
    return error_response(status, body, scope["path"], headers)


def counted_failure(error: Exception, scope: Scope, telemetry: Telemetry) -> tuple[int, ErrorBody]:
    """Count the error that ended a request, keep its code for the log, and return status and body.

    The state of the scope may have `names`: those that fields of an `Ask` have in its body.
    """
    state = scope["state"]
    status, body = failure(error, state["request_id"], state.get("names", _NO_NAMES))
    state["error_code"] = body.code
    telemetry.observe_one("errors", body.code)
    return status, body


def error_response(
    status: int, body: ErrorBody, path: str, headers: dict[str, str]
) -> JSONResponse:
    """The response of an error, in the shape of the path's API.

    The cause of a 503 passes by itself: without an estimate the client may retry after a second.
    """
    if status == 503:
        headers.setdefault("Retry-After", "1")
    shaped = shaped_for(path, status, body)
    if is_of_openai(path):
        status = openai_status(status, body.code)
    return JSONResponse(shaped, status, headers)


def shaped_for(path: str, status: int, body: ErrorBody) -> dict[str, Any]:
    """The error in the shape of the API that the path belongs to."""
    if is_of_openai(path):
        return openai_error(status, body)
    return ErrorResponse(error=body).model_dump()


def failure(
    error: Exception, request_id: str, names: Mapping[str, str] = _NO_NAMES
) -> tuple[int, ErrorBody]:
    """Status and body of the error that ended a request.

    Of an exception that no handler expects, the log gets type and place; its own text stays out of
    log and body, since it may quote a prompt.
    """
    if isinstance(error, errors.CocoaError):
        return error.status, body_of(error, request_id, names)
    if isinstance(error, RequestValidationError):
        body = _invalid_body(error.errors(), request_id)
        return (400 if body.code == "invalid_json" else 422), body
    if isinstance(error, HTTPException):
        code, message = _HTTP_CODES.get(error.status_code, "http_error"), error.detail
        if error.status_code == 400:
            message = "the body is not valid JSON"
        body = ErrorBody(code=code, message=message, field=None, request_id=request_id)
        return error.status_code, body
    logger.error("request %s failed: %s", request_id, described(error))
    unknown = errors.InternalError(**errors.InternalError.example)
    return unknown.status, body_of(unknown, request_id)


def body_of(
    error: errors.CocoaError, request_id: str, names: Mapping[str, str] = _NO_NAMES
) -> ErrorBody:
    """The body of an error of ours, in which fields have the names of requests."""
    details, field, known = [], error.field or "", {**_FIELDS, **names}
    place = ".".join(field.split(".")[:2])  # a message, of a path into it
    if isinstance(error, errors.RateLimited):
        details.append(Fault(field=error.limit, message=error.message))
    return ErrorBody(
        code=error.code,
        message=_FIELD.sub(lambda found: names.get(found[0], found[0]), error.message),
        field=known.get(field) or known.get(place) or error.field,
        details=details,
        request_id=request_id,
    )


def _invalid_body(faults: Sequence[Mapping[str, Any]], request_id: str) -> ErrorBody:
    """The body for faults that `faults_of` tells: the first one, and all as its details."""
    if faults[0]["type"] == "json_invalid":
        message = faults[0]["msg"]
        return ErrorBody(code="invalid_json", message=message, field=None, request_id=request_id)
    # Their `input` is left out, because it may quote the prompt.
    details = [Fault(field=_field(fault), message=fault["msg"]) for fault in faults]
    first = details[0]
    return ErrorBody(
        code="invalid_request",
        message=first.message,
        field=first.field,
        details=details,
        request_id=request_id,
    )


def _field(fault: Mapping[str, Any]) -> str | None:
    """Dotted path of the field at fault; a cross-field check names the field of its body."""
    # Parts that begin with # are tags of unions.
    parts = [part for part in map(str, fault["loc"]) if not part.startswith("#")]
    named = fault.get("ctx", {}).get("field")
    if isinstance(named, str):
        parts.append(named)
    return ".".join(parts)[:_MAX_FIELD_CHARACTERS] or None
