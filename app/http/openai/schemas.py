"""Bodies of OpenAI's responses, with what this service adds; shapes, no logic."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from app.http.schemas import Scored
from models.records import FinishReason


class Uncertainty(Scored):
    """How sure the model is of a choice: what the service's own responses say, and one figure."""

    value: Annotated[
        float | None,
        Field(
            description="score of `estimator`, a real number; higher is less sure; null with its "
            "reason"
        ),
    ]
    sample_tokens: Annotated[
        int, Field(description="≥ 0, of all samples together; no part of `usage`")
    ]


class TokenLogprob(BaseModel):
    """One token of the answer, the terminating one included."""

    token: Annotated[str, Field(description="its share of the answer's text")]
    logprob: Annotated[float, Field(description="in nats, ≤ 0, under the raw distribution")]
    bytes: Annotated[list[int] | None, Field(description="of `token` in UTF-8, each 0 to 255")]
    top_logprobs: Annotated[
        list[None], Field(description="empty: no alternatives are told here", max_length=0)
    ] = []


class ChatLogprobs(BaseModel):
    """Log-probs of an answer's tokens."""

    content: Annotated[list[TokenLogprob], Field(description="in order")]
    refusal: Annotated[None, Field(description="always null")] = None


class TextLogprobs(BaseModel):
    """Log-probs of an answer's tokens, as the older endpoint tells them."""

    tokens: Annotated[list[str], Field(description="texts that join to the answer")]
    token_logprobs: Annotated[list[float], Field(description="in nats, each ≤ 0")]
    top_logprobs: Annotated[None, Field(description="no alternatives are told here")] = None
    text_offset: Annotated[
        list[int], Field(description="character at which each token begins, ≥ 0")
    ]


class AssistantMessage(BaseModel):
    """The answer."""

    role: Annotated[Literal["assistant"], Field(description="always assistant")] = "assistant"
    content: Annotated[
        str | None, Field(description="null where it did not pass and was to be held back")
    ]
    refusal: Annotated[str | None, Field(description="why it was held back")]


class ChatChoice(BaseModel):
    """The one choice."""

    index: Annotated[Literal[0], Field(description="always 0")] = 0
    message: Annotated[AssistantMessage, Field(description="the answer")]
    logprobs: Annotated[ChatLogprobs | None, Field(description="null unless asked for")]
    finish_reason: Annotated[FinishReason, Field(description="what ended the answer")]
    uncertainty: Annotated[Uncertainty, Field(description="how sure the model is of it")]


class TextChoice(BaseModel):
    """The one choice."""

    index: Annotated[Literal[0], Field(description="always 0")] = 0
    text: Annotated[
        str, Field(description="the answer; empty where it did not pass and was to be held back")
    ]
    logprobs: Annotated[TextLogprobs | None, Field(description="null unless asked for")]
    finish_reason: Annotated[FinishReason, Field(description="what ended the answer")]
    uncertainty: Annotated[Uncertainty, Field(description="how sure the model is of it")]


class OpenAIUsage(BaseModel):
    """Tokens read and written for the answer; those of samples are in `uncertainty`."""

    prompt_tokens: Annotated[int, Field(description="of the prompt, ≥ 0")]
    completion_tokens: Annotated[int, Field(description="of the answer, ≥ 0")]
    total_tokens: Annotated[int, Field(description="their sum, ≥ 0")]


class _Completion(BaseModel):
    id: Annotated[str, Field(description="the request's id; labels are sent by it")]
    created: Annotated[int, Field(description="seconds since 1970, ≥ 0")]
    model: Annotated[str, Field(description="as the request names it")]
    system_fingerprint: Annotated[
        str | None, Field(description="revision of the model, which changes with its weights")
    ]
    usage: Annotated[OpenAIUsage, Field(description="tokens read and written")]


class ChatCompletion(_Completion):
    """The answer to a chat."""

    object: Annotated[Literal["chat.completion"], Field(description="always the same")] = (
        "chat.completion"
    )
    choices: Annotated[list[ChatChoice], Field(description="one")]


class Completion(_Completion):
    """How a text goes on."""

    object: Annotated[Literal["text_completion"], Field(description="always the same")] = (
        "text_completion"
    )
    choices: Annotated[list[TextChoice], Field(description="one")]


class ServedModel(BaseModel):
    """A name that requests may have as their `model`."""

    id: Annotated[str, Field(description="the name")]
    object: Annotated[Literal["model"], Field(description="always model")] = "model"
    created: Annotated[
        int, Field(description="when this service began, in seconds since 1970, ≥ 0")
    ]
    owned_by: Annotated[str, Field(description="always cocoa-serve")] = "cocoa-serve"


class ServedModels(BaseModel):
    """All names that requests may have as their `model`."""

    object: Annotated[Literal["list"], Field(description="always list")] = "list"
    data: Annotated[list[ServedModel], Field(description="the names")]


class OpenAIErrorBody(BaseModel):
    """What went wrong."""

    message: Annotated[
        str, Field(description="for people; names the limit, and quotes nothing of the request")
    ]
    type: Annotated[str, Field(description="of errors with this status, in OpenAI's words")]
    param: Annotated[str | None, Field(description="the field at fault")]
    code: Annotated[str, Field(description="stable, for programs; this service's own")]
    request_id: Annotated[str, Field(description="that of X-Request-ID")]


class OpenAIError(BaseModel):
    """Every response of these endpoints that is no success."""

    error: Annotated[OpenAIErrorBody, Field(description="what went wrong")]
