"""Every error a request can end in: one class, with its stable code, HTTP status and an example.

A class's docstring is what documentation and client say of it (docs/reference/errors.md and
`cocoa_client`). The arrow of each shows the call that failed.

    client ──→ gateway      InvalidRequest           the request can never succeed as it is
                            ├─ PromptTooLong
                            ├─ ChatTemplateError
                            ├─ NotCalibrated
                            └─ StatisticUnavailable
                               ├─ ProbeMissing
                               └─ LightNeedsHiddenStates
    client ──→ gateway      UnknownModel             a name that is none of this deployment's
    client ──→ gateway      UnknownAnswer            nothing of this id can be labelled
    client ──→ gateway      Unauthorized, Forbidden, RateLimited    what its key is good for
    gateway ──→ itself      Overloaded, NotReady, DeadlineExceeded, FeedbackDisabled, InternalError
    gateway ──→ labels      FeedbackUnavailable      the file or the Redis that keeps them
    gateway ──→ generator   EngineError, InvalidLogits, GenerationUnavailable
    gateway ──→ similarity scorer    SimilarityUnavailable
    worker ──→ device       ModelLost                never answered: it ends the worker's loop

Whatever else is raised is a defect of ours, and answered as `InternalError`.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar


def _example(message: str, **arguments: Any) -> Mapping[str, Any]:
    return MappingProxyType({"message": message, **arguments})


class CocoaError(Exception):
    """Root of the errors that are answered to a client.

    The message never holds a prompt, an answer or a key.

    Attributes:
        code: stable identifier, part of the API.
        status: of the HTTP response.
        example: arguments of an error as it is answered; a class without its own is never raised.
        field: part of the request at fault, where there is one.
        retry_after_s: seconds after which a repetition may succeed, where that is known.
    """

    code: ClassVar[str]
    status: ClassVar[int]
    example: ClassVar[Mapping[str, Any]]

    def __init__(
        self, message: str, *, field: str | None = None, retry_after_s: int | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.retry_after_s = retry_after_s


def answered(root: type[CocoaError] = CocoaError) -> list[type[CocoaError]]:
    """Every class of errors that a client can see, each behind the one that it is a kind of."""
    classes = [root] if "example" in vars(root) else []
    for kind in root.__subclasses__():
        classes += answered(kind)
    return classes


class InvalidRequest(CocoaError):
    """A field is out of its bounds, or the request can never succeed as it is.

    `field` names it, the message its limit; of an unknown one what was probably meant. An object
    may have 64 fields, a body 20,000 lists and objects.
    """

    code, status = "invalid_request", 422
    example = _example("must be one of added, cross_encoder", field="similarity")


class PromptTooLong(InvalidRequest):
    """Prompt and new tokens exceed the context or the cache; the message has the lengths.

    At `/v1` it is 400 `context_length_exceeded`, by which clients fall back to a longer model.
    """

    code = "prompt_too_long"
    example = _example(
        "the prompt has 8 tokens and max_new_tokens is 8192; the context holds 512: at most "
        "504 new tokens fit",
        field="max_new_tokens",
    )


class ChatTemplateError(InvalidRequest):
    """The model has no chat template, it refused messages or tools, or would leave one out.

    It may leave out a system message, for example; `field` names it, as `messages.0`.
    """

    code = "chat_template_error"
    example = _example("the model has no chat template", field="messages")


class StatisticUnavailable(InvalidRequest):
    """An estimator that was named reads what this deployment cannot supply."""

    code = "statistic_unavailable"
    example = _example(
        "mte reads answer_token_entropies, which this deployment cannot supply", field="estimators"
    )


class ProbeMissing(StatisticUnavailable):
    """A light estimator, and no probe for this model is loaded.

    The message says how to train one.
    """

    code = "probe_missing"
    example = _example(
        "cocoa_sp_light needs a probe for this model, and none is loaded: train one with "
        "`cocoa probe collect` and `cocoa probe train`",
        field="light",
    )


class LightNeedsHiddenStates(StatisticUnavailable):
    """A light estimator, and the model's server shows no hidden states to probes.

    The message says why.
    """

    code = "light_needs_hidden_states"
    example = _example(
        "cocoa_sp_light needs a probe: the server of the model shows no hidden states to "
        "probes: that needs the plugin cocoa-vllm",
        field="light",
    )


class NotCalibrated(InvalidRequest):
    """`target_error`, and no calibrator is loaded or it is not good for this request.

    The message says why.
    """

    code = "not_calibrated"
    example = _example(
        "no calibrator is loaded: see COCOA_CALIBRATOR; `cocoa calibrate` makes one of labelled "
        "answers",
        field="target_error",
    )


class UnknownModel(CocoaError):
    """A name of a model that is not served, of OpenAI's endpoints."""

    code, status = "model_not_found", 404
    example = _example("this model is not served here; GET /v1/models lists all", field="model")


class UnknownAnswer(CocoaError):
    """No answer of this `id` can be labelled."""

    code, status = "unknown_answer", 404
    example = _example("no answer of this id can be labelled, or not any more", field="id")


class FeedbackDisabled(CocoaError):
    """Labels are not collected here; the message names the settings."""

    code, status = "feedback_disabled", 404
    example = _example("no labels are collected: set COCOA_FEEDBACK__PATH or COCOA_FEEDBACK__URL")


class Unauthorized(CocoaError):
    """The deployment has keys, and the request has none that is good ([keys.md](keys.md))."""

    code, status = "unauthorized", 401
    example = _example("send a key, as in Authorization: Bearer KEY")


class Forbidden(CocoaError):
    """The key is not good for this `mode`, or without keys the request is of a foreign page.

    Pages are allowed by `COCOA_CORS_ORIGINS` and `COCOA_ALLOWED_HOSTS`.
    """

    code, status = "forbidden", 403
    example = _example("this key may not ask for mode full", field="light")


class RateLimited(CocoaError):
    """A limit of the key is reached.

    `details` names it, `Retry-After` says when a request passes.
    """

    code, status = "rate_limited", 429
    example = _example(
        "this key may send 60 requests a minute; the next in 3 s",
        limit="requests_per_minute",
        retry_after_s=3,
    )

    def __init__(self, message: str, *, limit: str, retry_after_s: int) -> None:
        super().__init__(message, retry_after_s=retry_after_s)
        self.limit = limit


class Overloaded(CocoaError):
    """The admission limit is reached, or that of connections.

    `Retry-After` says when a place should be free.
    """

    code, status = "overloaded", 429
    example = _example("64 requests are under way, the admission limit")


class InternalError(CocoaError):
    """A defect of the service; its logs know the `request_id`."""

    code, status = "internal_error", 500
    example = _example("an internal error; the logs know it by its request_id")


class InvalidLogits(InternalError):
    """The language model returned NaN or infinity."""

    code = "invalid_logits"
    example = _example("the language model returned NaN or infinity")


class Unavailable(CocoaError):
    """The service, or what it depends on, is away; a repetition may succeed."""

    code, status = "unavailable", 503


class NotReady(Unavailable):
    """Models are loading, or the service is going down."""

    code = "not_ready"
    example = _example("the service is starting")


class EngineError(Unavailable):
    """The language model failed; may be repeated."""

    code = "engine_error"
    example = _example("a decoding step failed: RuntimeError")


class GenerationUnavailable(Unavailable):
    """No worker or server that generates could be reached; may be repeated."""

    code = "generation_unavailable"
    example = _example("no generation worker has answered: its model is not ready")


class SimilarityUnavailable(Unavailable):
    """A model that compares failed, or no worker of one could be reached; may be repeated."""

    code = "similarity_unavailable"
    example = _example("the similarity model failed: RuntimeError")


class FeedbackUnavailable(Unavailable):
    """A label may not have been kept; may be repeated."""

    code = "feedback_unavailable"
    example = _example("Redis: unreachable")


class DeadlineExceeded(CocoaError):
    """No result within `timeout_s`."""

    code, status = "deadline_exceeded", 504
    example = _example("no result within timeout_s = 60 s")


class ModelNotLoaded(ValueError):
    """A model cannot be loaded; the message says why, and what to do. Never answered."""


class ModelLost(Exception):
    """The device or process behind a model is gone.

    No later call can succeed, so the worker's loop ends. Never answered.
    """
