"""Everything a call can end in: one class for each code of the service, and two of our own."""

from cocoa_client.models import ErrorBody
from cocoa_client.root_error import CocoaError as CocoaError
from cocoa_client.service_errors import *  # noqa: F403
from cocoa_client.service_errors import InvalidRequest, Unavailable


class InvalidJson(InvalidRequest):
    """The body is not JSON."""

    default_code = "invalid_json"


class UnsupportedMediaType(InvalidRequest):
    """The body is not declared as JSON."""

    default_code = "unsupported_media_type"


class BodyTooLarge(InvalidRequest):
    """The body exceeds the limit of the deployment."""

    default_code = "body_too_large"


class NotFound(CocoaError):
    """Nothing is served at this address."""

    default_code = "not_found"


class MethodNotAllowed(CocoaError):
    """The address is served, but not like this."""

    default_code = "method_not_allowed"


class RequestTimeout(CocoaError):
    """The body took too long to arrive."""

    default_code = "request_timeout"


class Unreachable(Unavailable):
    """There is no connection, or it broke before the answer was there."""

    default_code = "unreachable"


class UnexpectedResponse(CocoaError):
    """What answered is not this service; perhaps a proxy before it."""

    default_code = "unexpected_response"


def _by_code(root: type[CocoaError]) -> dict[str, type[CocoaError]]:
    found = {root.default_code: root}
    for kind in root.__subclasses__():
        found |= _by_code(kind)
    return found


BY_CODE = _by_code(CocoaError)


def error_of(
    body: ErrorBody, status: int | None = None, retry_after_s: float | None = None
) -> CocoaError:
    """The exception for an error of the service."""
    kind = BY_CODE.get(body.code, CocoaError)
    return kind(
        body.message,
        code=body.code,
        field=body.field,
        details=body.details or (),
        request_id=body.request_id,
        status=status,
        retry_after_s=retry_after_s,
    )
