"""Everything a call can end in: one class for each code of the service, and two of our own."""

from collections.abc import Sequence
from typing import ClassVar

from cocoa_client.models import ErrorBody, Fault


class CocoaError(Exception):
    """Root of all errors; itself only for a code that this client does not know.

    Attributes:
        code: stable, for programs.
        message: for people; never holds a prompt, an answer or a key.
        field: dotted path of the field at fault, where there is one.
        details: the first faults of an invalid body.
        request_id: by which the logs of the service know the request, where it answered.
        status: HTTP status, where it answered.
        retry_after_s: seconds after which a repetition may succeed, where the service said so.
    """

    default_code: ClassVar[str] = "unknown"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        field: str | None = None,
        details: Sequence[Fault] = (),
        request_id: str | None = None,
        status: int | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = self.default_code if code is None else code
        self.field = field
        self.details = tuple(details)
        self.request_id = request_id
        self.status = status
        self.retry_after_s = retry_after_s

    def __str__(self) -> str:
        """Code, field and message."""
        named = self.code if self.field is None else f"{self.code}, {self.field}"
        return f"{named}: {self.message}"


class InvalidRequest(CocoaError):
    """The request can never succeed as it is."""

    default_code = "invalid_request"


class InvalidJson(InvalidRequest):
    """The body is not JSON."""

    default_code = "invalid_json"


class UnsupportedMediaType(InvalidRequest):
    """The body is not declared as JSON."""

    default_code = "unsupported_media_type"


class BodyTooLarge(InvalidRequest):
    """The body exceeds the limit of the deployment."""

    default_code = "body_too_large"


class PromptTooLong(InvalidRequest):
    """Prompt and new tokens do not fit the model."""

    default_code = "prompt_too_long"


class ChatTemplateError(InvalidRequest):
    """The model has no chat template, or it refused the messages."""

    default_code = "chat_template_error"


class StatisticUnavailable(InvalidRequest):
    """An estimator reads what the deployment cannot supply."""

    default_code = "statistic_unavailable"


class ProbeMissing(StatisticUnavailable):
    """A light estimator, and no probe for it is loaded."""

    default_code = "probe_missing"


class LightNeedsHiddenStates(StatisticUnavailable):
    """A light estimator, and a language model behind a server that tells no hidden states."""

    default_code = "light_needs_hidden_states"


class NotCalibrated(InvalidRequest):
    """`target_error`, and no calibrator is good for the request."""

    default_code = "not_calibrated"


class Unauthorized(CocoaError):
    """No API key, or none that is good."""

    default_code = "unauthorized"


class Forbidden(CocoaError):
    """The API key is not good for this."""

    default_code = "forbidden"


class NotFound(CocoaError):
    """Nothing is served at this address."""

    default_code = "not_found"


class MethodNotAllowed(CocoaError):
    """The address is served, but not like this."""

    default_code = "method_not_allowed"


class UnknownAnswer(CocoaError):
    """No answer of this id can be labelled."""

    default_code = "unknown_answer"


class FeedbackDisabled(CocoaError):
    """The deployment collects no labels."""

    default_code = "feedback_disabled"


class RequestTimeout(CocoaError):
    """The body took too long to arrive."""

    default_code = "request_timeout"


class Overloaded(CocoaError):
    """The admission limit of the service is reached."""

    default_code = "overloaded"


class RateLimited(CocoaError):
    """A limit of the API key is reached."""

    default_code = "rate_limited"


class Unavailable(CocoaError):
    """The service, or what it depends on, is away; a repetition may succeed."""

    default_code = "unavailable"


class NotReady(Unavailable):
    """Models are loading, or the service is going down."""

    default_code = "not_ready"


class EngineError(Unavailable):
    """The language model failed."""

    default_code = "engine_error"


class GenerationUnavailable(Unavailable):
    """No worker that generates could be reached."""

    default_code = "generation_unavailable"


class SimilarityUnavailable(Unavailable):
    """No worker that compares could be reached, or it failed."""

    default_code = "similarity_unavailable"


class FeedbackUnavailable(Unavailable):
    """Whether the label was kept is not known."""

    default_code = "feedback_unavailable"


class Unreachable(Unavailable):
    """There is no connection, or it broke before the answer was there."""

    default_code = "unreachable"


class InternalError(CocoaError):
    """A defect of the service; its logs know the `request_id`."""

    default_code = "internal_error"


class InvalidLogits(InternalError):
    """The language model returned NaN or infinity."""

    default_code = "invalid_logits"


class DeadlineExceeded(CocoaError):
    """No result within `timeout_s`, repetitions included."""

    default_code = "deadline_exceeded"


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
