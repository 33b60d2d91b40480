"""From results to OpenAI's responses, each as a whole and as the events of a stream."""

import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import orjson
from pydantic import ConfigDict

from app.http.calls import call_info
from app.http.described import ABSENT, Described
from app.http.openai.errors import openai_error
from app.http.openai.logprobs import BLANK, Known, chat_logprobs, known_of, without_blank
from app.http.openai.pieces import Piece, Pieces
from app.http.openai.response_requests import ResponseRequest
from app.http.openai.responses import (
    Said,
    Wanted,
    all_said,
    openai_usage,
    refusal_of,
    uncertainty_of,
)
from app.http.openai.schemas import Uncertainty
from app.http.responses import timing_of
from app.http.schemas import ErrorBody, Timing
from app.scoring.result import Result
from models.records import Token
from models.units.tool_calls import Call

# What a response repeats of its request.
_REPEATED = {"instructions", "metadata", "temperature", "top_p", "max_output_tokens", "user"}
_REPEATED |= {"parallel_tool_calls", "tool_choice", "tools", "text", "reasoning", "top_logprobs"}
_REPEATED |= {"store", "truncation", "previous_response_id", "background", "service_tier"}
# By what ended the answer.
_Cut = Literal["max_output_tokens", "content_filter"]
_INCOMPLETE: Mapping[str, _Cut] = {
    "length": "max_output_tokens",
    "content_filter": "content_filter",
}


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
    arguments: str = ABSENT
    """of calls: a JSON object, as the model wrote it"""
    uncertainty: Uncertainty = ABSENT
    """of the last item: that of the response, for clients that keep items alone"""


class Incomplete(Described):
    """Why a response is incomplete."""

    reason: _Cut
    """what cut it"""


class ResponseBody(Described):
    """An answer; beside these fields it repeats those of its request."""

    model_config = ConfigDict(extra="allow")

    id: str
    """the request's id; labels are sent by it"""
    object: Literal["response"] = "response"
    """always response"""
    created_at: int
    """seconds since 1970, ≥ 0"""
    status: Literal["in_progress", "completed", "incomplete"]
    """`incomplete` where the answer was cut"""
    model: str
    """as the request names it"""
    output: list[OutputItem]
    """the reasoning, the message and the calls, as many as there are"""
    usage: ResponseUsage | None
    """tokens read and written; null while it is in progress"""
    uncertainty: Uncertainty | None
    """how sure the model is of it; null while it is in progress"""
    error: None = None
    """always null: an error is a response of its own"""
    incomplete_details: Incomplete | None = None
    """why it is incomplete; null where it is not"""


def response_of(result: Result, wanted: Wanted) -> ResponseBody:
    [said] = all_said(result, 1)
    items = []
    if said.reasoning is not None:
        items.append(_item("reasoning", said.reasoning))
    refusal = refusal_of(said, result)
    if refusal is not None:
        items.append(_item("message", refusal, is_refusal=True))
    elif said.text is not None or not said.calls:
        known = [] if said.tokens is None else without_blank(known_of(said.tokens))
        logprobs = _logprobs(known) if wanted.logprobs else []
        items.append(_item("message", (said.text or "").removeprefix(BLANK), logprobs))
    items += map(_call_item, said.calls)
    return _body(wanted, items, result, said)


def renew_response(body: ResponseBody, result: Result, request_id: str) -> None:
    body.id, body.created_at = request_id, int(time.time())
    if body.uncertainty is not None:  # the last item has the same one
        body.uncertainty.timing_ms = Timing(**timing_of(result))


class ResponseEvents:
    """Events of a stream by their types (an `EventFormat`); the last one has the whole response."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._pieces = Pieces(wanted, is_message=True)
        self._num_events = 0
        self._items: list[dict[str, Any]] = []
        self._is_open = False  # whether the last item may yet grow

    def tokens(self, tokens: Sequence[Token]) -> bytes:
        return self._opening() + b"".join(map(self._piece, self._pieces.add(tokens)))

    def result(self, result: Result) -> bytes:
        [said] = all_said(result, 1)
        events = self._opening()
        events += b"".join(map(self._piece, self._pieces.finish(result, said)))
        if not self._is_open and not said.calls:
            events += self._begin("message")
        events += self._end()
        if (refusal := refusal_of(said, result)) is not None:
            self._items.append(_item("message", refusal, is_refusal=True))
            place = {"output_index": len(self._items) - 1, "item": self._items[-1]}
            events += self._event("output_item.added", **place)
            events += self._event("output_item.done", **place)
        body = _body(self._wanted, self._items, result, said)
        return events + self._event(body.status, response=body.model_dump())

    def error(self, error: ErrorBody, status: int) -> bytes:
        # Clients raise what has an "error"; its fields are those of OpenAI's own event.
        told = openai_error(status, error)
        return self._event("error", **told["error"], **told)

    def _opening(self) -> bytes:
        if self._num_events:
            return b""
        body = _body(self._wanted, []).model_dump()
        return self._event("created", response=body) + self._event("in_progress", response=body)

    def _piece(self, piece: Piece) -> bytes:
        if piece.call is not None:
            return self._end() + self._call(piece.call)
        logprobs = _logprobs(piece.known) if self._wanted.logprobs else []
        if not piece.text:  # a token that shows nothing, such as the last one
            if self._is_open and self._items[-1]["type"] == "message":
                self._items[-1]["content"][0]["logprobs"] += logprobs
            return b""
        kind, text = "reasoning" if piece.is_thought else "message", piece.text
        events = b""
        if not self._is_open or self._items[-1]["type"] != kind:
            events, text = self._end() + self._begin(kind), text.removeprefix("\n")
        [part] = self._items[-1]["content"]
        part["text"] += text
        added: dict[str, Any] = {"delta": text}
        if kind == "message":
            added["logprobs"] = logprobs
            part["logprobs"] += logprobs
        return events + self._event(f"{part['type']}.delta", **self._place(), **added)

    def _begin(self, kind: str) -> bytes:
        self._is_open = True
        self._items.append(_item(kind, "") | {"status": "in_progress"})
        whole = self._items[-1]
        place, [part] = self._place(), whole["content"]
        added = {"output_index": place["output_index"], "item": whole | {"content": []}}
        return self._event("output_item.added", **added) + self._event(
            "content_part.added", **place, part=part
        )

    def _end(self) -> bytes:
        if not self._is_open:
            return b""
        self._is_open = False
        self._items[-1]["status"] = "completed"
        place, item = self._place(), self._items[-1]
        [part] = item["content"]
        done = {name: part[name] for name in ("text", "logprobs") if name in part}
        events = self._event(f"{part['type']}.done", **place, **done)
        events += self._event("content_part.done", **place, part=part)
        return events + self._event(
            "output_item.done", output_index=place["output_index"], item=item
        )

    def _call(self, call: Call) -> bytes:
        item = _call_item(call)
        self._items.append(item)
        place = {"item_id": item["id"], "output_index": len(self._items) - 1}
        begun = item | {"arguments": "", "status": "in_progress"}
        index, said = {"output_index": place["output_index"]}, item["arguments"]
        name = "function_call_arguments"
        return (
            self._event("output_item.added", **index, item=begun)
            + self._event(f"{name}.delta", **place, delta=said)
            + self._event(f"{name}.done", **place, name=item["name"], arguments=said)
            + self._event("output_item.done", **index, item=item)
        )

    def _place(self) -> dict[str, Any]:
        index = len(self._items) - 1
        return {"item_id": self._items[-1]["id"], "output_index": index, "content_index": 0}

    def _event(self, name: str, /, **fields: Any) -> bytes:
        kind = name if name == "error" else f"response.{name}"
        data = {"type": kind, "sequence_number": self._num_events} | fields | {"type": kind}
        self._num_events += 1
        return f"event: {kind}\ndata: ".encode() + orjson.dumps(data) + b"\n\n"


def _body(
    wanted: Wanted,
    items: Sequence[dict[str, Any]],
    result: Result | None = None,
    said: Said | None = None,
) -> ResponseBody:
    """The response with these items; without a result it is in progress."""
    body = ResponseBody(
        id=wanted.id,
        created_at=int(time.time()),
        status="in_progress",
        model=wanted.model,
        output=[OutputItem(**item) for item in items],
        usage=None,
        uncertainty=None,
        **wanted.repeated,
    )
    if result is None or said is None:
        return body
    body.status = "completed"
    if (reason := _INCOMPLETE.get(said.finish_reason)) is not None:
        body.status, body.incomplete_details = "incomplete", Incomplete(reason=reason)
        body.output[-1].status = "incomplete"
    usage = openai_usage(result, 1)
    body.usage = ResponseUsage(
        input_tokens=usage.prompt_tokens,
        output_tokens=usage.completion_tokens,
        output_tokens_details=OutputTokensDetails(
            reasoning_tokens=usage.completion_tokens_details.reasoning_tokens
        ),
        total_tokens=usage.total_tokens,
    )
    body.uncertainty = body.output[-1].uncertainty = uncertainty_of(result)
    return body


def _item(
    kind: str, text: str, logprobs: Sequence[Any] = (), *, is_refusal: bool = False
) -> dict[str, Any]:
    about: dict[str, Any] = {"id": secrets.token_hex(12), "type": kind, "status": "completed"}
    if kind == "reasoning":
        return about | {"summary": [], "content": [{"type": "reasoning_text", "text": text}]}
    part: dict[str, Any] = {"type": "output_text", "text": text, "annotations": []}
    part["logprobs"] = list(logprobs)
    if is_refusal:
        part = {"type": "refusal", "refusal": text}
    return about | {"role": "assistant", "content": [part]}


def _call_item(call: Call) -> dict[str, Any]:
    told = call_info(call)
    about = {"id": secrets.token_hex(12), "type": "function_call", "status": "completed"}
    return about | {"call_id": told.id, **told.function.model_dump()}


def _logprobs(known: Sequence[Known]) -> list[dict[str, Any]]:
    return [one.model_dump() for one in chat_logprobs(known).content]


def repeated(body: ResponseRequest) -> dict[str, Any]:
    told = body.model_dump(by_alias=True, include=_REPEATED)
    return told | {"text": told["text"] or {"format": {"type": "text"}}}
