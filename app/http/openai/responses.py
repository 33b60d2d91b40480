"""From results to OpenAI's bodies, each as a whole: plain values, in the shapes of `schemas`."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

from app.http.responses import parted, scored
from app.scoring.result import Result
from models import records
from models.records import FinishReason, Token, bytes_spelt
from models.units.tool_calls import read

# Many tokenizers put one before a text's first word. A message begins without it; a text that
# continues its prompt needs it.
BLANK = " "


class Known(NamedTuple):
    """A token of a text, and the likeliest in its place; None is a log-prob that is not known.

    It `begins` a prompt, or a message, where those of the likeliest alone keep their blank that
    would otherwise equal another of them.
    """

    text: str
    logprob: float | None
    tops: records.TokenTops = ()
    begins: bool = False


def known_of(tokens: Iterable[Token]) -> list[Known]:
    return [Known(token.text, token.logprob, _named_alike(token)) for token in tokens]


def _named_alike(token: Token) -> records.TokenTops:
    """The likeliest tokens in the place of one, which itself has the same name among them.

    What ends an answer, or is a part of a character, adds no text to it, and is spelt out by
    generators. It is known by its log-prob, which is one number.
    """
    tops = dict(token.tops)
    if tops.get(token.text) == token.logprob:
        return token.tops
    own = next((name for name, logprob in token.tops if logprob == token.logprob), None)
    return tuple((token.text if name == own else name, tops[name]) for name, _ in token.tops)


def chat_logprobs(known: Sequence[Known], start: int = 0) -> dict[str, Any]:
    """`ChatLogprobs` of consecutive tokens; in a chat nothing counts from `start`."""
    content = []
    for text, logprob, tops, begins in known:
        if logprob is None:
            continue
        likeliest = []
        for other, value in tops:
            shown = other
            if begins:
                shown = other.removeprefix(BLANK)
            likeliest.append({"token": shown, "logprob": value, "bytes": list(bytes_spelt(other))})
        token = {"token": text, "logprob": logprob, "bytes": list(text.encode())}
        content.append({**token, "top_logprobs": likeliest})
    return {"content": content, "refusal": None}


def text_logprobs(known: Sequence[Known], start: int = 0) -> dict[str, Any]:
    """`TextLogprobs` of consecutive tokens; the first of them begins at the character `start`."""
    texts, logprobs, offsets, likeliest = [], [], [], []
    for text, logprob, tops, begins in known:
        if logprob is not None or begins:
            texts.append(text)
            logprobs.append(logprob)
            offsets.append(max(0, start))
            likeliest.append(dict(tops) or None)
        start += len(text)
    return {
        "tokens": texts,
        "token_logprobs": logprobs,
        "top_logprobs": likeliest if any(likeliest) else None,
        "text_offset": offsets,
    }


def without_blank(known: Sequence[Known]) -> list[Known]:
    """Tokens of an answer from its beginning: those that begin it have no leading blank.

    Neither has what stands in their place; see `Known`.
    """
    tokens = list(known)
    for i, (text, logprob, tops, _) in enumerate(tokens):
        plain = {other for other, _ in tops}
        without = []
        for other, value in tops:
            bare = other.removeprefix(BLANK)
            if bare in plain:
                bare = other
            without.append((bare, value))
        tokens[i] = Known(text.removeprefix(BLANK), logprob, tuple(without), begins=True)
        if text:
            break
    return tokens


_NOT_REFINED = "the answer is held back: it has no parts, or more than can be removed"


@dataclass(frozen=True, slots=True)
class Wanted:
    """The response that a request wants."""

    id: str
    model: str
    logprobs: bool = False
    usage: bool = False  # whether its stream ends with the usage
    n: int = 1
    tools: Sequence[str] = ()  # names of those that its answer may call
    # Fields of it that the response has, too.
    repeated: Mapping[str, Any] = field(default_factory=dict)
    usage_so_far: bool = False  # with `usage`: whether every chunk of its stream has it


@dataclass(frozen=True, slots=True)
class Choice:
    """An answer among those of one response."""

    index: int
    text: str | None  # None where it is held back or refused, or calls tools alone
    reasoning: str | None  # written before the text; None where there is none
    # Of the text; None where it is not that of the text that is given, or its log-probs are not
    # known.
    sequence: records.Sequence | None
    finish_reason: FinishReason
    calls: Sequence[dict[str, Any]] = ()  # as `ToolCallInfo`
    refusal: str | None = None  # of the model's server; None where it answers
    # What a message says in place of an answer: that, or why it is held back.
    message_refusal: str | None = None
    extra: Sequence[Mapping[str, Any]] = ()  # as of a sequence

    @property
    def known(self) -> list[Known]:
        """The tokens of the text; none where there is no sequence."""
        if self.sequence is None:
            return []
        return known_of(self.sequence.tokens)

    @property
    def message_known(self) -> list[Known]:
        """The same where the text is a message."""
        return without_blank(self.known)

    @property
    def message_extra(self) -> Mapping[str, Any]:
        """What the model's server wants back with the message itself."""
        return next(iter(self.extra), {})

    @property
    def message_text(self) -> str | None:
        return self.text and self.text.removeprefix(BLANK)


def choices_of(result: Result, n: int) -> list[Choice]:
    """The scored answer, then the other samples as `_others` has them."""
    answer = result.evidence.subject.answer
    first = _choice_of(0, answer)
    if result.passed_text != answer.text:
        first = replace(first, text=result.passed_text, sequence=None, extra=())
    told = refusal = result.refusal
    if first.text is None and refusal is None:
        told = _NOT_REFINED
        if result.is_held_back:
            told = result.why_held_back
    first = replace(first, reasoning=result.reasoning, refusal=refusal, message_refusal=told)
    choices = [first]
    for sample in _others(result, n):
        choices.append(_choice_of(len(choices), sample))
    if result.ask.tools:
        choices = list(map(partial(_with_calls, names=result.ask.tool_names), choices))
    return choices


def _choice_of(index: int, sequence: records.Sequence) -> Choice:
    text: str | None = sequence.text
    refusal, known, reasoning = sequence.refusal, None, None
    if refusal is not None:
        text = text or None
    if sequence.token_logprobs is not None:
        known = sequence
    if sequence.reasoning is not None:
        reasoning = sequence.reasoning.text
    reason = sequence.finish_reason
    return Choice(index, text, reasoning, known, reason, (), refusal, refusal, sequence.extra)


def _others(result: Result, n: int) -> Sequence[records.Sequence]:
    """The samples of all choices but the first, in the order of drawing, those left out last."""
    subject = result.evidence.subject
    if n == 1:
        return ()
    left_out = [sample for sample in subject.withheld if sample is not subject.answer]
    return [*subject.others, *left_out][: n - 1]


def _with_calls(choice: Choice, names: Sequence[str]) -> Choice:
    """The choice, its calls apart from its text; if cut short, it keeps its `finish_reason`."""
    text, calls = parted(read(choice.text or "", names), choice.extra)
    if choice.text is None or not calls:
        return replace(choice, text=choice.text and choice.text.strip())
    reason = choice.finish_reason
    if reason == "stop":
        reason = "tool_calls"
    return replace(choice, text=text, calls=calls, finish_reason=reason)


def chat_completion(result: Result, wanted: Wanted) -> dict[str, Any]:
    bodies = []
    for choice in choices_of(result, wanted.n):
        logprobs = None
        if wanted.logprobs and choice.sequence is not None:
            logprobs = chat_logprobs(choice.message_known)
        message = message_of(choice)
        bodies.append({"message": message, "logprobs": logprobs, **_about(choice, result)})
    return {"object": "chat.completion", **_head(result, wanted), "choices": bodies}


def message_of(choice: Choice) -> dict[str, Any]:
    """An `AssistantMessage`."""
    message: dict[str, Any] = {
        "role": "assistant",
        "content": choice.message_text,
        "refusal": choice.message_refusal,
        **choice.message_extra,
    }
    if choice.reasoning is not None:
        message |= {"reasoning": choice.reasoning, "reasoning_content": choice.reasoning}
    if choice.calls:
        message["tool_calls"] = choice.calls
    return message


def completion(result: Result, wanted: Wanted) -> dict[str, Any]:
    bodies, read, lead, start = [], list[Known](), "", 0
    if result.ask.echo and result.evidence.generation is not None:
        first, *others = known_of(result.evidence.generation.prompt)
        read, lead = [first._replace(begins=True), *others], result.ask.prompt or ""
        start = len(lead) - len("".join(map(itemgetter(0), read)))  # special tokens may come before
    for choice in choices_of(result, wanted.n):
        logprobs = None
        if wanted.logprobs and choice.sequence is not None:
            logprobs = text_logprobs([*read, *choice.known], start)
        body = {"text": lead + (choice.text or ""), "logprobs": logprobs, **_about(choice, result)}
        if choice.finish_reason == "given":  # nothing was to be written
            body["finish_reason"] = "length"
        if choice.refusal is not None:
            body["refusal"] = choice.refusal
        bodies.append(body)
    return {"object": "text_completion", **_head(result, wanted), "choices": bodies}


def renew(body: dict[str, Any], result: Result, request_id: str) -> None:
    body["id"], body["created"] = request_id, int(time.time())
    body["choices"][0]["uncertainty"]["timing_ms"] = result.timing_ms


def uncertainty_of(result: Result) -> dict[str, Any]:
    """An `Uncertainty`: the fields of a choice beyond OpenAI's."""
    return scored(result, value=result.uncertainty, sample_tokens=result.usage["sample_tokens"])


def fingerprint_of(result: Result) -> str | None:
    """Revision of the model; None where none wrote or read the answer."""
    if result.evidence.generation is None:
        return None
    return result.evidence.generation.revision


def openai_usage(result: Result, n: int) -> dict[str, Any]:
    """An `OpenAIUsage`."""
    usage = result.usage
    read, written = usage["prompt_tokens"], usage["completion_tokens"]
    thought = usage["reasoning_tokens"]
    for sample in _others(result, n):
        written += sample.num_written
        if sample.reasoning is not None:
            thought += sample.reasoning.num_tokens
    return {
        "prompt_tokens": read,
        "completion_tokens": written,
        "total_tokens": read + written,
        "completion_tokens_details": {"reasoning_tokens": thought},
    }


def _head(result: Result, wanted: Wanted) -> dict[str, Any]:
    return {
        "id": wanted.id,
        "created": int(time.time()),
        "model": wanted.model,
        "system_fingerprint": fingerprint_of(result),
        "usage": openai_usage(result, wanted.n),
    }


def _about(choice: Choice, result: Result) -> dict[str, Any]:
    about = {"index": choice.index, "finish_reason": choice.finish_reason, "uncertainty": None}
    if choice.index == 0:
        about["uncertainty"] = uncertainty_of(result)
    return about
