"""Errors as OpenAI's clients read them."""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any

from app.http.openai.requests import UncertaintyWanted
from app.http.schemas import ErrorBody
from models.errors import CocoaError

_PREFIX = "/v1/"
_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
# What the fields of an `Ask` are called in the bodies of this door, where that differs.
_PARAMS = {
    "max_new_tokens": "max_tokens",
    "return_tokens": "logprobs",
    "primary": "uncertainty.estimator",
    "light": "uncertainty.mode",
}
_IN_UNCERTAINTY = frozenset(UncertaintyWanted.model_fields) - {"temperature"}


def is_of_openai(path: str) -> bool:
    """Whether who asks at this path expects OpenAI's shapes."""
    return path.startswith(_PREFIX)


def openai_error(status: int, body: ErrorBody) -> dict[str, Any]:
    """`{"error": {"message", "type", "param", "code", "request_id"}}`."""
    kind = _TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
    return {
        "error": {
            "message": body.message,
            "type": kind,
            "param": body.field,
            "code": body.code,
            "request_id": body.request_id,
        }
    }


@contextmanager
def named_by_params() -> Iterator[None]:
    """Have errors about an ask name fields as bodies of this door do.

    Raises:
        CocoaError: what was raised within. A copy of it: who shares the work shares the error.
    """
    try:
        yield
    except CocoaError as error:
        if error.field is None:
            raise
        renamed = copy(error)
        renamed.field = _param(error.field)
        raise renamed from error


def _param(field: str) -> str:
    default = f"uncertainty.{field}" if field in _IN_UNCERTAINTY else field
    return _PARAMS.get(field, default)
