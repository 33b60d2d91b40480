"""From the tokens of a stream to OpenAI's chunks."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from app.http.calls import call_info
from app.http.openai.errors import openai_error
from app.http.openai.logprobs import (
    BLANK,
    Known,
    chat_logprobs,
    known_of,
    text_logprobs,
    without_blank,
)
from app.http.openai.responses import (
    Said,
    Wanted,
    all_said,
    fingerprint_of,
    openai_usage,
    uncertainty_of,
)
from app.http.openai.schemas import ChatLogprobs, TextLogprobs
from app.http.openai.tools import CallStream
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
    """Events of a stream as chunks (an `EventFormat`); the last choice has the uncertainty.

    Args:
        kind: of the endpoint.
        wanted: of the response.
        calls: for answers that may call tools.
    """

    def __init__(self, kind: ChunkKind, wanted: Wanted, calls: CallStream | None = None) -> None:
        self._kind = kind
        self._wanted = wanted
        self._calls = calls
        self._num_calls = 0
        # Tokens of text that may yet become a call.
        self._held: list[Known] = []
        self._created = int(time.time())
        self._is_open = self._has_begun = self._has_text = False
        # Whether a log-prob is not known before the first chunk, so that the result has the answer.
        self._comes_whole = False
        self._num_characters = 0

    def tokens(self, tokens: Sequence[Token]) -> bytes:
        thoughts, known = "", []
        for token in tokens:
            if token.reasoning is not None:
                thoughts += token.reasoning
            else:
                known.append(Known(token.text, token.logprob, token.tops))
        return self._thoughts(thoughts) + self._answer(known)

    def _thoughts(self, text: str) -> bytes:
        """A chunk of the reasoning, where the endpoint's chunks have a place for it."""
        if not text or self._kind.thoughts is None:
            return b""
        choice = {"index": 0, **self._kind.thoughts(text), "logprobs": None, "finish_reason": None}
        return self._opening() + self._chunk([choice])

    def _answer(self, known: Sequence[Known]) -> bytes:
        if not known:
            return b""
        texts, logprobs, *_ = zip(*known, strict=True)
        # An answer that was not written for this request alone comes without log-probs. The result
        # has them.
        if self._wanted.logprobs and not self._has_begun:
            self._comes_whole |= None in logprobs
        if self._comes_whole:
            return b""
        return self._piece("".join(texts), known)

    def result(self, result: Result) -> bytes:
        answer, *others = all_said(result, self._wanted.n)
        chunks = b""
        if not self._has_begun:
            known: list[Known] = []
            if answer.tokens is not None:
                known = known_of(answer.tokens)
            chunks = self._piece(result.text or "", known)
        if self._calls is not None:
            chunks += self._opening() + self._of_calls(self._calls.finish())
            if self._wanted.logprobs and self._held:
                chunks += self._chunk([self._choice("", self._held_logprobs(), None)])
        fingerprint = fingerprint_of(result)
        for said in others:
            chunks += self._whole(said, fingerprint)
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

    def _piece(self, text: str, known: Sequence[Known]) -> bytes:
        """A chunk of the text of consecutive tokens; none where it would be empty."""
        self._has_begun = True
        if self._kind.is_chat and not self._has_text:
            self._has_text = text != ""
            text, known = text.removeprefix(BLANK), without_blank(known)
        if self._calls is not None:
            self._held += known
            return self._opening() + self._of_calls(self._calls.add(text))
        if not text and not self._wanted.logprobs:
            return self._opening()
        logprobs = None
        if self._wanted.logprobs:
            logprobs = self._kind.logprobs(known, self._num_characters).model_dump()
        self._num_characters += len(text)
        return self._opening() + self._chunk([self._choice(text, logprobs, None)])

    def _of_calls(self, found: Sequence[str | Call]) -> bytes:
        """Chunks of text, and of calls: the name of each before its arguments."""
        chunks = b""
        for one in found:
            if isinstance(one, str):
                chunks += self._chunk([self._choice(one, self._held_logprobs(), None)])
                continue
            told = call_info(one).model_dump()
            arguments = told["function"]["arguments"]
            told["function"]["arguments"] = ""
            first = {"index": self._num_calls, **told}
            rest = {"index": self._num_calls, "function": {"arguments": arguments}}
            self._num_calls += 1
            for part, logprobs in ((first, None), (rest, self._held_logprobs())):
                choice = self._choice("", logprobs, None)
                choice["delta"] = {"tool_calls": [part]}
                chunks += self._chunk([choice])
        return chunks

    def _held_logprobs(self) -> Any:
        """Log-probs of all tokens that no chunk has told yet."""
        known, self._held = self._held, []
        if not self._wanted.logprobs or not known:
            return None
        return self._kind.logprobs(known, 0).model_dump()

    def _whole(self, said: Said, fingerprint: str | None) -> bytes:
        """The chunk of a choice behind the first, which is told as one."""
        text, logprobs = said.text or "", None
        known = known_of(said.tokens) if said.tokens is not None else []
        if self._kind.is_chat:
            text, known = text.removeprefix(BLANK), without_blank(known)
        if self._wanted.logprobs:
            logprobs = self._kind.logprobs(known, 0).model_dump()
        choice = self._choice(text, logprobs, said.finish_reason, said.index)
        if self._kind.is_chat:
            choice["delta"]["role"] = "assistant"
        if said.refusal is not None:
            self._piece_of(choice)["refusal"] = said.refusal
        if said.calls:
            told = []
            for index, call in enumerate(said.calls):
                told.append({"index": index, **call_info(call).model_dump()})
            choice["delta"]["tool_calls"] = told
        if said.reasoning is not None and self._kind.thoughts is not None:
            choice["delta"] |= self._kind.thoughts(said.reasoning)["delta"]
        return self._chunk([choice], fingerprint)

    def _opening(self) -> bytes:
        if self._is_open or self._kind.opening is None:
            return b""
        self._is_open = True
        choice = {"index": 0, **self._kind.opening, "logprobs": None, "finish_reason": None}
        return self._chunk([choice])

    def _piece_of(self, choice: dict[str, Any]) -> dict[str, Any]:
        """Where a choice has what it says."""
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
