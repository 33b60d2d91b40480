"""From what a server says to sequences. Pure; whatever makes no sense is `Unreachable`.

Completions and chat completions differ in where things are, and in nothing else.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from models import records
from models.engines.texts import cut_at_stop, without_reasoning
from models.ranges import LOGPROBS
from models.records import Array, FinishReason
from workers.client import Unreachable

# The plugin's columns, and what they are called; see docker/vllm/README.md.
MARK_COLUMN, ENTROPY_COLUMN, FIRST_PROBE_COLUMN = 0, 1, 2
FIRST_SENTINEL = 2_000_000_000
_TOKEN_ID = "token_id:"  # noqa: S105 - a prefix, no password
_FINISHED: Mapping[str, FinishReason] = {
    "stop": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "stop_sequence": "stop",
    "tool_calls": "stop",
    "content_filter": "stop",
    "length": "length",
}


@dataclass(frozen=True, slots=True)
class Choice:
    """One generated sequence as a server tells it.

    Attributes:
        text: without the stop string that ended it.
        tokens: (T,) texts or "token_id:N"; None without log-probs.
        logprobs: (T,) nats; None without.
        tops: T times the likeliest tokens, by text or "token_id:N", the plugin's columns among
            them; None without.
        token_ids: (T,); None where it does not tell them.
        ended_by_eos: whether no stop string ended it, where the server says so.
    """

    text: str
    finish_reason: FinishReason
    tokens: tuple[str, ...] | None = None
    logprobs: Array | None = None
    tops: tuple[Mapping[str, float], ...] | None = None
    token_ids: tuple[int, ...] | None = None
    ended_by_eos: bool = False

    @property
    def num_tokens(self) -> int | None:
        """T; None where the server does not tell tokens."""
        if self.token_ids is not None:
            return len(self.token_ids)
        return None if self.logprobs is None else len(self.logprobs)

    @property
    def shows_its_end(self) -> bool:
        """Whether the token that ended it is among those with a log-prob."""
        if self.finish_reason != "stop" or self.token_ids is not None:
            return True
        tokens = self.tokens or ()
        return bool(tokens) and (
            tokens[-1] == "" or len("".join(tokens).strip()) > len(self.text.strip())
        )

    def column(self, index: int) -> Array | None:
        """The plugin's column (T,) of this index; None where a token lacks it."""
        if self.tops is None or any(sentinel(index) not in top for top in self.tops):
            return None
        return np.array([top[sentinel(index)] for top in self.tops])

    def likeliest(self, top: int) -> tuple[Array, ...] | None:
        """T times the log-probs of the `top` likeliest tokens; None where there are fewer."""
        if self.tops is None or any(len(one) < top for one in self.tops):
            return None
        return tuple(np.sort(list(one.values()))[::-1][:top] for one in self.tops)


def sentinel(index: int) -> str:
    """What a column of the plugin is called."""
    return f"{_TOKEN_ID}{FIRST_SENTINEL + index}"


def read_choices(reply: Any, num: int, stop: tuple[str, ...] = ()) -> list[Choice]:
    """The choices of a reply in their order.

    Raises:
        Unreachable: there are not `num` of them, or one makes no sense.
    """
    try:
        found = sorted(reply["choices"], key=lambda choice: choice.get("index", 0))
        choices = [_choice(one, stop) for one in found]
    except (LookupError, TypeError, ValueError, AttributeError):
        raise Unreachable("its answer makes no sense") from None
    if len(choices) != num:
        raise Unreachable(f"it answers {len(choices)} choices in place of {num}")
    return choices


def read_prompt_logprobs(choice: Any, ids: tuple[int, ...]) -> tuple[Array, tuple[str, ...]]:
    """Log-probs (T,) and texts of the last T tokens of a prompt, which are `ids`.

    Raises:
        Unreachable: they make no sense.
    """
    try:
        told = choice["prompt_logprobs"][-len(ids) :] if ids else []
        entries = [told[i][str(token)] for i, token in enumerate(ids)]
        logprobs = np.array([_number(entry["logprob"]) for entry in entries])
        texts = tuple(str(entry["decoded_token"] or "") for entry in entries)
    except (LookupError, TypeError, ValueError):
        raise Unreachable("its log-probs of a prompt make no sense") from None
    return logprobs, texts


def read_echo(reply: Any, first: int, last: int) -> tuple[Array, tuple[str, ...]]:
    """Log-probs and texts of the tokens of a prompt that lie between two of its characters.

    Args:
        reply: a completion that echoes its prompt.
        first: characters before the answer; a token that reaches beyond them counts.
        last: characters of prompt and answer; what was generated begins there.

    Raises:
        Unreachable: they make no sense.
    """
    try:
        told = reply["choices"][0]["logprobs"]
        tokens, values = told["tokens"], told["token_logprobs"]
        end, kept_texts, kept = 0, [], []
        for text, value in zip(tokens, values, strict=True):
            start, end = end, end + len(text)
            if start < last and end > first:
                kept_texts.append(text)
                kept.append(_number(value))
    except (LookupError, TypeError, ValueError):
        raise Unreachable("its log-probs of a prompt make no sense") from None
    return np.array(kept, dtype=np.float64), tuple(kept_texts)


def merged(events: list[Any]) -> dict[str, Any]:
    """One reply of all events of a stream, as if it had come at once."""
    choices: dict[int, dict[str, Any]] = {}
    rest: dict[str, Any] = {}
    for event in events:
        rest |= {name: event[name] for name in ("usage", "system_fingerprint") if event.get(name)}
        for piece in event.get("choices") or ():
            _add(choices.setdefault(piece.get("index", 0), {"logprobs": None}), piece)
    return rest | {"choices": [{"index": index} | one for index, one in choices.items()]}


def to_sequence(
    choice: Choice, *, role: str, statistics: frozenset[str], opened: bool, num_tokens: int
) -> records.Sequence:
    """The record of a choice, with what its request wants of it.

    Args:
        choice: that was read.
        role: "answer" or "sample".
        statistics: that are wanted.
        opened: whether the prompt ended in `<think>`.
        num_tokens: T where the server tells no tokens.
    """

    def wants(kind: str) -> bool:
        return f"{role}_token_{kind}" in statistics

    known = choice.num_tokens
    column = choice.column(ENTROPY_COLUMN) if wants("entropies") else None
    return records.Sequence(
        text=choice.text,
        compared_text=without_reasoning(choice.text, opened=opened).strip(),
        num_tokens=num_tokens if known is None else known,
        finish_reason=choice.finish_reason,
        token_ids=choice.token_ids,
        token_logprobs=choice.logprobs if wants("logprobs") else None,
        token_entropies=None if column is None else np.maximum(column, 0.0),
        token_texts=token_texts(choice) if wants("texts") else None,
    )


def token_texts(choice: Choice) -> tuple[str, ...] | None:
    """(T,) what each token adds to the text; None where the server tells no texts that join to it.

    The token that ended it adds nothing, whatever the server calls it.
    """
    texts = choice.tokens
    if texts is None or any(text.startswith(_TOKEN_ID) for text in texts):
        return None
    if choice.finish_reason == "stop" and "".join(texts) != choice.text and texts:
        without_end = (*texts[:-1], "")
        if "".join(without_end) == choice.text:
            return without_end
    return texts if "".join(texts).startswith(choice.text) else None


def _choice(value: Mapping[str, Any], stop: tuple[str, ...]) -> Choice:
    is_chat = "message" in value
    text = value["message"].get("content") or "" if is_chat else value["text"]
    if not isinstance(text, str):
        raise TypeError("a text is none")
    finish_reason = _FINISHED[value["finish_reason"]]
    told = value.get("logprobs")
    tokens, logprobs, tops = _chat_tokens(told) if is_chat else _tokens(told)
    ids = value.get("token_ids")
    if ids is not None:
        ids = tuple(ids)
        if not set(map(type, ids)) <= {int}:
            raise TypeError("a token id is none")
        if logprobs is not None and len(logprobs) != len(ids):
            raise ValueError("not one log-prob a token")
    cut = cut_at_stop(text, stop)
    return Choice(
        text=text if cut is None else cut,
        finish_reason=finish_reason,
        tokens=tokens,
        logprobs=logprobs,
        tops=tops,
        token_ids=ids or None,
        ended_by_eos=finish_reason == "stop" and cut is None and value.get("stop_reason") is None,
    )


def _tokens(told: Mapping[str, Any] | None) -> tuple[Any, Any, Any]:
    if not told or told.get("token_logprobs") is None:
        return None, None, None
    tokens = tuple(told["tokens"])
    tops = told.get("top_logprobs")
    return _checked(tokens, told["token_logprobs"], tops if tops and tops[0] else None)


def _chat_tokens(told: Mapping[str, Any] | None) -> tuple[Any, Any, Any]:
    if not told or told.get("content") is None:
        return None, None, None
    entries = told["content"]
    tokens = tuple(entry["token"] for entry in entries)
    tops = []
    for entry in entries:
        tops.append({one["token"]: one["logprob"] for one in entry.get("top_logprobs") or ()})
    given = tops if tops and tops[0] else None
    return _checked(tokens, [entry["logprob"] for entry in entries], given)


def _checked(
    tokens: tuple[str, ...], logprobs: list[Any], tops: list[Any] | None
) -> tuple[Any, Any, Any]:
    values = np.array([_number(value) for value in logprobs], dtype=np.float64)
    lengths = {len(tokens), len(values), len(values if tops is None else tops)}
    if len(lengths) > 1 or not set(map(type, tokens)) <= {str}:
        raise ValueError("not one log-prob a token")
    if tops is not None:
        tops = [{key: _finite(value) for key, value in top.items()} for top in tops]
    return tokens, values, None if tops is None else tuple(tops)


def _number(value: Any) -> float:
    """A log-prob; integers are none in JSON that forgets a fraction of 0."""
    low, high = LOGPROBS
    if not low <= _finite(value) <= high:
        raise ValueError("no log-prob")
    return float(value)


def _finite(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError("no number")
    return float(value)


def _add(choice: dict[str, Any], piece: Mapping[str, Any]) -> None:
    """Add what one event says of a choice to what is known of it."""
    if "delta" in piece:
        message = choice.setdefault("message", {"content": ""})
        message["content"] += piece["delta"].get("content") or ""
    else:
        choice["text"] = choice.get("text", "") + (piece.get("text") or "")
    if piece.get("token_ids") is not None:
        choice["token_ids"] = [*choice.get("token_ids", ()), *piece["token_ids"]]
    if told := piece.get("logprobs"):
        known = choice["logprobs"] or {}
        added = {name: [*known.get(name, ()), *values] for name, values in told.items() if values}
        choice["logprobs"] = known | added
    for name in ("finish_reason", "stop_reason"):
        if piece.get(name) is not None:
            choice[name] = piece[name]
