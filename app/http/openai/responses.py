"""From results to OpenAI's bodies, each as a whole: plain values, in the shapes of `schemas`."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

from app.http.responses import (
    call_info,
    parted,
    scored,
    timing_of,
    tokens_of,
    usage_of,
    why_held_back,
)
from app.scoring.result import Result
from models import records
from models.records import FinishReason, bytes_spelt
from models.units.tool_calls import Call, names_of, read

# Many tokenizers put one before a text's first word. A message begins without it; a text that
# continues its prompt needs it.
BLANK = " "


class Known(NamedTuple):
    """What is known of one token; a log-prob that is not is None.

    Of the likeliest in the place of one that `begins` a message, those alone have their blank that
    would else be another one's equal.
    """

    text: str
    logprob: float | None
    tops: records.TokenTops = ()
    begins: bool = False


def known_of(said: records.Sequence) -> list[Known]:
    found = []
    for i, token in enumerate(tokens_of(said)):
        tops: records.TokenTops = ()
        if said.token_tops is not None:
            tops = said.token_tops[i]
        found.append(Known(token["text"], token["logprob"], tops))
    return found


def chat_logprobs(known: Sequence[Known], start: int = 0) -> dict[str, Any]:
    """`ChatLogprobs` of consecutive tokens; in a chat nothing counts from `start`."""
    content = []
    for text, logprob, tops, begins in known:
        if logprob is None:
            continue
        told = []
        for other, value in tops:
            shown = other.removeprefix(BLANK) if begins else other
            told.append({"token": shown, "logprob": value, "bytes": list(bytes_spelt(other))})
        one = {"token": text, "logprob": logprob, "bytes": list(text.encode())}
        content.append({**one, "top_logprobs": told})
    return {"content": content, "refusal": None}


def text_logprobs(known: Sequence[Known], start: int = 0) -> dict[str, Any]:
    """`TextLogprobs` of consecutive tokens; the first of them begins at the character `start`."""
    texts, logprobs, offsets, likeliest = [], [], [], []
    for text, logprob, tops, _ in known:
        if logprob is not None:
            texts.append(text)
            logprobs.append(logprob)
            offsets.append(start)
            likeliest.append(dict(tops))
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
            without.append((other if bare in plain else bare, value))
        tokens[i] = Known(text.removeprefix(BLANK), logprob, tuple(without), begins=True)
        if text:
            break
    return tokens


_NOT_REFINED = "the answer is held back: it has no parts, or more than can be removed"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a request says of its response.

    Attributes:
        usage: whether its stream ends with the usage.
        tools: names of those that its answer may call.
        repeated: fields of it that the response has, too.
    """

    id: str
    model: str
    logprobs: bool = False
    usage: bool = False
    n: int = 1
    tools: Sequence[str] = ()
    repeated: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Said:
    """What one choice says.

    Attributes:
        text: None where it is held back or refused, or calls tools alone.
        reasoning: that was written before it; None without one.
        tokens: of the text; None where they are not those of the text that is given, or their
            log-probs are not known.
        refusal: of the model's server; None where it answers.
    """

    index: int
    text: str | None
    reasoning: str | None
    tokens: records.Sequence | None
    finish_reason: FinishReason
    calls: Sequence[Call] = ()
    refusal: str | None = None


def all_said(result: Result, n: int) -> list[Said]:
    """The scored answer, then the other samples as `_others` has them."""
    answer = result.evidence.subject.answer
    first = _said(0, answer)
    if result.passed_text != answer.text:
        first = replace(first, text=result.passed_text, tokens=None)
    said = [replace(first, reasoning=result.reasoning, refusal=result.refusal)]
    for sample in _others(result, n):
        said.append(_said(len(said), sample))
    if result.ask.tools:
        said = list(map(partial(_with_calls, names=names_of(result.ask.tools)), said))
    return said


def _said(index: int, one: records.Sequence) -> Said:
    text: str | None = one.text
    if one.refusal is not None:
        text = one.text or None
    tokens = one if one.token_logprobs is not None else None
    reasoning = one.reasoning.text if one.reasoning is not None else None
    return Said(index, text, reasoning, tokens, one.finish_reason, refusal=one.refusal)


def _others(result: Result, n: int) -> Sequence[records.Sequence]:
    """What the choices behind the first say: samples as they were drawn, those left out last."""
    subject = result.evidence.subject
    left_out = [one for one in subject.withheld if one is not subject.answer]
    return [*subject.others, *left_out][: n - 1]


def _with_calls(said: Said, names: Sequence[str]) -> Said:
    """With its calls apart from its text; one that was cut short was still about to say more."""
    text, calls = parted(read(said.text or "", names))
    if said.text is None or not calls:
        return replace(said, text=said.text and said.text.strip())
    reason = said.finish_reason
    if reason == "stop":
        reason = "tool_calls"
    return replace(said, text=text, calls=calls, finish_reason=reason)


def chat_completion(result: Result, wanted: Wanted) -> dict[str, Any]:
    choices = []
    for said in all_said(result, wanted.n):
        logprobs = None
        if wanted.logprobs and said.tokens is not None:
            logprobs = chat_logprobs(without_blank(known_of(said.tokens)))
        message = message_of(said, result)
        choices.append({"message": message, "logprobs": logprobs, **_choice(said, result)})
    return {"object": "chat.completion", **_head(result, wanted), "choices": choices}


def message_of(said: Said, result: Result) -> dict[str, Any]:
    """An `AssistantMessage`."""
    message: dict[str, Any] = {
        "role": "assistant",
        "content": said.text and said.text.removeprefix(BLANK),
        "refusal": refusal_of(said, result),
        "reasoning": said.reasoning,
        "reasoning_content": said.reasoning,
    }
    if said.calls:
        message["tool_calls"] = list(map(call_info, said.calls))
    return message


def refusal_of(said: Said, result: Result) -> str | None:
    """Why a choice has no answer: in the words of the model's server, or of who held it back."""
    if said.refusal is not None or said.text is not None or said.calls or said.index:
        return said.refusal
    return why_held_back(result) if result.is_held_back else _NOT_REFINED


def completion(result: Result, wanted: Wanted) -> dict[str, Any]:
    choices = []
    for said in all_said(result, wanted.n):
        logprobs = None
        if wanted.logprobs and said.tokens is not None:
            logprobs = text_logprobs(known_of(said.tokens))
        choice = {"text": said.text or "", "logprobs": logprobs, **_choice(said, result)}
        if said.refusal is not None:
            choice["refusal"] = said.refusal
        choices.append(choice)
    return {"object": "text_completion", **_head(result, wanted), "choices": choices}


def renew(body: dict[str, Any], result: Result, request_id: str) -> None:
    body["id"], body["created"] = request_id, int(time.time())
    body["choices"][0]["uncertainty"]["timing_ms"] = timing_of(result)


def uncertainty_of(result: Result) -> dict[str, Any]:
    """An `Uncertainty`: what a choice says beyond OpenAI's fields."""
    usage = usage_of(result)
    beside = {name: usage[name] for name in usage.keys() & {"sample_tokens", "split_tokens"}}
    return scored(result, value=result.uncertainty, **beside)


def fingerprint_of(result: Result) -> str | None:
    """Revision of the model; None where none was asked."""
    if result.generation is None:
        return None
    return result.generation.revision


def openai_usage(result: Result, n: int) -> dict[str, Any]:
    """An `OpenAIUsage`."""
    usage = usage_of(result)
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


def _choice(said: Said, result: Result) -> dict[str, Any]:
    uncertainty = uncertainty_of(result) if said.index == 0 else None
    return {"index": said.index, "finish_reason": said.finish_reason, "uncertainty": uncertainty}
