"""The shape of a response."""

from typing import Any, Literal

from pydantic import ConfigDict

from app.http.described import ABSENT, Described
from app.http.openai.schemas import Uncertainty

Cut = Literal["max_output_tokens", "content_filter"]


class InputTokensDetails(Described):
    """What the tokens of the input were."""

    cached_tokens: int = 0
    """always 0, ≥ 0: what was read before is not told apart"""


class OutputTokensDetails(Described):
    """What the tokens of the output were."""

    reasoning_tokens: int
    """of the reasoning before the answer, ≥ 0"""


class ResponseUsage(Described):
    """Tokens read and written for the answer; those of samples are in `uncertainty`."""

    input_tokens: int
    """of the input, ≥ 0"""
    input_tokens_details: InputTokensDetails = InputTokensDetails()
    """of these, what each was"""
    output_tokens: int
    """of the answer and of the reasoning before it, ≥ 0"""
    output_tokens_details: OutputTokensDetails
    """of these, what each was"""
    total_tokens: int
    """their sum, ≥ 0"""


class OutputItem(Described):
    """A message, a reasoning, or a call of a function."""

    id: str
    """of the item"""
    type: Literal["message", "reasoning", "function_call"]
    """which of them"""
    status: Literal["in_progress", "completed", "incomplete"]
    """`incomplete` where it was cut"""
    role: Literal["assistant"] = ABSENT
    """of messages: always assistant"""
    content: list[dict[str, Any]] = ABSENT
    """of messages `output_text` with its `logprobs`, or `refusal`; of reasonings
    `reasoning_text`"""
    summary: list[dict[str, Any]] = ABSENT
    """of reasonings: always empty"""
    call_id: str = ABSENT
    """of calls: by which the item with its output names it"""
    name: str = ABSENT
    """of calls: of the function"""
    namespace: str = ABSENT
    """of calls: that the function was sent in"""
    arguments: str = ABSENT
    """of calls: a JSON object, as the model wrote it"""
    uncertainty: Uncertainty = ABSENT
    """of the last item: that of the response, for clients that keep items alone"""


class Incomplete(Described):
    """Why a response is incomplete."""

    reason: Cut
    """what cut it"""


class ResponseError(Described):
    """Why a stream failed."""

    code: str
    """that of an error response"""
    message: str
    """likewise"""


class ResponseBody(Described):
    """An answer; beside these fields it repeats those of its request."""

    model_config = ConfigDict(extra="allow")

    id: str
    """the request's id; labels are sent by it"""
    object: Literal["response"] = "response"
    """always response"""
    created_at: int
    """seconds since 1970, ≥ 0"""
    status: Literal["in_progress", "completed", "incomplete", "failed"]
    """`incomplete` where the answer was cut, `failed` at the end of a stream that failed"""
    model: str
    """as the request names it"""
    output: list[OutputItem]
    """the reasoning, the message and the calls, as many as there are"""
    usage: ResponseUsage | None
    """tokens read and written; null while it is in progress"""
    uncertainty: Uncertainty | None
    """how sure the model is of it; null while it is in progress"""
    error: ResponseError | None = None
    """why a stream failed; otherwise null: an error is a response of its own"""
    incomplete_details: Incomplete | None = None
    """why it is incomplete; null where it is not"""
