"""Errors as OpenAI's clients read them."""

from typing import Any

from app.http.schemas import ErrorBody
from models.errors import PromptTooLong

_PREFIX = "/v1/"
_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


def is_of_openai(path: str) -> bool:
    """True at paths where clients expect OpenAI's shapes."""
    return path.startswith(_PREFIX)


def openai_status(status: int, code: str) -> int:
    return 400 if code == PromptTooLong.code else status


def openai_error(status: int, body: ErrorBody) -> dict[str, Any]:
    """`{"error": {"message", "type", "param", "code", "request_id"}}`."""
    code, message = body.code, body.message
    if code == PromptTooLong.code:  # by code or words clients choose a model with more context
        code = "context_length_exceeded"
        exceeded = "This model's maximum context length is exceeded, the prompt is too long"
        message = f"{exceeded}: {message}"
    kind = _TYPES.get(status, "invalid_request_error")
    if status >= 500:
        kind = "server_error"
    return {
        "error": {
            "message": message,
            "type": kind,
            "param": body.field,
            "code": code,
            "request_id": body.request_id,
        }
    }
