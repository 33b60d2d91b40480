"""From results to OpenAI's responses, each as a whole and as the events of a stream."""

import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any

from app.http.json_calls import json_of
from app.http.openai.pieces import Piece, Pieces
from app.http.openai.responses import (
    Wanted,
    chat_logprobs,
    choices_of,
    openai_usage,
    uncertainty_of,
)
from app.plugins.responses.requests import ResponseRequest, name_in
from app.plugins.responses.schemas import Cut
from app.scoring.result import Result
from models.records import FinishReason, Token

# Fields of a request that its response repeats.
_REPEATED = {"instructions", "metadata", "temperature", "top_p", "max_output_tokens", "user"}
_REPEATED |= {"parallel_tool_calls", "tool_choice", "tools", "text", "reasoning", "top_logprobs"}
_REPEATED |= {"store", "truncation", "previous_response_id", "background", "service_tier"}
# By what ended the answer.
_INCOMPLETE: Mapping[str, Cut] = {"length": "max_output_tokens", "content_filter": "content_filter"}


def response_of(result: Result, wanted: Wanted) -> dict[str, Any]:
    """A `ResponseBody`."""
    [choice] = choices_of(result, 1)
    items = []
    if choice.reasoning is not None:
        items.append(_item("reasoning", choice.reasoning))
    if choice.message_refusal is not None:
        items.append(_item("message", choice.message_refusal, is_refusal=True))
    elif choice.text is not None or not choice.calls:
        logprobs = chat_logprobs(choice.message_known)["content"] if wanted.logprobs else []
        items.append(_item("message", choice.message_text or "", logprobs))
    for call in choice.calls:
        items.append(_call_item(call, wanted))
    return _body(wanted, items, result, choice.finish_reason)


def renew_response(body: dict[str, Any], result: Result, request_id: str) -> None:
    body["id"], body["created_at"] = request_id, int(time.time())
    body["uncertainty"]["timing_ms"] = result.timing_ms  # the last item has the same one


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
        [choice] = choices_of(result, 1)
        events = self._opening()
        events += b"".join(map(self._piece, self._pieces.finish(result, choice)))
        if not self._is_open and not choice.calls:
            events += self._begin("message")
        events += self._end()
        if choice.message_refusal is not None:
            self._items.append(_item("message", choice.message_refusal, is_refusal=True))
            events += self._item_event("added") + self._item_event("done")
        body = _body(self._wanted, self._items, result, choice.finish_reason)
        return events + self._event(body["status"], response=body)

    def error(self, error: dict[str, Any]) -> bytes:
        # OpenAI's clients raise the first, whose fields are those of OpenAI's event; Codex reads
        # the second alone.
        told = {name: error["error"][name] for name in ("code", "message")}
        failed = _body(self._wanted, self._items) | {"status": "failed", "error": told}
        events = self._opening() + self._event("error", **error["error"], **error)
        return events + self._event("failed", response=failed)

    def _opening(self) -> bytes:
        if self._num_events:
            return b""
        body = _body(self._wanted, [])
        return self._event("created", response=body) + self._event("in_progress", response=body)

    def _piece(self, piece: Piece) -> bytes:
        if piece.call is not None:
            return self._end() + self._call(piece.call)
        logprobs = chat_logprobs(piece.known)["content"] if self._wanted.logprobs else []
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
        events, [part] = self._item_event("added", content=[]), self._items[-1]["content"]
        return events + self._event("content_part.added", **self._place(), part=part)

    def _end(self) -> bytes:
        if not self._is_open:
            return b""
        self._is_open = False
        self._items[-1]["status"] = "completed"
        place, [part] = self._place(), self._items[-1]["content"]
        done = {name: part[name] for name in ("text", "logprobs") if name in part}
        events = self._event(f"{part['type']}.done", **place, **done)
        events += self._event("content_part.done", **place, part=part)
        return events + self._item_event("done")

    def _call(self, call: dict[str, Any]) -> bytes:
        item, index = _call_item(call, self._wanted), len(self._items)
        self._items.append(item)
        place, text = {"item_id": item["id"], "output_index": index}, item["arguments"]
        name, done = "function_call_arguments", {"name": item["name"], "arguments": text}
        events = self._item_event("added", arguments="", status="in_progress")
        events += self._event(f"{name}.delta", **place, delta=text)
        return events + self._event(f"{name}.done", **place, **done) + self._item_event("done")

    def _item_event(self, name: str, **shown: Any) -> bytes:
        """An event of the last item, in which fields have the values `shown` in place of theirs."""
        index, item = len(self._items) - 1, self._items[-1] | shown
        return self._event(f"output_item.{name}", output_index=index, item=item)

    def _place(self) -> dict[str, Any]:
        index = len(self._items) - 1
        return {"item_id": self._items[-1]["id"], "output_index": index, "content_index": 0}

    def _event(self, name: str, /, **fields: Any) -> bytes:
        kind = name if name == "error" else f"response.{name}"
        data = {"type": kind, "sequence_number": self._num_events} | fields | {"type": kind}
        self._num_events += 1
        return f"event: {kind}\ndata: ".encode() + json_of(data) + b"\n\n"


def _body(
    wanted: Wanted,
    items: Sequence[dict[str, Any]],
    result: Result | None = None,
    finish_reason: FinishReason = "",
) -> dict[str, Any]:
    """The response with these items; without a result it is in progress."""
    body: dict[str, Any] = {
        "id": wanted.id,
        "object": "response",
        "created_at": int(time.time()),
        "status": "in_progress",
        "model": wanted.model,
        "output": items,
        "usage": None,
        "uncertainty": None,
        "error": None,
        "incomplete_details": None,
        **wanted.repeated,
    }
    if result is None:
        return body
    body["status"] = "completed"
    if (reason := _INCOMPLETE.get(finish_reason)) is not None:
        body["status"] = items[-1]["status"] = "incomplete"
        body["incomplete_details"] = {"reason": reason}
    usage = openai_usage(result, 1)
    body["usage"] = {
        "input_tokens": usage["prompt_tokens"],
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": usage["completion_tokens"],
        "output_tokens_details": usage["completion_tokens_details"],
        "total_tokens": usage["total_tokens"],
    }
    body["uncertainty"] = items[-1]["uncertainty"] = uncertainty_of(result)
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


def _call_item(call: dict[str, Any], wanted: Wanted) -> dict[str, Any]:
    about = {"id": secrets.token_hex(12), "type": "function_call", "status": "completed"}
    item = about | {"call_id": call["id"], **call["function"]}
    for tool in wanted.repeated["tools"]:
        if tool["type"] != "namespace":
            continue
        for function in tool["tools"]:
            if item["name"] == name_in(tool["name"], function["name"]):
                return item | {"name": function["name"], "namespace": tool["name"]}
    return item


def repeated(body: ResponseRequest) -> dict[str, Any]:
    fields = body.model_dump(by_alias=True, include=_REPEATED)
    return fields | {"text": fields["text"] or {"format": {"type": "text"}}}
