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
    OpenAIUsage,
    TextChoice,
    TextLogprobs,
    TokenLogprob,
    Uncertainty,
)
from app.http.responses import scored_of, tokens_of, usage_of
from app.http.schemas import ErrorBody
from app.scoring.result import Result
from models.records import Token

_HELD_BACK = "the answer is held back: its uncertainty is above the threshold of target_error"
_DONE = b"data: [DONE]\n\n"

# A text and its log-prob.
_Known = tuple[str, float | None]


@dataclass(frozen=True, slots=True)
class Answering:
    """What the chunks or the whole of one response say of its request.

    Attributes:
        id: of the request.
        model: as it names it.
        with_logprobs: whether it wants the log-probs of the answer's tokens.
        with_usage: whether its stream ends with the usage.
    """

    id: str
    model: str
    with_logprobs: bool = False
    with_usage: bool = False


def chat_completion(result: Result, answering: Answering) -> ChatCompletion:
    """The whole response to a chat."""
    refusal = _HELD_BACK if result.is_held_back else None
    choice = ChatChoice(
        message=AssistantMessage(content=result.text, refusal=refusal),
        logprobs=chat_logprobs(_known(result)) if _tells_logprobs(result, answering) else None,
        finish_reason=result.evidence.subject.answer.finish_reason,
        uncertainty=uncertainty_of(result),
    )
    return ChatCompletion(**_head(result, answering), choices=[choice])


def completion(result: Result, answering: Answering) -> Completion:
    """The whole response to a text."""
    choice = TextChoice(
        text=result.text or "",
        logprobs=text_logprobs(_known(result)) if _tells_logprobs(result, answering) else None,
        finish_reason=result.evidence.subject.answer.finish_reason,
        uncertainty=uncertainty_of(result),
    )
    return Completion(**_head(result, answering), choices=[choice])


def uncertainty_of(result: Result) -> Uncertainty:
    """What a choice says beyond OpenAI's fields."""
    sample_tokens = usage_of(result).sample_tokens
    return Uncertainty(value=result.uncertainty, sample_tokens=sample_tokens, **scored_of(result))


def chat_logprobs(known: Sequence[_Known], start: int = 0) -> ChatLogprobs:
    """Log-probs of consecutive tokens; where they begin makes no difference here."""
    content = []
    for text, logprob in known:
        if logprob is not None:
            content.append(TokenLogprob(token=text, logprob=logprob, bytes=list(text.encode())))
    return ChatLogprobs(content=content)


def text_logprobs(known: Sequence[_Known], start: int = 0) -> TextLogprobs:
    """Log-probs of consecutive tokens, the first of which begins at the character `start`."""
    texts, logprobs, offsets = [], [], []
    for text, logprob in known:
        if logprob is not None:
            texts.append(text)
            logprobs.append(logprob)
            offsets.append(start)
        start += len(text)
    return TextLogprobs(tokens=texts, token_logprobs=logprobs, text_offset=offsets)


@dataclass(frozen=True, slots=True)
class ChunkKind:
    """How the chunks of an endpoint look.

    Attributes:
        name: of such an object.
        opening: what the first chunk says before any text; None where it says nothing.
        piece: what a choice says of a new piece of text.
        logprobs: of tokens, the first of which begins at a character.
    """

    name: str
    opening: dict[str, Any] | None
    piece: Callable[[str], dict[str, Any]]
    logprobs: Callable[[Sequence[_Known], int], ChatLogprobs | TextLogprobs]


CHAT_CHUNKS = ChunkKind(
    "chat.completion.chunk",
    {"delta": {"role": "assistant", "content": ""}},
    lambda text: {"delta": {"content": text} if text else {}},
    chat_logprobs,
)
TEXT_CHUNKS = ChunkKind("text_completion", None, lambda text: {"text": text}, text_logprobs)


class Chunks:
    """An `EventFormat` of chunks; the last one with a choice has its uncertainty."""

    def __init__(self, kind: ChunkKind, answering: Answering) -> None:
        self._kind = kind
        self._answering = answering
        self._created = int(time.time())
        self._is_open = self._has_told = False
        self._num_characters = 0

    def tokens(self, tokens: Sequence[Token]) -> bytes:
        """See `EventFormat`; texts that came together go together."""
        known = [(token.text, token.logprob) for token in tokens]
        # Of an answer that was not written for this request alone the result has them.
        if self._answering.with_logprobs and any(logprob is None for _, logprob in known):
            return b""
        return self._piece("".join(text for text, _ in known), known)

    def result(self, result: Result) -> bytes:
        """See `EventFormat`."""
        chunks = b""
        if not self._has_told:
            chunks = self._piece(result.text or "", _known(result))
        last = self._choice("", None, result.evidence.subject.answer.finish_reason)
        last["uncertainty"] = uncertainty_of(result).model_dump()
        chunks += self._chunk([last], result)
        if self._answering.with_usage:
            usage = _usage(result).model_dump()
            chunks += self._chunk([], result, usage=usage)
        return chunks + _DONE

    def error(self, error: ErrorBody, status: int) -> bytes:
        """See `EventFormat`; as clients know it, an event without a name."""
        return _data(openai_error(status, error))

    def _piece(self, text: str, known: Sequence[_Known]) -> bytes:
        """A chunk of the text of consecutive tokens; none where there is nothing to tell."""
        self._has_told = True
        if not text and not self._answering.with_logprobs:
            return self._opening()
        logprobs = None
        if self._answering.with_logprobs:
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
        self, choices: list[dict[str, Any]], result: Result | None = None, usage: Any = None
    ) -> bytes:
        chunk = {
            "id": self._answering.id,
            "object": self._kind.name,
            "created": self._created,
            "model": self._answering.model,
            "system_fingerprint": None if result is None else _fingerprint(result),
            "choices": choices,
        }
        if self._answering.with_usage:
            chunk["usage"] = usage
        return _data(chunk)


def _data(value: Any) -> bytes:
    return b"data: " + orjson.dumps(value) + b"\n\n"


def _head(result: Result, answering: Answering) -> dict[str, Any]:
    return {
        "id": answering.id,
        "created": int(time.time()),
        "model": answering.model,
        "system_fingerprint": _fingerprint(result),
        "usage": _usage(result),
    }


def _fingerprint(result: Result) -> str | None:
    return None if result.generation is None else result.generation.revision


def _usage(result: Result) -> OpenAIUsage:
    usage = usage_of(result)
    read, written = usage.prompt_tokens, usage.completion_tokens
    return OpenAIUsage(prompt_tokens=read, completion_tokens=written, total_tokens=read + written)


def _tells_logprobs(result: Result, answering: Answering) -> bool:
    """Whether log-probs are wanted, and are those of the text that is given."""
    is_other = result.escalation is not None and result.escalation.text is not None
    return answering.with_logprobs and not result.is_held_back and not is_other


def _known(result: Result) -> list[_Known]:
    return [(token.text, token.logprob) for token in tokens_of(result) or ()]
