"""From the tokens of a stream to OpenAI's chunks."""

import time
from collections.abc import Sequence
from typing import Any

from app.http.json_calls import json_of
from app.http.openai.pieces import Piece, Pieces
from app.http.openai.responses import (
    Choice,
    Wanted,
    chat_logprobs,
    choices_of,
    fingerprint_of,
    message_of,
    openai_usage,
    text_logprobs,
    uncertainty_of,
)
from app.scoring.result import Result
from models.records import Token

_DONE = b"data: [DONE]\n\n"


class Chunks:
    """Events of a stream as chunks of a chat or a text (an `EventFormat`).

    The last choice has the uncertainty. That of a chat has it in its delta, too: OpenAI's own
    client puts a message together from deltas alone.
    """

    def __init__(self, wanted: Wanted, *, is_chat: bool) -> None:
        self._wanted = wanted
        self._is_chat = is_chat
        self._logprobs = chat_logprobs if is_chat else text_logprobs
        self._pieces = Pieces(wanted, is_message=is_chat)
        self._num_calls = self._num_characters = self._num_tokens = 0
        self._created = int(time.time())
        self._is_open = not is_chat  # the first chunk of a chat has its role and no text

    def tokens(self, tokens: Sequence[Token]) -> bytes:
        self._num_tokens += len(tokens)
        return b"".join(map(self._piece, self._pieces.add(tokens)))

    def result(self, result: Result) -> bytes:
        answer, *others = choices_of(result, self._wanted.n)
        chunks = b"".join(map(self._piece, self._pieces.finish(result, answer)))
        chunks += self._opening()
        fingerprint = fingerprint_of(result)
        for choice in others:
            chunks += self._chunk([self._whole(choice)], fingerprint)
        uncertainty, end = uncertainty_of(result), self._text("")
        if answer.refusal is not None:
            end["refusal"] = answer.refusal
        if self._is_chat:
            end |= {"uncertainty": uncertainty, **answer.message_extra}
            for index, extra in enumerate(answer.extra[1:]):
                told = {"index": index, "function": {"arguments": ""}, **extra}
                end.setdefault("tool_calls", []).append(told)
        last = self._choice(end, None, answer.finish_reason) | {"uncertainty": uncertainty}
        chunks += self._chunk([last], fingerprint)
        if self._wanted.usage:
            chunks += self._chunk([], fingerprint, openai_usage(result, self._wanted.n))
        return chunks + _DONE

    def error(self, error: dict[str, Any]) -> bytes:
        # Without a name, as clients know it.
        return b"data: " + json_of(error) + b"\n\n"

    def _piece(self, piece: Piece) -> bytes:
        """Chunks of a piece; none where they would be empty, or a text has no place for it."""
        if piece.is_thought:
            if not self._is_chat:
                return b""
            thought = {"reasoning": piece.text, "reasoning_content": piece.text}
            return self._opening() + self._chunk([self._choice(thought)])
        logprobs = None
        if self._wanted.logprobs and piece.known:
            logprobs = self._logprobs(piece.known, self._num_characters)
        if piece.call is not None:
            return self._opening() + self._call(piece.call, logprobs)
        if not piece.text and logprobs is None:
            return self._opening()
        self._num_characters += len(piece.text)
        return self._opening() + self._chunk([self._choice(self._text(piece.text), logprobs)])

    def _call(self, call: dict[str, Any], logprobs: Any) -> bytes:
        head = call | {"function": call["function"] | {"arguments": ""}}
        rest = {"function": {"arguments": call["function"]["arguments"]}}
        chunks = b""
        for part, of_part in ((head, None), (rest, logprobs)):
            delta = {"tool_calls": [{"index": self._num_calls, **part}]}
            chunks += self._chunk([self._choice(delta, of_part)])
        self._num_calls += 1
        return chunks

    def _whole(self, choice: Choice) -> dict[str, Any]:
        """The body of a choice behind the first, which is one chunk."""
        known, content = choice.known, self._text(choice.text or "")
        if self._is_chat:
            known = choice.message_known
            content = {name: value for name, value in message_of(choice).items() if value}
            for index, call in enumerate(content.get("tool_calls", ())):
                call["index"] = index
        elif choice.refusal is not None:
            content["refusal"] = choice.refusal
        logprobs = None
        if self._wanted.logprobs:
            logprobs = self._logprobs(known, 0)
        return self._choice(content, logprobs, choice.finish_reason, choice.index)

    def _opening(self) -> bytes:
        if self._is_open:
            return b""
        self._is_open = True
        return self._chunk([self._choice({"role": "assistant", "content": ""})])

    def _text(self, text: str) -> dict[str, Any]:
        if not self._is_chat:
            return {"text": text}
        if not text:
            return {}
        return {"content": text}

    def _choice(
        self,
        content: dict[str, Any],
        logprobs: Any = None,
        finish_reason: str | None = None,
        index: int = 0,
    ) -> dict[str, Any]:
        if self._is_chat:
            content = {"delta": content}
        return {"index": index, **content, "logprobs": logprobs, "finish_reason": finish_reason}

    def _chunk(
        self, choices: list[dict[str, Any]], fingerprint: str | None = None, usage: Any = None
    ) -> bytes:
        chunk = {
            "id": self._wanted.id,
            "object": "chat.completion.chunk" if self._is_chat else "text_completion",
            "created": self._created,
            "model": self._wanted.model,
            "system_fingerprint": fingerprint,
            "choices": choices,
        }
        if self._wanted.usage_so_far and usage is None:  # what is told of the prompt comes last
            usage = {"prompt_tokens": None, "completion_tokens": self._num_tokens}
            usage["total_tokens"] = None
        if self._wanted.usage:
            chunk["usage"] = usage
        return b"data: " + json_of(chunk) + b"\n\n"
