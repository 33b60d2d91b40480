"""Errors as OpenAI's clients read them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from typing import Any

from app.http.openai.requests import UncertaintyWanted
from app.http.schemas import ErrorBody
from models.errors import CocoaError

_PREFIX = "/v1/"
_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
# Names in these bodies of those fields of an `Ask` that are called differently there.
_PARAMS = {
    "max_new_tokens": "max_tokens",
    "return_tokens": "logprobs",
    "primary": "uncertainty.estimator",
    "light": "uncertainty.mode",
}
_IN_UNCERTAINTY = frozenset(UncertaintyWanted.model_fields) - {"temperature"}


def is_of_openai(path: str) -> bool:
    """Whether clients expect OpenAI's shapes at this path."""
    return path.startswith(_PREFIX)


def openai_error(status: int, body: ErrorBody) -> dict[str, Any]:
    """`{"error": {"message", "type", "param", "code", "request_id"}}`."""
    kind = _TYPES.get(status, "invalid_request_error")
    if status >= 500:
        kind = "server_error"
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
def named_by_params(names: Mapping[str, str]) -> Iterator[None]:
    """Rename the fields of an `Ask` in errors to what OpenAI's bodies call them.

    Args:
        names: of fields that the bodies of one endpoint call differently.

    Raises:
        CocoaError: a copy of what the block raised, since the error itself may be another request's
            too, where both share the work.
    """
    try:
        yield
    except CocoaError as error:
        if error.field is None:
            raise
        renamed = copy(error)
        if error.field in _IN_UNCERTAINTY:
            renamed.field = f"uncertainty.{error.field}"
        renamed.field = {**_PARAMS, **names}.get(error.field, renamed.field)
        raise renamed from error
