"""Every error a request can end in: one class, one stable `code`. HTTP statuses: `app.http.errors`.

Drawn by arrow: who asked whom when it went wrong.

    client ──→ gateway      InvalidRequest           the request can never succeed as it is
                            ├─ PromptTooLong
                            ├─ ChatTemplateError
                            └─ StatisticUnavailable
                               ├─ ProbeMissing
                               └─ LightNeedsHiddenStates
    client ──→ gateway      UnknownModel             a name that is none of this deployment's
    client ──→ gateway      UnknownAnswer            nothing of this id can be labelled
    client ──→ gateway      Unauthorized, Forbidden, RateLimited    what its key is good for
    gateway ──→ itself      Overloaded, NotReady, DeadlineExceeded, FeedbackDisabled
    gateway ──→ labels      FeedbackUnavailable      the file or the Redis that keeps them
    gateway ──→ generator   EngineError, InvalidLogits, GenerationUnavailable
    gateway ──→ comparer    SimilarityUnavailable
    worker ──→ device       ModelLost                never answered: it ends the worker's loop

Whatever else is raised is a defect of ours, and answered as `CocoaError` itself.
"""

from typing import ClassVar


class CocoaError(Exception):
    """Root of the errors that are answered to a client.

    The message never holds a prompt, an answer or a key.

    Attributes:
        code: stable identifier, part of the API.
        field: part of the request at fault, where there is one.
        retry_after_s: seconds after which a repetition may succeed, where that is known.
    """

    code: ClassVar[str] = "internal_error"

    def __init__(
        self, message: str, *, field: str | None = None, retry_after_s: int | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.retry_after_s = retry_after_s


class InvalidRequest(CocoaError):
    """The request can never succeed as it is."""

    code = "invalid_request"


class PromptTooLong(InvalidRequest):
    """Prompt and new tokens do not fit the model's context or this deployment's cache."""

    code = "prompt_too_long"


class ChatTemplateError(InvalidRequest):
    """Messages for a model without a chat template, or refused by it."""

    code = "chat_template_error"


class StatisticUnavailable(InvalidRequest):
    """A named estimator reads a statistic that this deployment cannot supply."""

    code = "statistic_unavailable"


class ProbeMissing(StatisticUnavailable):
    """A light estimator was asked for, and no probe for it is loaded."""

    code = "probe_missing"


class LightNeedsHiddenStates(StatisticUnavailable):
    """A light estimator was asked for, and the model's server shows probes no hidden states."""

    code = "light_needs_hidden_states"


class NotCalibrated(InvalidRequest):
    """A decision was asked for that no loaded calibration can make."""

    code = "not_calibrated"


class UnknownModel(CocoaError):
    """A model that is not served here."""

    code = "model_not_found"


class UnknownAnswer(CocoaError):
    """A label for an answer that nobody remembers."""

    code = "unknown_answer"


class FeedbackDisabled(CocoaError):
    """A label where none are collected."""

    code = "feedback_disabled"


class FeedbackUnavailable(CocoaError):
    """A label that is not durable, or of which nobody can say; it may be repeated."""

    code = "feedback_unavailable"


class Unauthorized(CocoaError):
    """A request without a key that is good here."""

    code = "unauthorized"


class Forbidden(CocoaError):
    """A request for what its key is not good for."""

    code = "forbidden"


class RateLimited(CocoaError):
    """A request beyond a limit of its key.

    Attributes:
        limit: name of the limit.
    """

    code = "rate_limited"

    def __init__(self, message: str, *, limit: str, retry_after_s: int) -> None:
        super().__init__(message, retry_after_s=retry_after_s)
        self.limit = limit


class Overloaded(CocoaError):
    """The admission limit is reached."""

    code = "overloaded"


class NotReady(CocoaError):
    """Models are loading, or the service is going down."""

    code = "not_ready"


class DeadlineExceeded(CocoaError):
    """The request's deadline passed before its scores were complete."""

    code = "deadline_exceeded"


class EngineError(CocoaError):
    """The generator failed; the request may be repeated."""

    code = "engine_error"


class GenerationUnavailable(CocoaError):
    """No worker or server that generates could be reached; the request may be repeated."""

    code = "generation_unavailable"


class InvalidLogits(CocoaError):
    """The language model returned NaN or infinite logits for this request."""

    code = "invalid_logits"


class SimilarityUnavailable(CocoaError):
    """No similarity model could be reached, or it failed on these pairs; may be repeated."""

    code = "similarity_unavailable"


class ModelNotLoaded(ValueError):
    """A model cannot be loaded; the message says why, and what to do. Never answered."""


class EscalationFailed(Exception):
    """The second model gave no answer; the text says why, and quotes nothing. Never answered."""


class ModelLost(Exception):
    """The device or process behind a model is gone.

    No later call can succeed, so the worker's loop ends. Never answered.
    """
