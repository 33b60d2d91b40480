"""From the tokens of a stream to OpenAI's chunks."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from app.http.calls import call_info
from app.http.openai.errors import openai_error
from app.http.openai.logprobs import (
    Known,
    chat_logprobs,
    known_of,
    text_logprobs,
    without_blank,
)
from app.http.openai.pieces import Piece, Pieces
from app.http.openai.responses import (
    Said,
    Wanted,
    all_said,
    fingerprint_of,
    message_of,
    openai_usage,
    uncertainty_of,
)
from app.http.openai.schemas import ChatLogprobs, TextLogprobs
from app.http.schemas import ErrorBody
from app.scoring.result import Result
from models.records import Token
from models.units.tool_calls import Call

_DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True, slots=True)
class ChunkKind:
    """How the chunks of an endpoint look.

    Attributes:
        name: value of their field `object`.
        opening: what the choice of a first chunk without text holds; None where there is no such
            chunk.
        piece: what a choice holds for a piece of text.
        thoughts: what it holds for a piece of the reasoning; None where it has no place for it.
        logprobs: for consecutive tokens, and the character at which the first begins.
        is_chat: whether the answer begins without its leading blank, and the last piece has the
            uncertainty, too: OpenAI's own client puts a message together from pieces alone.
    """

    name: str
    opening: dict[str, Any] | None
    piece: Callable[[str], dict[str, Any]]
    thoughts: Callable[[str], dict[str, Any]] | None
    logprobs: Callable[[Sequence[Known], int], ChatLogprobs | TextLogprobs]
    is_chat: bool


def _chat_piece(text: str) -> dict[str, Any]:
    if not text:
        return {"delta": {}}
    return {"delta": {"content": text}}


def _chat_thoughts(text: str) -> dict[str, Any]:
    return {"delta": {"reasoning": text, "reasoning_content": text}}


CHAT_CHUNKS = ChunkKind(
    "chat.completion.chunk",
    {"delta": {"role": "assistant", "content": ""}},
    _chat_piece,
    _chat_thoughts,
    chat_logprobs,
    is_chat=True,
)
TEXT_CHUNKS = ChunkKind(
    "text_completion", None, lambda text: {"text": text}, None, text_logprobs, is_chat=False
)


class Chunks:
    """Events of a stream as chunks (an `EventFormat`); the last choice has the uncertainty."""

    def __init__(self, kind: ChunkKind, wanted: Wanted) -> None:
        self._kind = kind
        self._wanted = wanted
        self._pieces = Pieces(wanted, is_message=kind.is_chat)
        self._num_calls = 0
        self._created = int(time.time())
        self._is_open = False
        self._num_characters = 0

    def tokens(self, tokens: Sequence[Token]) -> bytes:
        return b"".join(map(self._piece, self._pieces.add(tokens)))

    def result(self, result: Result) -> bytes:
        answer, *others = all_said(result, self._wanted.n)
        chunks = b"".join(map(self._piece, self._pieces.finish(result, answer)))
        chunks += self._opening()
        fingerprint = fingerprint_of(result)
        for said in others:
            chunks += self._whole(said, result)
        last = self._choice("", None, answer.finish_reason)
        last["uncertainty"] = uncertainty_of(result).model_dump()
        if answer.refusal is not None:
            self._piece_of(last)["refusal"] = answer.refusal
        if self._kind.is_chat:
            last["delta"]["uncertainty"] = last["uncertainty"]
        chunks += self._chunk([last], fingerprint)
        if self._wanted.usage:
            usage = openai_usage(result, self._wanted.n).model_dump()
            chunks += self._chunk([], fingerprint, usage)
        return chunks + _DONE

    def error(self, error: ErrorBody, status: int) -> bytes:
        return _data(openai_error(status, error))  # without a name, as clients know it

    def _piece(self, piece: Piece) -> bytes:
        """Chunks of a piece; none where they would be empty, or have no place for it."""
        if piece.is_thought:
            if self._kind.thoughts is None:
                return b""
            thought = self._kind.thoughts(piece.text)
            choice = {"index": 0, **thought, "logprobs": None, "finish_reason": None}
            return self._opening() + self._chunk([choice])
        logprobs = None
        if self._wanted.logprobs and piece.known:
            logprobs = self._kind.logprobs(piece.known, self._num_characters).model_dump()
        if piece.call is not None:
            return self._opening() + self._call(piece.call, logprobs)
        if not piece.text and logprobs is None:
            return self._opening()
        self._num_characters += len(piece.text)
        return self._opening() + self._chunk([self._choice(piece.text, logprobs, None)])

    def _call(self, call: Call, logprobs: Any) -> bytes:
        told = call_info(call).model_dump()
        arguments = told["function"]["arguments"]
        told["function"]["arguments"] = ""
        first = {"index": self._num_calls, **told}
        rest = {"index": self._num_calls, "function": {"arguments": arguments}}
        self._num_calls += 1
        chunks = b""
        for part, of_part in ((first, None), (rest, logprobs)):
            choice = self._choice("", of_part, None)
            choice["delta"] = {"tool_calls": [part]}
            chunks += self._chunk([choice])
        return chunks

    def _whole(self, said: Said, result: Result) -> bytes:
        """The chunk of a choice behind the first, which is told as one."""
        known, logprobs = known_of(said.tokens) if said.tokens is not None else [], None
        if self._kind.is_chat:
            known = without_blank(known)
        if self._wanted.logprobs:
            logprobs = self._kind.logprobs(known, 0).model_dump()
        choice = self._choice(said.text or "", logprobs, said.finish_reason, said.index)
        if self._kind.is_chat:
            told = message_of(said, result).model_dump()
            choice["delta"] = {name: value for name, value in told.items() if value}
            for index, call in enumerate(choice["delta"].get("tool_calls", ())):
                call["index"] = index
        elif said.refusal is not None:
            choice["refusal"] = said.refusal
        return self._chunk([choice], fingerprint_of(result))

    def _opening(self) -> bytes:
        if self._is_open or self._kind.opening is None:
            return b""
        self._is_open = True
        choice = {"index": 0, **self._kind.opening, "logprobs": None, "finish_reason": None}
        return self._chunk([choice])

    def _piece_of(self, choice: dict[str, Any]) -> dict[str, Any]:
        if not self._kind.is_chat:
            return choice
        delta: dict[str, Any] = choice["delta"]
        return delta

    def _choice(
        self, text: str, logprobs: Any, finish_reason: str | None, index: int = 0
    ) -> dict[str, Any]:
        piece = self._kind.piece(text)
        return {"index": index, **piece, "logprobs": logprobs, "finish_reason": finish_reason}

    def _chunk(
        self, choices: list[dict[str, Any]], fingerprint: str | None = None, usage: Any = None
    ) -> bytes:
        chunk = {
            "id": self._wanted.id,
            "object": self._kind.name,
            "created": self._created,
            "model": self._wanted.model,
            "system_fingerprint": fingerprint,
            "choices": choices,
        }
        if self._wanted.usage:
            chunk["usage"] = usage
        return _data(chunk)


def _data(value: Any) -> bytes:
    return b"data: " + orjson.dumps(value) + b"\n\n"
