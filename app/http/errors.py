"""Error class to HTTP status, in one table, and the one shape of every error response."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from app.http.logs import places_of
from app.http.openai.errors import is_of_openai, openai_error
from app.http.requests.scoring import nearest_field
from app.http.schemas import ErrorBody, ErrorResponse, Fault
from app.http.telemetry import Telemetry
from models import errors

logger = logging.getLogger(__name__)

STATUS: dict[type[errors.CocoaError], int] = {
    errors.InvalidRequest: 422,
    errors.PromptTooLong: 422,
    errors.ChatTemplateError: 422,
    errors.StatisticUnavailable: 422,
    errors.ProbeMissing: 422,
    errors.LightNeedsHiddenStates: 422,
    errors.NotCalibrated: 422,
    errors.UnknownModel: 404,
    errors.UnknownAnswer: 404,
    errors.FeedbackDisabled: 404,
    errors.Unauthorized: 401,
    errors.Forbidden: 403,
    errors.RateLimited: 429,
    errors.Overloaded: 429,
    errors.InvalidLogits: 500,
    errors.NotReady: 503,
    errors.EngineError: 503,
    errors.GenerationUnavailable: 503,
    errors.SimilarityUnavailable: 503,
    errors.FeedbackUnavailable: 503,
    errors.DeadlineExceeded: 504,
    errors.CocoaError: 500,
}
_HTTP_CODES = {404: "not_found", 405: "method_not_allowed", 415: "unsupported_media_type"}
CODES = (
    {error.code for error in STATUS}
    | set(_HTTP_CODES.values())
    | {"invalid_json", "http_error", "body_too_large"}
    | {"invalid_http", "head_too_large", "request_timeout"}
)
# What the fields of an `Ask` are called in requests, where that differs.
_FIELDS = {"primary": "estimator", "light": "mode"}
_NO_JSON = "the body is not valid JSON"
_MAX_FIELD_CHARACTERS = 64
_MAX_FAULTS = 5


class _ErrorResponse(JSONResponse):
    """An error in the shape of the door that was asked."""

    def __init__(self, status: int, body: ErrorBody, headers: dict[str, str]) -> None:
        super().__init__(ErrorResponse(error=body).model_dump(), status, headers)
        self._error = body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if is_of_openai(scope["path"]):
            self.body = self.render(openai_error(self.status_code, self._error))
            self.headers["content-length"] = str(len(self.body))
        await super().__call__(scope, receive, send)


def error_response(
    status: int,
    body: ErrorBody,
    retry_after_s: int | None = None,
    headers: dict[str, str] | None = None,
) -> JSONResponse:
    """`{"error": {"code", "message", "field", "details", "request_id"}}`, or what OpenAI's is."""
    headers = dict(headers or {})
    if retry_after_s is not None:
        headers["Retry-After"] = str(retry_after_s)
    return _ErrorResponse(status, body, headers)


def error_body(error: errors.CocoaError, request_id: str) -> ErrorBody:
    """The body of a typed error."""
    field = None if error.field is None else _FIELDS.get(error.field, error.field)
    details = []
    if isinstance(error, errors.RateLimited):
        details.append(Fault(field=error.limit, message=error.message))
    return ErrorBody(
        code=error.code,
        message=error.message,
        field=field,
        details=details,
        request_id=request_id,
    )


def headers_of(error: errors.CocoaError) -> dict[str, str]:
    """What the response to a typed error says in its headers, beside when to come back."""
    return {"WWW-Authenticate": "Bearer"} if isinstance(error, errors.Unauthorized) else {}


def failure(error: Exception, request_id: str) -> tuple[int, ErrorBody]:
    """Status and body of whatever ended a request."""
    if isinstance(error, errors.CocoaError):
        return STATUS[type(error)], error_body(error, request_id)
    return 500, defect_body(error, request_id)


def invalid_body(found: Sequence[Mapping[str, Any]], request_id: str) -> ErrorBody:
    """The body for pydantic's errors: the first one, and the first few as its details."""
    if found[0]["type"] == "json_invalid":
        return ErrorBody(code="invalid_json", message=_NO_JSON, field=None, request_id=request_id)
    details = [_fault(error) for error in found[:_MAX_FAULTS]]
    first = details[0]
    return ErrorBody(
        code="invalid_request",
        message=first.message,
        field=first.field,
        details=details,
        request_id=request_id,
    )


def add_error_handlers(app: FastAPI, telemetry: Telemetry) -> None:
    """Answer every exception of a handler in the one shape, and count it by code."""
    for code in sorted(CODES):
        telemetry.errors.labels(code)  # from 0, so that `rate` sees the first

    def respond(
        request: Request, status: int, body: ErrorBody, retry_after_s: int | None = None
    ) -> JSONResponse:
        telemetry.observe_error(body.code)
        request.state.error_code = body.code
        return error_response(status, body, retry_after_s)

    @app.exception_handler(errors.CocoaError)
    async def on_cocoa_error(request: Request, error: errors.CocoaError) -> JSONResponse:
        return respond(
            request,
            STATUS[type(error)],
            error_body(error, request.state.request_id),
            error.retry_after_s,
        )

    @app.exception_handler(RequestValidationError)
    async def on_invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        body = invalid_body(error.errors(), request.state.request_id)
        return respond(request, 400 if body.code == "invalid_json" else 422, body)

    @app.exception_handler(HTTPException)
    async def on_http_exception(request: Request, error: HTTPException) -> JSONResponse:
        code, message = _HTTP_CODES.get(error.status_code, "http_error"), str(error.detail)
        # FastAPI's word for bytes that are not UTF-8, too deep, or of too many digits.
        if error.status_code == 400:
            code, message = "invalid_json", _NO_JSON
        response = respond(
            request,
            error.status_code,
            ErrorBody(code=code, message=message, field=None, request_id=request.state.request_id),
        )
        response.headers.update(error.headers or {})  # Allow, of a 405
        return response


def defect_body(error: Exception, request_id: str) -> ErrorBody:
    """The body for an exception that no handler expects, of which the log gets type and place.

    Its own text stays out of both, since it may quote a prompt.
    """
    places = " > ".join(places_of(error)) or "an unknown place"
    logger.error("request %s failed: %s at %s", request_id, type(error).__name__, places)
    message = "an internal error; the logs know it by its request_id"
    code = errors.CocoaError.code
    return ErrorBody(code=code, message=message, field=None, request_id=request_id)


def _fault(error: Mapping[str, Any]) -> Fault:
    """One of pydantic's errors as clients see it.

    The message names the limit; `input` is left out, because it would quote the prompt.
    """
    field, message = _field(error), error["msg"]
    if error["type"] == "extra_forbidden" and (meant := nearest_field(field or "")):
        message = f"{message}; did you mean {meant}?"
    return Fault(field=field, message=message)


def _field(error: Mapping[str, Any]) -> str | None:
    """Dotted path of the field at fault; a cross-field check names it itself."""
    named = error.get("ctx", {}).get("field")
    if isinstance(named, str):
        return named
    parts = [str(part) for part in error["loc"]]
    path = ".".join(part for part in parts if part != "body" and not part.startswith("#"))
    return path[:_MAX_FIELD_CHARACTERS] or None
