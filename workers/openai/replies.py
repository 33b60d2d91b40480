"""From what a server says to sequences. Pure; whatever makes no sense is `Unreachable`.

Completions and chat completions differ in where things are, and in nothing else.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Annotated, Any

import numpy as np
from pydantic import AllowInfNan, Strict, StringConstraints, TypeAdapter
from typing_extensions import TypedDict

from models import records
from models.engines.texts import cut_at_stop
from models.records import FINISH_REASON, Array, FinishReason
from workers.calls import read
from workers.client import Unreachable
from workers.openai.called import text_of
from workers.openai.soundness import SENTINEL, UNCOVERED, unsound

# The plugin's columns, and what they are called; see docker/vllm/README.md.
MARK_COLUMN, ENTROPY_COLUMN, FIRST_FURTHER_COLUMN = 0, 1, 2
FIRST_SENTINEL = 2_000_000_000
TOO_MANY = "it answers more tokens than were asked for"
_TOKEN_ID = "token_id:"  # noqa: S105 - a prefix, no password
_COLUMN = f"{_TOKEN_ID}{FIRST_SENTINEL // 1000}"
# Other servers' words for ends that are known here; "given" is a word of ours.
_FINISHED: Mapping[str, FinishReason] = {
    "eos": "stop",
    "eos_token": "stop",
    "stop_sequence": "stop",
    "tool_calls": "stop",
    "given": "unknown",
}
# Words for a text that the server broke off: it has failed.
_CALLS_APART = "the server of the model tells no log-probs of the calls that it parts from text"
_BROKEN_OFF = frozenset({"abort", "error"})

_Finite = Annotated[float, Strict(), AllowInfNan(False)]
_Ids = list[Annotated[int, Strict()]]


class _Top(TypedDict):
    token: str
    logprob: _Finite


class _ChatToken(TypedDict, total=False):
    token: str
    logprob: _Finite | None
    top_logprobs: list[_Top] | None


class _Logprobs(TypedDict, total=False):
    """Of completions the first three, of chat completions the last one."""

    tokens: list[str] | None
    token_logprobs: list[_Finite | None] | None
    top_logprobs: list[dict[str, _Finite] | None] | None
    content: list[_ChatToken] | None


class _Function(TypedDict):
    name: str
    arguments: str


class _ToolCall(TypedDict):
    function: _Function


class _Message(TypedDict, total=False):
    content: str | None
    reasoning: str | None
    reasoning_content: str | None  # of older servers
    refusal: str | None
    tool_calls: list[_ToolCall] | None


class _Choice(TypedDict, total=False):
    index: int
    text: str
    message: _Message
    finish_reason: Annotated[str, StringConstraints(pattern=FINISH_REASON)] | None
    stop_reason: Any
    logprobs: _Logprobs | None
    token_ids: _Ids | None


class _Reply(TypedDict):
    choices: list[_Choice]


class _PromptToken(TypedDict, total=False):
    logprob: _Finite | None
    decoded_token: str | None


_REPLY, _LOGPROBS = TypeAdapter(_Reply), TypeAdapter(list[_Finite | None])
# Of the first token of a prompt nothing is told.
_PROMPT = TypeAdapter(list[dict[str, _PromptToken] | None])
# Tokens, their log-probs, and the likeliest ones, as in `Choice`.
_Tokens = tuple[tuple[str, ...] | None, Array | None, tuple[Mapping[str, float], ...] | None]


@dataclass(frozen=True, slots=True)
class Choice:
    """One generated sequence as a server tells it.

    Attributes:
        text: without the stop string that ended it.
        tokens: (T,) texts or "token_id:N"; None without log-probs.
        logprobs: (T,) nats, NaN where one is missing; None without.
        tops: T times the likeliest tokens, by text or "token_id:N", the plugin's columns among
            them; None without.
        token_ids: (T,); None where it does not tell them.
        ended_by_eos: whether no stop string ended it, where the server says so.
        reasoning: that the server tells apart; None where it tells none.
        refusal: that it tells in place of an answer; None where it tells none.
        unsound: why its log-probs are none; "" where they may be read.
    """

    text: str
    finish_reason: FinishReason
    tokens: tuple[str, ...] | None = None
    logprobs: Array | None = None
    tops: tuple[Mapping[str, float], ...] | None = None
    token_ids: tuple[int, ...] | None = None
    ended_by_eos: bool = False
    reasoning: str | None = None
    refusal: str | None = None
    unsound: str = ""

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
        shown = "".join(tokens).rstrip()
        return bool(tokens) and (tokens[-1] == "" or not shown.endswith(self.text.rstrip()))

    def column(self, index: int) -> Array | None:
        """The plugin's column (T,) of this index; None where a token lacks it."""
        name = sentinel(index)
        try:
            return None if self.tops is None else np.array([top[name] for top in self.tops])
        except KeyError:
            return None

    def likeliest(self, top: int) -> tuple[Array, ...] | None:
        """T times the log-probs of the `top` likeliest tokens; None where there are fewer."""
        if self.tops is None or min(map(len, self.tops), default=top) < top:
            return None
        return tuple(np.sort(list(one.values()))[::-1][:top] for one in self.tops)


def sentinel(index: int) -> str:
    """What a column of the plugin is called."""
    return f"{_TOKEN_ID}{FIRST_SENTINEL + index}"


def read_choices(
    reply: Any, num: int, stop: tuple[str, ...] = (), *, may_be_fewer: bool = False
) -> list[Choice]:
    """The choices of a reply in their order.

    Raises:
        Unreachable: there are not `num` of them, or at least one, or one makes no sense.
    """
    found = read(_REPLY, reply, "its answer")["choices"]
    if len(found) != num and not (may_be_fewer and 0 < len(found) < num):
        raise Unreachable(f"it answers {len(found)} choices in place of {num}")
    try:
        return [_choice(one, stop) for one in sorted(found, key=_index)]
    except (LookupError, TypeError, ValueError):
        raise Unreachable("its answer makes no sense") from None


def read_prompt_logprobs(choice: Any, ids: tuple[int, ...]) -> tuple[Array, tuple[str, ...]]:
    """Log-probs (T,) and texts of the last T tokens of a prompt, which are `ids`.

    Raises:
        Unreachable: they make no sense.
    """
    told = read(_PROMPT, choice.get("prompt_logprobs"), "its log-probs of a prompt")
    logprobs, texts = [], []
    try:
        for token, entry in zip(ids, told[len(told) - len(ids) :], strict=True):
            of_token = (entry or {})[str(token)]
            logprobs.append(of_token["logprob"])
            texts.append(of_token["decoded_token"] or "")
    except (LookupError, ValueError):
        raise Unreachable("its log-probs of a prompt make no sense") from None
    return np.array(logprobs, dtype=np.float64), tuple(texts)


def read_echo(reply: Any, first: int, last: int) -> tuple[Array, tuple[str, ...]]:
    """Log-probs and texts of the tokens of a prompt that lie between two of its characters.

    Args:
        reply: a completion that echoes its prompt.
        first: characters before the answer; a token that reaches beyond them counts.
        last: characters of prompt and answer; what was generated begins there.

    Raises:
        Unreachable: they make no sense.
    """
    end, texts, values = 0, [], []
    try:
        told = reply["choices"][0]["logprobs"]
        for text, value in zip(told["tokens"], told["token_logprobs"], strict=True):
            start, end = end, end + len(text)
            if start < last and end > first:
                texts.append(text)
                values.append(value)
    except (LookupError, TypeError, ValueError):
        raise Unreachable("its log-probs of a prompt make no sense") from None
    values = read(_LOGPROBS, values, "its log-probs of a prompt")
    return np.array(values, dtype=np.float64), tuple(texts)


def to_sequence(
    choice: Choice, *, wanted: frozenset[str], opened: bool, num_tokens: int
) -> records.Sequence:
    """The record of a choice, with what its request wants of it.

    Args:
        choice: that was read.
        wanted: fields of the record that statistics of its role are read from.
        opened: whether the prompt ended in `<think>`.
        num_tokens: T where the server tells no tokens.
    """
    sequence = records.Sequence(
        text=choice.text,
        compared_text=choice.text.strip(),
        num_tokens=num_tokens,
        finish_reason=choice.finish_reason,
        token_ids=choice.token_ids,
        refusal=choice.refusal,
    )
    changed: dict[str, Any] = {}
    if choice.num_tokens is not None:
        changed["num_tokens"] = choice.num_tokens
    if "token_logprobs" in wanted and not choice.unsound:
        changed["token_logprobs"] = choice.logprobs
    if "token_entropies" in wanted and (column := choice.column(ENTROPY_COLUMN)) is not None:
        changed["token_entropies"] = np.maximum(column, 0.0)
    return replace(sequence, **changed)


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


def likeliest(choice: Choice, num: int) -> records.Tops | None:
    """(T,) at most `num` of each token's likeliest ones; None where the server tells none.

    Of several with one text the chosen one is told; what it gives no probability is left out.
    """
    if choice.tops is None or choice.tokens is None or choice.logprobs is None:
        return None
    told = []
    together = zip(choice.tops, choice.tokens, choice.logprobs.tolist(), strict=True)
    for tops, token, logprob in together:
        possible = {name: one for name, one in tops.items() if one > SENTINEL}
        chosen = {token: logprob}  # before one as likely, which may be itself by another name
        ranked = sorted((chosen | possible | chosen).items(), key=itemgetter(1), reverse=True)
        told.append(tuple(ranked[:num]))
    return tuple(told)


def _index(choice: _Choice) -> int:
    return choice.get("index", 0)


def _choice(told: _Choice, stop: tuple[str, ...]) -> Choice:
    message = told.get("message")
    if message is None:
        text, reasoning, refusal = told["text"], None, None
    else:
        text, reasoning = message.get("content") or "", reasoning_in(message)
        refusal = message.get("refusal") or None
    end = told.get("finish_reason") or "unknown"  # Ollama may say nothing of it
    if end in _BROKEN_OFF:
        raise ValueError("broken off")
    finish_reason = _FINISHED.get(end, end)
    tokens, logprobs, tops = _tokens(told.get("logprobs") or {})
    ids = told.get("token_ids")
    why_unsound = ""
    if calls := (message or {}).get("tool_calls"):
        text, texts = text_of(text, calls, tokens)
        if texts is None:
            why_unsound, tokens, logprobs, tops = _CALLS_APART, None, None, None
        else:
            tokens = tuple(texts)
    if ids is not None and logprobs is not None and len(logprobs) != len(ids):
        why_unsound, tokens, logprobs, tops = UNCOVERED, None, None, None
    cut = cut_at_stop(text, stop)
    ended = finish_reason == "stop" and cut is None and told.get("stop_reason") is None
    if cut is not None:
        text = cut
    token_ids = tuple(ids or ()) or None
    if logprobs is not None:
        why_unsound = unsound(logprobs, tokens or (), map(_without_columns, tops or ()))
    of_tokens = tokens, logprobs, tops, token_ids
    rest = ended, reasoning, refusal, why_unsound
    return Choice(text, finish_reason, *of_tokens, *rest)


def _without_columns(tops: Mapping[str, float]) -> Mapping[str, float]:
    return {name: one for name, one in tops.items() if not name.startswith(_COLUMN)}


def _tokens(told: _Logprobs) -> _Tokens:
    tokens, logprobs = told.get("tokens") or [], told.get("token_logprobs")
    tops: list[Any] = list(told.get("top_logprobs") or ())
    if (content := told.get("content")) is not None:
        tokens = [one["token"] for one in content]
        logprobs = [one["logprob"] for one in content]
        for one in content:
            # Of several with one name the likeliest.
            ranked = sorted(one.get("top_logprobs") or (), key=itemgetter("logprob"))
            tops.append({top["token"]: top["logprob"] for top in ranked})
    if logprobs is None:
        return None, None, None
    has_tops = bool(tops and tops[0])
    if len(tokens) != len(logprobs) or (has_tops and len(tops) != len(tokens)):
        raise ValueError("not one log-prob a token")
    if has_tops and None in tops:
        raise ValueError("no likeliest tokens of a token")
    return tuple(tokens), np.array(logprobs, dtype=np.float64), tuple(tops) if has_tops else None


def reasoning_in(message: Mapping[str, Any]) -> str | None:
    """The reasoning that a message or a delta tells apart, by its present name or its former."""
    return message.get("reasoning") or message.get("reasoning_content")
