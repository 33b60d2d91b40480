"""From what a server says to sequences. Pure; whatever makes no sense is `Unreachable`.

Completions and chat completions differ in where things are, and in nothing else.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Annotated, Any, NotRequired

import numpy as np
from pydantic import AllowInfNan, Strict, TypeAdapter
from typing_extensions import TypedDict

from models import records
from models.engines.texts import cut_at_stop
from models.errors import InvalidLogits
from models.probes.distance import DOMAIN_PERCENTILE
from models.ranges import LOGPROBS
from models.records import Array, FinishReason, ProbeReading
from models.units.tool_calls import Call
from models.units.tool_calls import read as calls_in
from workers.calls import read
from workers.client import Unreachable
from workers.openai.found import OpenAIServer
from workers.probe_reading import is_sound
from workers.standing import ChangedModel

# The plugin's columns, and what they are called; see docker/vllm/README.md.
MARK_COLUMN, ENTROPY_COLUMN, FIRST_PROBE_COLUMN = 0, 1, 2
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
_BROKEN_OFF = frozenset({"abort", "error"})
_WORD = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_CALLS_APART = "the server of the model tells no log-probs of the calls that it parts from text"

# What vLLM and OpenAI write in place of the log-prob of what they give no probability.
_SENTINEL = -9999.0
# By how much probabilities and log-probs may be off that were rounded to two bytes: at least so
# much, and log-probs by so large a part of them.
_ROUNDING, _PART = 0.02, 0.01
# Pieces that are ids, bytes, halves of code points or a vocabulary's own spellings, not text.
_NO_TEXT = re.compile(r"token_id:|bytes:|<0x[0-9A-F]{2}>|[\ufffd\u2581\u0120\u010a]")

NO_NUMBER = "the server told a log-prob that is none"
BEYOND_ONE = "the likeliest tokens that the server told have a probability above 1 together"
ABOVE_LIKELIEST = "the server told a chosen token as likelier than the likeliest in its place"
UNCOVERED = "the tokens that the server told log-probs of are not those of the text"
ALL_ZERO = "the server told log-probs of 0 alone"

_Finite = Annotated[float, Strict(), AllowInfNan(False)]
_Ids = list[Annotated[int, Strict()]]


class _Top(TypedDict):
    token: str
    logprob: _Finite | None


class _ChatToken(TypedDict, total=False):
    token: str
    logprob: _Finite | None
    top_logprobs: list[_Top] | None


class _Logprobs(TypedDict, total=False):
    """Of completions the first three, of chat completions the last one."""

    tokens: list[str] | None
    token_logprobs: list[_Finite | None] | None
    top_logprobs: list[dict[str, _Finite | None] | None] | None
    content: list[_ChatToken] | None


class _Function(TypedDict):
    name: str
    arguments: NotRequired[str | dict[str, Any] | None]


class _ToolCall(TypedDict):
    function: _Function


class _Part(TypedDict, total=False):
    type: str
    text: str
    thinking: "str | list[_Part]"


class _Message(TypedDict, total=False):
    content: str | list[_Part] | None  # parts of Mistral's
    reasoning: str | None
    reasoning_content: str | None  # of older servers
    refusal: str | None
    tool_calls: list[_ToolCall] | None


class _PromptToken(TypedDict, total=False):
    logprob: _Finite | None
    decoded_token: str | None


class _Choice(TypedDict, total=False):
    index: int | None
    text: str | None
    message: _Message | None
    finish_reason: str | None
    stop_reason: Any
    logprobs: _Logprobs | None
    token_ids: _Ids | None
    # Of the first token of a prompt nothing is told.
    prompt_logprobs: list[dict[str, _PromptToken] | None] | None


class _Reply(TypedDict):
    choices: list[_Choice]


_REPLY = TypeAdapter(_Reply)
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
        prompt_tokens: by id, what is told of each token of the prompt; empty where nothing is.
        num_written: tokens of it, by what `usage` counts where the server does not tell them.
        num_hidden: tokens of a reasoning that the text may not show, by `usage`.
        num_missing: that `usage` counts, and were told neither by ids nor by log-probs, on the
            average over the texts of its call; 0 where none are told.
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
    prompt_tokens: Sequence[Mapping[str, Any] | None] = ()
    num_written: int = 0
    num_hidden: int = 0
    num_missing: int = 0

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

    def of_prompt(self, ids: tuple[int, ...]) -> tuple[Array, tuple[str, ...]]:
        """Log-probs (T,) and texts of the last T tokens of its prompt, which are `ids`."""
        logprobs, texts = [], []
        told = self.prompt_tokens[-len(ids) :]
        try:
            for token, entry in zip(ids, told, strict=True):
                of_token = (entry or {})[str(token)]
                logprobs.append(of_token["logprob"])
                texts.append(of_token["decoded_token"] or "")
        except (LookupError, ValueError):
            raise Unreachable("its log-probs of a prompt make no sense") from None
        return np.array(logprobs, dtype=np.float64), tuple(texts)

    def column(self, index: int) -> Array | None:
        """The plugin's column (T,) of this index; None where a token lacks it."""
        name = sentinel(index)
        try:
            return None if self.tops is None else np.array([top[name] for top in self.tops])
        except KeyError:
            return None


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
        return [_choice(one, stop) for one in sorted(found, key=lambda one: one.get("index") or 0)]
    except (LookupError, TypeError, ValueError):
        raise Unreachable("its answer makes no sense") from None


def counted(usage: Any, choices: Sequence[Choice], most: int) -> list[Choice]:
    """Each choice of a call, of at most `most` tokens, with its share of what `usage` counts."""
    total, size = count(usage, "completion_tokens"), len(choices)
    hidden = -(-count(usage, "completion_tokens_details", "reasoning_tokens") // size)
    told = [choice.num_tokens for choice in choices if choice.num_tokens is not None]
    missing = 0
    if len(told) == size:
        missing = max(0, -(-max(0, total - sum(told)) // size) - hidden)
    found = []
    for place, choice in enumerate(choices):
        num = min(most, total // size + (place < total % size))
        found.append(replace(choice, num_written=num, num_hidden=hidden, num_missing=missing))
    return found


def count(usage: Any, *path: str) -> int:
    """A count in `usage`; 0 where there is none.

    >>> count({"completion_tokens_details": {"reasoning_tokens": 3}}, "completion_tokens_details",
    ...     "reasoning_tokens")
    3
    """
    for name in path:
        usage = usage.get(name) if isinstance(usage, Mapping) else None
    return usage if type(usage) is int and usage >= 0 else 0


def to_sequence(choice: Choice, wanted: frozenset[str] = frozenset()) -> records.Sequence:
    """The record of a choice, with the `wanted` fields that hold statistics of its tokens."""
    logprobs = entropies = None
    if "token_logprobs" in wanted and not choice.unsound:
        logprobs = choice.logprobs
    if "token_entropies" in wanted and (column := choice.column(ENTROPY_COLUMN)) is not None:
        entropies = np.maximum(column, 0.0)
    return records.Sequence(
        text=choice.text,
        compared_text=choice.text.strip(),
        num_tokens=choice.num_written if choice.num_tokens is None else choice.num_tokens,
        finish_reason=choice.finish_reason,
        token_ids=choice.token_ids,
        token_logprobs=logprobs,
        token_entropies=entropies,
        refusal=choice.refusal,
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


def likeliest(choice: Choice, num: int) -> records.Tops | None:
    """(T,) at most `num` of each token's likeliest ones; None where the server tells none.

    Of several with one text the chosen one is told; what it gives no probability is left out.
    """
    if choice.tops is None or choice.tokens is None or choice.logprobs is None:
        return None
    told = []
    together = zip(choice.tops, choice.tokens, choice.logprobs.tolist(), strict=True)
    for tops, token, logprob in together:
        possible = {name: one for name, one in tops.items() if one > _SENTINEL}
        chosen = {token: logprob}  # before one as likely, which may be itself by another name
        ranked = sorted((chosen | possible | chosen).items(), key=itemgetter(1), reverse=True)
        told.append(tuple(ranked[:num]))
    return tuple(told)


def _choice(told: _Choice, stop: tuple[str, ...]) -> Choice:
    message = told.get("message") or {"content": told["text"]}
    # Ollama may say nothing of its end, and Gemini more than a word.
    end = _WORD.match(told.get("finish_reason") or "")
    finish_reason = _FINISHED.get(end[0], end[0]) if end else "unknown"
    if finish_reason in _BROKEN_OFF:
        raise Unreachable("it broke a text off")
    tokens, logprobs, tops = _tokens(told.get("logprobs") or {})
    (text, reasoning), ids, why_unsound = said_in(message), told.get("token_ids"), ""
    if calls := message.get("tool_calls"):
        text, texts = _with_calls(text, calls, tokens or ())
        tokens, why_unsound = texts, "" if texts else _CALLS_APART
    if ids is not None and logprobs is not None and len(logprobs) != len(ids):
        why_unsound = UNCOVERED
    if why_unsound:
        tokens = logprobs = tops = None
    elif logprobs is not None:
        likeliest_alone = []
        for one in tops or ():
            shown = {name: value for name, value in one.items() if not name.startswith(_COLUMN)}
            likeliest_alone.append(shown)
        why_unsound = unsound(logprobs, tokens or (), likeliest_alone)
    cut = cut_at_stop(text, stop)
    ended = finish_reason == "stop" and cut is None and told.get("stop_reason") is None
    return Choice(
        text if cut is None else cut,
        finish_reason,
        tokens,
        logprobs,
        tops,
        tuple(ids or ()) or None,
        ended_by_eos=ended,
        reasoning=reasoning or None,
        refusal=message.get("refusal") or None,
        unsound=why_unsound,
        prompt_tokens=told.get("prompt_logprobs") or (),
    )


def _tokens(told: _Logprobs) -> _Tokens:
    tokens, logprobs = told.get("tokens") or [], told.get("token_logprobs")
    named: list[Any] = [top and list(top.items()) for top in told.get("top_logprobs") or ()]
    if content := told.get("content"):
        tokens = [one["token"] for one in content]
        logprobs = [one["logprob"] for one in content]
        for one in content:
            named.append([(top["token"], top["logprob"]) for top in one.get("top_logprobs") or ()])
    if not logprobs:
        return None, None, None
    has_tops = bool(named and named[0])
    if len(tokens) != len(logprobs) or (has_tops and len(named) != len(tokens)):
        raise ValueError("not one log-prob a token")
    tops: list[Mapping[str, float]] = []
    for likeliest in named if has_tops else ():
        # Of several with one name the likeliest; nobody draws what has no log-prob.
        possible = [one for one in likeliest if one[1] is not None]
        tops.append(dict(sorted(possible, key=itemgetter(1))))
    return tuple(tokens), np.array(logprobs, dtype=np.float64), tuple(tops) or None


def said_in(message: Mapping[str, Any]) -> tuple[str, str]:
    """Text and reasoning of a message or a delta: strings or parts, by present or former names.

    >>> said_in({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "So"}]}]})
    ('', 'So')
    """
    content = message.get("content") or ""
    if not isinstance(content, str):
        return _parts(content, "text"), _parts(content, "thinking")
    return content, message.get("reasoning") or message.get("reasoning_content") or ""


def _parts(parts: Sequence[Mapping[str, Any]], kind: str) -> str:
    texts = [part[kind] for part in parts if part.get("type") == kind]
    return "".join(one if isinstance(one, str) else _parts(one, "text") for one in texts)


def _with_calls(
    content: str, calls: Sequence[Any], tokens: tuple[str, ...]
) -> tuple[str, tuple[str, ...] | None]:
    """An answer with calls as one text, and the texts of its tokens where these join to it.

    Calls are written as Hermes' templates do, so that everything behind reads them as it reads
    those of a model in this process (`models.units.tool_calls`). Where the same calls can be read
    in the texts of the tokens, these are the answer's.
    """
    wanted = [_plain(*_named(one)) for one in calls]
    names = [name for name, _ in wanted]
    for written in (tokens, tokens[:-1]):  # the last token may be what ended the answer
        found = [one for one in calls_in("".join(written), names) if isinstance(one, Call)]
        if found and [_plain(one.name, one.arguments) for one in found] == wanted:
            return "".join(written), (*written, *[""] * (len(tokens) - len(written)))
    blocks = [content.strip()] if content.strip() else []
    for one in calls:  # arguments as they were written: those that were cut off are no call
        name, arguments = _named(one)
        written_call = f'{{"name": {json.dumps(name)}, "arguments": {arguments or "{}"}}}'
        blocks.append(f"<tool_call>\n{written_call}\n</tool_call>")
    return "\n".join(blocks), None


def _named(call: Any) -> tuple[str, str]:
    name, arguments = call["function"]["name"], call["function"].get("arguments") or ""
    return name, arguments if isinstance(arguments, str) else json.dumps(arguments)


def _plain(name: str, arguments: str) -> tuple[str, Any]:
    try:
        return name, json.loads(arguments or "{}")
    except ValueError:  # cut off at its limit
        return name, arguments


def unsound(
    logprobs: Array, tokens: Sequence[str] = (), tops: Iterable[Mapping[str, float]] = ()
) -> str:
    """Why these are no log-probs of a text's tokens; "" where they may be.

    Args:
        logprobs: (T,) of the chosen ones, NaN where there is none.
        tokens: (T,) what they are called.
        tops: T times those of the likeliest, by name; nothing where they are not told.
    """
    if not ((logprobs > _SENTINEL) & (logprobs <= LOGPROBS[1])).all():
        return NO_NUMBER
    for logprob, token, likeliest in zip(logprobs.tolist(), tokens, tops, strict=False):
        values = np.array(list(likeliest.values()))
        if not len(values):
            continue
        if (values > LOGPROBS[1]).any() or np.exp(values).sum() > 1.0 + _ROUNDING:
            return BEYOND_ONE
        most = values.max() * (1.0 - _PART) + _ROUNDING
        if logprob > most and token not in likeliest:  # several tokens may have one name
            return ABOVE_LIKELIEST
    return ""


def are_of(texts: Sequence[str] | None, text: str, *, is_cut: bool) -> bool | None:
    """Whether tokens have these texts join to the text, blanks aside; None where nobody can tell.

    What ended a text, a last token or stop string, is no part of it.

    Args:
        texts: (T,) of the tokens, as the server tells them; None where it does not.
        text: that they should be of.
        is_cut: whether it ended at its limit, so that nothing stands behind it.

    >>> are_of([" is", " in", " India", "."], "It is in India.", is_cut=False)
    False
    >>> are_of(["It", " is", "</s>"], "It is", is_cut=False)
    True
    """
    if texts is None or any(map(_NO_TEXT.search, texts)):
        return None
    shown, wanted = _without_blanks("".join(texts)), _without_blanks(text)
    if is_cut:
        return shown == wanted
    return shown.startswith(wanted)


def _without_blanks(text: str) -> str:
    return "".join(text.split())


def first_columns(choice: Choice) -> list[int]:
    """The plugin's columns of the first token, as integers."""
    tops = choice.tops[0] if choice.tops else {}
    names = map(sentinel, range(len(tops)))
    return [round(tops[name]) for name in names if name in tops]


def check_mark(choice: Choice, can: OpenAIServer) -> None:
    """Refuse an answer of other weights than those that were tried out.

    Raises:
        ChangedModel: it is.
        InvalidLogits: an entropy is no number, so the model's logits were none.
    """
    marks = choice.column(MARK_COLUMN)
    if can.columns is None or marks is None or not (marks.round() == can.columns.mark).all():
        raise ChangedModel
    entropies = choice.column(ENTROPY_COLUMN)
    if entropies is not None and (entropies <= _SENTINEL).any():
        raise InvalidLogits("the language model returned NaN or infinite logits")


def readings_of(
    choice: Choice, can: OpenAIServer, statistics: frozenset[str]
) -> dict[str, ProbeReading]:
    """What the last token says that each wanted probe reads of the whole answer.

    A reading that is no number, or out of its range, is left out.
    """
    readings: dict[str, ProbeReading] = {}
    places = can.columns.places(can.probes) if can.columns else {}
    for statistic in statistics & places.keys():
        first = FIRST_PROBE_COLUMN + 2 * places[statistic]
        value, percentile = choice.column(first), choice.column(first + 1)
        if value is None or percentile is None or not len(value):
            continue
        reading, far = float(value[-1]), float(percentile[-1])
        if is_sound(reading, far):
            readings[statistic] = ProbeReading(reading, far, out_of_domain=far > DOMAIN_PERCENTILE)
    return readings
