"""Bodies of OpenAI's responses, with what this service adds; shapes, no logic."""

from typing import Any, Literal

from app.http.described import ABSENT, Described
from app.http.schemas import Scored, ToolCallInfo
from models.records import FinishReason


class Uncertainty(Scored):
    """How sure the model is of a choice: one figure, and what the service's own responses say."""

    value: float | None
    """score of `estimator`, a real number; higher is less sure; null with its reason"""
    sample_tokens: int
    """≥ 0, of all samples together; no part of `usage`"""


class TopLogprob(Described):
    """A token that might stand there."""

    token: str
    """its text; of one that ends the answer the tokenizer's name of it"""
    logprob: float
    """in nats, ≤ 0, under the raw distribution"""
    bytes: list[int] | None
    """of `token` in UTF-8, each 0 to 255"""


class TokenLogprob(TopLogprob):
    """One token of the answer, the terminating one included."""

    token: str
    """its share of the answer's text"""
    top_logprobs: list[TopLogprob] = []  # noqa: RUF012 - pydantic copies it
    """as many of the likeliest tokens in its place as were asked for, the likeliest first"""


class ChatLogprobs(Described):
    """Log-probs of an answer's tokens."""

    content: list[TokenLogprob]
    """in order"""
    refusal: None = None
    """always null"""


class TextLogprobs(Described):
    """Log-probs of an answer's tokens, as the older endpoint tells them."""

    tokens: list[str]
    """texts that join to the answer, with `echo` behind those of the prompt"""
    token_logprobs: list[float | None]
    """in nats, each ≤ 0; null for the first of a prompt"""
    top_logprobs: list[dict[str, float] | None] | None = None
    """of each token the likeliest ones in its place, in nats, each ≤ 0, and of a prompt's the token
    itself beside them; null where none were asked for, and for the first of a prompt"""
    text_offset: list[int]
    """character at which each token begins, ≥ 0"""


class AssistantMessage(Described):
    """The answer."""

    role: Literal["assistant"] = "assistant"
    """always assistant"""
    content: str | None
    """null where it only calls tools, was refused, or did not pass and was to be held back"""
    refusal: str | None
    """what the model's server says in place of an answer, or why it was held back"""
    tool_calls: list[ToolCallInfo] = ABSENT
    """what the model asks to be called; absent where nothing"""
    reasoning: str = ABSENT
    """what the model wrote before it; absent where nothing, or where it was held back"""
    reasoning_content: str = ABSENT
    """the same, by the name that older clients read"""
    extra_content: dict[str, Any] = ABSENT
    """what the model's server wants back with it, such as Gemini's signature of thoughts"""
    reasoning_details: list[dict[str, Any]] = ABSENT
    """likewise, of OpenRouter's"""
    thinking_blocks: list[dict[str, Any]] = ABSENT
    """likewise, of LiteLLM's"""


class _Choice(Described):
    index: int = 0
    """≥ 0; 0 for the scored answer"""
    finish_reason: FinishReason
    """what ended the answer: `stop`, `length`, `content_filter`, of a chat `tool_calls`, or another
    word of the model's server"""
    uncertainty: Uncertainty | None
    """how sure the model is of it; null for choices behind the first, which nothing scores"""


class ChatChoice(_Choice):
    """One choice: the scored answer, or another sample."""

    message: AssistantMessage
    """the answer"""
    logprobs: ChatLogprobs | None
    """null unless asked for"""


class TextChoice(_Choice):
    """One choice: the scored answer, or another sample."""

    text: str
    """the answer; empty where it was refused, or did not pass and was to be held back"""
    refusal: str = ABSENT
    """what the model's server says in place of an answer; absent where it gives one"""
    logprobs: TextLogprobs | None
    """null unless asked for"""


class CompletionTokensDetails(Described):
    """What the tokens of a completion were."""

    reasoning_tokens: int
    """of the reasoning before the answer, ≥ 0"""


class OpenAIUsage(Described):
    """Tokens read and written for the answer; those of samples are in `uncertainty`."""

    prompt_tokens: int
    """of the prompt, ≥ 0"""
    completion_tokens: int
    """of the answer and of the reasoning before it, ≥ 0"""
    total_tokens: int
    """their sum, ≥ 0"""
    completion_tokens_details: CompletionTokensDetails
    """of the completion's tokens, what each was"""


class _Completion(Described):
    id: str
    """the request's id; labels are sent by it"""
    created: int
    """seconds since 1970, ≥ 0"""
    model: str
    """as the request names it"""
    system_fingerprint: str | None
    """revision of the model, which changes with its weights"""
    usage: OpenAIUsage
    """tokens read and written"""


class ChatCompletion(_Completion):
    """The answer to a chat."""

    object: Literal["chat.completion"] = "chat.completion"
    """always the same"""
    choices: list[ChatChoice]
    """`n` of them"""


class Completion(_Completion):
    """How a text goes on."""

    object: Literal["text_completion"] = "text_completion"
    """always the same"""
    choices: list[TextChoice]
    """`n` of them"""


class ServedModel(Described):
    """A name that requests may have as their `model`."""

    id: str
    """the name"""
    object: Literal["model"] = "model"
    """always model"""
    created: int
    """when this service began, in seconds since 1970, ≥ 0"""
    owned_by: str = "cocoa-serve"
    """always cocoa-serve"""


class ServedModels(Described):
    """All names that requests may have as their `model`."""

    object: Literal["list"] = "list"
    """always list"""
    data: list[ServedModel]
    """the names"""


class OpenAIErrorBody(Described):
    """What went wrong."""

    message: str
    """for people; names the limit, and quotes nothing of the request"""
    type: str
    """of errors with this status, in OpenAI's words"""
    param: str | None
    """the field at fault"""
    code: str
    """stable, for programs; this service's own"""
    request_id: str
    """that of X-Request-ID"""


class OpenAIError(Described):
    """Every response of these endpoints that is no success."""

    error: OpenAIErrorBody
    """what went wrong"""
