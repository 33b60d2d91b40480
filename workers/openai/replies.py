"""From a server's replies to choices. Pure; a reply that makes no sense is `Unreachable`.

Completions and chat completions differ in where things are, and in nothing else. A whole reply is
read as a stream of one event.
"""

import json
import re
from collections.abc import Mapping, Sequence
from itertools import chain, product, starmap
from operator import itemgetter
from typing import Annotated, Any

import numpy as np
from pydantic import AllowInfNan, Strict, TypeAdapter
from typing_extensions import TypedDict

from models.engines.texts import cut_at_stop
from models.records import Array, FinishReason
from workers.openai.calls_apart import joined, named, plain, with_calls
from workers.openai.choices import Choice
from workers.openai.logprobs import UNCOVERED, num_ended, unsound, without_columns
from workers.remote.calls import shaped
from workers.remote.client import Unreachable
from workers.remote.refusals import Unreadable

# Other servers' words for ends that are known here, in small letters; "given" is a word of ours.
_FINISHED: Mapping[str, FinishReason] = {
    **dict.fromkeys(("stop", "eos", "eos_token", "end_turn", "complete", "stop_sequence"), "stop"),
    **dict.fromkeys(("tool_calls", "tool_use", "function_call"), "stop"),
    **dict.fromkeys(("length", "max_tokens", "model_length"), "length"),
    **dict.fromkeys(("safety", "sensitive", "recitation", "refusal"), "content_filter"),
    "content_filter": "content_filter",
    "given": "unknown",
}
# Words for a text that the server broke off: it has failed.
_BROKEN_OFF = frozenset({"abort", "error", "network_error", "insufficient_system_resource"})
_WORD = re.compile(r"[A-Za-z0-9_.-]{1,64}")
NO_SENSE = "the server told log-probs that make no sense"
_CALLS_APART = "the server of the model tells no log-probs of the calls that it parts from text"

_Finite = Annotated[float, Strict(), AllowInfNan(False)]
_Ids = list[Annotated[int, Strict()]]


class _Token(TypedDict, total=False):
    """Of a prompt with its text, of a chat with its name and the likeliest ones in its place."""

    token: str
    logprob: _Finite | None
    decoded_token: str | None
    top_logprobs: "list[_Token] | None"


class _Logprobs(TypedDict, total=False):
    """Of completions the first three, of chat completions the last one."""

    tokens: list[str] | None
    token_logprobs: list[_Finite | None] | None
    top_logprobs: list[dict[str, _Finite | None] | None] | None
    content: list[_Token] | None


class _Message(TypedDict, total=False):
    content: str | list[dict[str, Any]] | None  # parts of Mistral's
    reasoning: str | None
    reasoning_content: str | None  # of older servers
    thinking: str | None
    refusal: str | None
    tool_calls: list[dict[str, Any]] | None
    extra_content: Any
    reasoning_details: Any
    thinking_blocks: Any


class _Piece(TypedDict, total=False):
    """A choice, or what one event of a stream adds to it."""

    index: int | None
    text: str | None
    message: _Message | None
    delta: _Message | None
    finish_reason: str | None
    stop_reason: Any
    logprobs: Any  # `_Logprobs`, or what makes no sense
    token_ids: _Ids | None
    # None of the first token of a prompt.
    prompt_logprobs: list[dict[str, _Token] | None] | None


class _Event(TypedDict, total=False):
    choices: list[_Piece] | None


_EVENT, _LOGPROBS = TypeAdapter(_Event), TypeAdapter(_Logprobs)
# What is wanted back with an answer or a call, by Gemini, OpenRouter, LiteLLM: an object or a list.
_WANTED = {"extra_content": dict, "reasoning_details": list, "thinking_blocks": list}
# Of a part of such a list: which it is, and what a stream tells piece by piece.
_PLACE, _SAID = ("type", "index"), ("text", "thinking", "summary", "data")
# Tokens, their log-probs, and the likeliest ones, as in `Choice`.
_Tokens = tuple[tuple[str, ...] | None, Array | None, tuple[Mapping[str, float], ...] | None]


def read_choices(
    events: Sequence[Any],
    num: int,
    stop: tuple[str, ...] = (),
    *,
    may_be_fewer: bool = False,
    has_ended: bool = True,
) -> list[Choice]:
    """The choices of all events of a stream, or of one whole reply, in their order.

    Not all servers say that a stream `has_ended`: a text with its finish is whole.

    Raises:
        Unreachable: there are not `num` of them, or at least one; one broke off, or makes no sense.
    """
    pieces = sorted(chain.from_iterable(map(_pieces, events)), key=_index)
    rows: list[list[_Piece]] = []
    for piece in pieces:
        # Each of a whole reply is a row: its choices may have no numbers.
        if len(events) > 1 and rows and _index(rows[-1][0]) == _index(piece):
            rows[-1].append(piece)
        else:
            rows.append([piece])
    if not has_ended and not (rows and all(last(row, "finish_reason") for row in rows)):
        raise Unreachable("its stream broke off")
    if not any("choices" in event for event in events):
        raise Unreadable("its answer cannot be understood")
    if len(rows) != num and not (may_be_fewer and 0 < len(rows) < num):
        raise Unreachable(f"it answers {len(rows)} choices in place of {num}")
    return [_choice_of(row, stop) for row in rows]


def all_taken(num: int, most: int) -> bytes:
    """The reply with choices whose reasonings take all their tokens, which some servers refuse."""
    choice = {"message": {"content": ""}, "finish_reason": "length"}
    hidden = {"reasoning_tokens": num * most}
    usage = {"completion_tokens": num * most, "completion_tokens_details": hidden}
    choices = [{**choice, "index": index} for index in range(num)]
    return json.dumps({"choices": choices, "usage": usage}).encode()


def told_by(event: Any) -> list[Choice]:
    """What one event adds to the answer, but for calls, which are told when they are whole."""
    told = []
    for piece in _pieces(event):
        if _index(piece) == 0:
            told.append(_choice_of([{**piece, "delta": {**_message(piece), "tool_calls": None}}]))
    return told


def _pieces(event: Any) -> list[_Piece]:
    return shaped(_EVENT, event, "its answer").get("choices") or []


def _index(piece: _Piece) -> int:
    return piece.get("index") or 0


def _choice_of(pieces: Sequence[_Piece], stop: tuple[str, ...] = ()) -> Choice:
    """The choice that has these pieces; raises `Unreachable` where they make no sense."""
    try:
        return _choice(pieces, stop)
    except (AttributeError, LookupError, TypeError, ValueError):
        raise Unreachable("its answer makes no sense") from None


def _message(piece: _Piece) -> _Message:
    """The message of a piece; some stream a whole one in place of a delta, some nothing."""
    return piece.get("delta") or piece.get("message") or {"content": piece.get("text")}


def last(events: Sequence[Mapping[str, Any]], name: str) -> Any:
    """The last value of this name in events, or in pieces of a choice; None where none says any."""
    for event in reversed(events):
        if event.get(name) not in (None, ""):
            return event[name]
    return None


def _choice(pieces: Sequence[_Piece], stop: tuple[str, ...]) -> Choice:
    if all(map({"text", "message", "delta"}.isdisjoint, pieces)):
        raise ValueError("it has no text")
    messages = list(map(_message, pieces))
    text, reasoning = map("".join, zip(*map(texts_in, messages), strict=True))
    refusal = ""
    ids: list[int] = []
    told: list[Any] = []  # log-probs
    calls: list[list[Any]] = []
    for piece, message in zip(pieces, messages, strict=True):
        refusal += message.get("refusal") or ""
        ids += piece.get("token_ids") or ()
        told.append(piece.get("logprobs") or {})
        for call in message.get("tool_calls") or ():
            calls.append([call])
    # Ollama may say nothing of its end, and Gemini more than a word.
    end = _WORD.match(last(pieces, "finish_reason") or "")
    finish_reason: FinishReason = "unknown"
    if end is not None:
        finish_reason = _FINISHED.get(end[0].lower(), end[0])
    if finish_reason.lower() in _BROKEN_OFF:
        raise Unreachable("it broke a text off")
    tokens = logprobs = tops = None
    why_unsound = ""
    try:
        tokens, logprobs, tops = _tokens(told)
    except (LookupError, TypeError, ValueError):
        why_unsound = NO_SENSE
    extra = [_extra(messages)]
    if calls:
        if len(pieces) > 1:
            calls = joined(chain.from_iterable(calls))
        written = list(map(named, calls))
        text, tokens = with_calls(text, written, tokens or ())
        for parts, (_, arguments) in zip(calls, starmap(plain, written), strict=True):
            if isinstance(arguments, dict):  # one that was cut off is no call
                extra.append(_extra(parts))
        if not tokens:
            why_unsound = _CALLS_APART
    num_listed = len(ids)
    if logprobs is not None:
        num_listed = num_listed or len(logprobs)
        if len(logprobs) != num_listed:
            why_unsound = UNCOVERED
    # Some servers take no stop strings. Calls that came apart from text have none.
    cut = None
    if not calls:
        cut = cut_at_stop(text, stop)
    if cut is not None:
        text, finish_reason = cut, "stop"
    if tokens is not None and logprobs is not None and finish_reason == "stop" and not calls:
        num = num_ended(tokens, text, stop, reasoning=reasoning)
        ids, tokens, logprobs, tops = ids[:num], tokens[:num], logprobs[:num], tops and tops[:num]
        if num is None and cut is not None:
            why_unsound = UNCOVERED
    is_cut = cut is not None or last(pieces, "stop_reason") is not None
    if why_unsound:
        tokens = logprobs = tops = None
    elif logprobs is not None:
        why_unsound = unsound(logprobs, tokens or (), without_columns(tops))
    return Choice(
        text,
        finish_reason,
        tokens,
        logprobs,
        tops,
        tuple(ids) or None,
        ended_by_eos=finish_reason == "stop" and not is_cut,
        reasoning=reasoning or None,
        refusal=refusal or None,
        extra=tuple(extra) * any(extra),
        unsound=why_unsound,
        num_listed=num_listed,
        prompt_tokens=last(pieces, "prompt_logprobs") or (),
    )


def _tokens(told: Sequence[Any]) -> _Tokens:
    tokens: list[str] = []
    logprobs: list[float | None] = []
    named: list[Any] = []
    for piece in map(_LOGPROBS.validate_python, told):
        content = piece.get("content") or []
        for one in content:
            tokens.append(one["token"])
            logprobs.append(one["logprob"])
            named.append([(top["token"], top["logprob"]) for top in one.get("top_logprobs") or ()])
        if not content:  # KoboldCpp has both forms
            tokens += piece.get("tokens") or []
            logprobs += piece.get("token_logprobs") or []
            named += [top and list(top.items()) for top in piece.get("top_logprobs") or ()]
    if not logprobs:
        return None, None, None
    if not (named and named[0]):
        named = []
    if len(tokens) != len(logprobs) or (named and len(named) != len(tokens)):
        raise ValueError("not one log-prob a token")
    tops: list[Mapping[str, float]] = []
    for likeliest in named:
        # Of several with one name the likeliest; without a log-prob none is ever drawn.
        possible = [one for one in likeliest if one[1] is not None]
        tops.append(dict(sorted(possible, key=itemgetter(1))))
    return tuple(tokens), np.array(logprobs, dtype=np.float64), tuple(tops) or None


def texts_in(message: Mapping[str, Any]) -> tuple[str, str]:
    """Text and reasoning of a message or a delta: strings or parts, by present or former names.

    >>> texts_in({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "So"}]}]})
    ('', 'So')
    """
    content = message.get("content") or ""
    if not isinstance(content, str):
        return _parts(content, "text"), _parts(content, "thinking")
    thoughts = message.get("reasoning") or message.get("reasoning_content")
    return content, thoughts or message.get("thinking") or ""


def _parts(parts: Sequence[Mapping[str, Any]], kind: str) -> str:
    texts = []
    for part in parts:
        if part.get("type") == kind:
            text = part[kind]
            if not isinstance(text, str):
                text = _parts(text, "text")
            texts.append(text)
    return "".join(texts)


def _extra(pieces: Sequence[Any]) -> dict[str, Any]:
    """What a server wants back with a message or a call."""
    extra: dict[str, Any] = {}
    for piece, (name, kind) in product(pieces, _WANTED.items()):
        told = piece.get(name)
        if kind is dict and isinstance(told, dict):
            extra[name] = told
        elif kind is list and isinstance(told, list) and set(map(type, told)) == {dict}:
            extra[name] = _going_on(extra.get(name, []), told)
    return extra


def _going_on(parts: list[dict[str, Any]], more: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The parts of a list, where the first of `more` may go on with the last one of a stream."""
    [*_, whole] = [{}, *map(dict, parts)]
    is_next = list(map(whole.get, _PLACE)) != list(map(more[0].get, _PLACE))
    if not whole or whole.get("signature") or is_next:
        return [*parts, *more]
    for name, value in more[0].items():
        if name in _SAID and isinstance(value, str):
            whole[name] = (whole.get(name) or "") + value
        elif value is not None:
            whole[name] = value
    return [*parts[:-1], whole, *more[1:]]
