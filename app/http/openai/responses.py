"""From results to OpenAI's bodies, whole or in chunks."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from app.http.openai.errors import openai_error
from app.http.openai.schemas import (
    AssistantMessage,
    ChatChoice,
    ChatCompletion,
    ChatLogprobs,
    Completion,
    CompletionTokensDetails,
    OpenAIUsage,
    TextChoice,
    TextLogprobs,
    TokenLogprob,
    Uncertainty,
)
from app.http.responses import HELD_BACK, scored, tokens_of, usage_of
from app.http.schemas import ErrorBody
from app.scoring.result import Result
from models.records import Token

_DONE = b"data: [DONE]\n\n"
# Many tokenizers put one before a text's first word. A message begins without it; a text that
# continues its prompt needs it.
_BLANK = " "

_TextAndLogprob = tuple[str, float | None]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a request says of its response.

    Attributes:
        id: of the request.
        model: the name that the request gives.
        logprobs: whether it wants the log-probs of the answer's tokens.
        usage: whether its stream ends with the usage.
    """

    id: str
    model: str
    logprobs: bool = False
    usage: bool = False


def chat_completion(result: Result, wanted: Wanted) -> ChatCompletion:
    """The whole response to a chat."""
    content = result.text
    if content is not None:
        content = content.removeprefix(_BLANK)
    message = AssistantMessage(
        content=content,
        refusal=None,
        reasoning=result.reasoning,
        reasoning_content=result.reasoning,
    )
    if result.is_held_back:
        message.refusal = HELD_BACK
    choice = ChatChoice(message=message, **_choice(result, wanted, CHAT_CHUNKS))
    return ChatCompletion(**_head(result, wanted), choices=[choice])


def completion(result: Result, wanted: Wanted) -> Completion:
    """The whole response to a text."""
    choice = TextChoice(text=result.text or "", **_choice(result, wanted, TEXT_CHUNKS))
    return Completion(**_head(result, wanted), choices=[choice])


def uncertainty_of(result: Result) -> Uncertainty:
    """What a choice says beyond OpenAI's fields."""
    sample_tokens = usage_of(result).sample_tokens
    return scored(Uncertainty, result, value=result.uncertainty, sample_tokens=sample_tokens)


def chat_logprobs(known: Sequence[_TextAndLogprob], start: int = 0) -> ChatLogprobs:
    """Log-probs of consecutive tokens; `start` is ignored."""
    content = []
    for text, logprob in known:
        if logprob is not None:
            content.append(TokenLogprob(token=text, logprob=logprob, bytes=list(text.encode())))
    return ChatLogprobs(content=content)


def text_logprobs(known: Sequence[_TextAndLogprob], start: int = 0) -> TextLogprobs:
    """Log-probs of consecutive tokens, the first of which begins at the character `start`."""
    texts, logprobs, offsets = [], [], []
    for text, logprob in known:
        if logprob is not None:
            texts.append(text)
            logprobs.append(logprob)
            offsets.append(start)
        start += len(text)
    return TextLogprobs(tokens=texts, token_logprobs=logprobs, text_offset=offsets)


def without_blank(known: Sequence[_TextAndLogprob]) -> list[_TextAndLogprob]:
    """Tokens of an answer from its beginning, the first text without a leading blank."""
    tokens = list(known)
    for i, (text, logprob) in enumerate(tokens):
        if text:
            tokens[i] = text.removeprefix(_BLANK), logprob
            break
    return tokens


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
    logprobs: Callable[[Sequence[_TextAndLogprob], int], ChatLogprobs | TextLogprobs]
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
        self._created = int(time.time())
        self._is_open = self._has_begun = self._has_text = False
        self._num_characters = 0

    def tokens(self, tokens: Sequence[Token]) -> bytes:
        thoughts, known = "", []
        for token in tokens:
            if token.reasoning is not None:
                thoughts += token.reasoning
            else:
                known.append((token.text, token.logprob))
        return self._thoughts(thoughts) + self._answer(known)

    def _thoughts(self, text: str) -> bytes:
        """A chunk of the reasoning, where the endpoint's chunks have a place for it."""
        if not text or self._kind.thoughts is None:
            return b""
        choice = {"index": 0, **self._kind.thoughts(text), "logprobs": None, "finish_reason": None}
        return self._opening() + self._chunk([choice])

    def _answer(self, known: Sequence[_TextAndLogprob]) -> bytes:
        if not known:
            return b""
        texts, logprobs = zip(*known, strict=True)
        # An answer that was not written for this request alone comes without log-probs. The result
        # has them.
        if self._wanted.logprobs and None in logprobs:
            return b""
        return self._piece("".join(texts), known)

    def result(self, result: Result) -> bytes:
        chunks = b""
        if not self._has_begun:
            chunks = self._piece(result.text or "", _texts_and_logprobs(result))
        last = self._choice("", None, result.evidence.subject.answer.finish_reason)
        last["uncertainty"] = uncertainty_of(result).model_dump()
        if self._kind.is_chat:
            last["delta"]["uncertainty"] = last["uncertainty"]
        fingerprint = _fingerprint(result)
        chunks += self._chunk([last], fingerprint)
        if self._wanted.usage:
            chunks += self._chunk([], fingerprint, _usage(result).model_dump())
        return chunks + _DONE

    def error(self, error: ErrorBody, status: int) -> bytes:
        return _data(openai_error(status, error))  # without a name, as clients know it

    def _piece(self, text: str, known: Sequence[_TextAndLogprob]) -> bytes:
        """A chunk of the text of consecutive tokens; none where it would be empty."""
        self._has_begun = True
        if self._kind.is_chat and not self._has_text:
            self._has_text = text != ""
            text, known = text.removeprefix(_BLANK), without_blank(known)
        if not text and not self._wanted.logprobs:
            return self._opening()
        logprobs = None
        if self._wanted.logprobs:
            logprobs = self._kind.logprobs(known, self._num_characters).model_dump()
        self._num_characters += len(text)
        return self._opening() + self._chunk([self._choice(text, logprobs, None)])

    def _opening(self) -> bytes:
        if self._is_open or self._kind.opening is None:
            return b""
        self._is_open = True
        choice = {"index": 0, **self._kind.opening, "logprobs": None, "finish_reason": None}
        return self._chunk([choice])

    def _choice(self, text: str, logprobs: Any, finish_reason: str | None) -> dict[str, Any]:
        piece = self._kind.piece(text)
        return {"index": 0, **piece, "logprobs": logprobs, "finish_reason": finish_reason}

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


def _head(result: Result, wanted: Wanted) -> dict[str, Any]:
    return {
        "id": wanted.id,
        "created": int(time.time()),
        "model": wanted.model,
        "system_fingerprint": _fingerprint(result),
        "usage": _usage(result),
    }


def _fingerprint(result: Result) -> str | None:
    if result.generation is None:
        return None
    return result.generation.revision


def _usage(result: Result) -> OpenAIUsage:
    usage = usage_of(result)
    read, written = usage.prompt_tokens, usage.completion_tokens
    return OpenAIUsage(
        prompt_tokens=read,
        completion_tokens=written,
        total_tokens=read + written,
        completion_tokens_details=CompletionTokensDetails(reasoning_tokens=usage.reasoning_tokens),
    )


def _choice(result: Result, wanted: Wanted, kind: ChunkKind) -> dict[str, Any]:
    """What choices of both kinds have; log-probs only of the text that is given."""
    logprobs = None
    is_other = result.escalation is not None and result.escalation.text is not None
    if wanted.logprobs and not result.is_held_back and not is_other:
        known = _texts_and_logprobs(result)
        if kind.is_chat:
            known = without_blank(known)
        logprobs = kind.logprobs(known, 0)
    return {
        "logprobs": logprobs,
        "finish_reason": result.evidence.subject.answer.finish_reason,
        "uncertainty": uncertainty_of(result),
    }


def _texts_and_logprobs(result: Result) -> list[_TextAndLogprob]:
    return [(token.text, token.logprob) for token in tokens_of(result)]
