"""Grammars at servers of others: how they are asked for, and under which law log-probs are then."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from models import records
from models.call_grammars import MARK, with_mark
from models.errors import EngineError
from models.grammars import grammar_of
from models.records import GenerationRequest, Grammar
from models.units.tool_calls import Call, names_of, read
from workers.openai.found import OpenAIServer
from workers.openai.model_calls import ModelCalls
from workers.openai.prompts import render, tokenize
from workers.openai.replies import Choice
from workers.openai.requests import COMPLETIONS, Prompt
from workers.openai.soundness import UNMASKED

# What the server is held to while it is tried out: nobody answers the question so by chance.
_QUESTION = "What is the capital of France?"
_VALUE = '{"word":"cocoa"}'
_SCHEMA = {
    "type": "object",
    "properties": {"word": {"const": "cocoa"}},
    "required": ["word"],
    "additionalProperties": False,
}
_HINTS = "x-guidance"
# Tokens for it, and for the thoughts before it.
_NUM_TOKENS = 96
# Likeliest tokens that are asked for with it, and log-probs of what cannot and of what has to come.
_TOP, _UNLIKELY, _FORCED = 5, -20.0, -3.0
_NO_LOGPROBS = "the server of the model tells no log-probs under a response_format"
REFUSED = "the server of the model takes no response_format"
_IGNORED = "the server of the model takes a response_format, and answers otherwise"


async def for_tokens(calls: ModelCalls, grammar: Grammar) -> Grammar:
    """A grammar in which a mark that is a token of the server's is one."""
    if grammar.kind == "json_schema" or not calls.can.tokenizes:
        return grammar
    ids = await tokenize(calls, MARK)
    if len(ids) != 1:
        return grammar
    return Grammar("lark", with_mark(grammar, ids[0]))


def under_grammar(can: OpenAIServer, prompt: Prompt, grammar: Grammar) -> dict[str, Any]:
    """What a body says that asks for texts under a grammar."""
    if grammar.kind != "json_schema":
        return {"structured_outputs": {"grammar": grammar.source}}
    schema = json.loads(grammar.source)
    if can.kind != "vllm":  # others refuse llguidance's hints, or hold a text to nothing for them
        schema.pop(_HINTS, None)
    if can.profile.schema_of_texts and prompt.path == COMPLETIONS:
        return {can.profile.schema_of_texts: schema}
    named = {"name": "answer", "schema": schema, "strict": True}
    return {"response_format": {"type": "json_schema", "json_schema": named}}


def check_called(tools: Sequence[Mapping[str, Any]], answer: records.Sequence) -> None:
    """Refuse a finished text without the call that had to come.

    Raises:
        EngineError: it calls no tool.
    """
    is_text = not any(isinstance(one, Call) for one in read(answer.text, names_of(tools)))
    if answer.finish_reason == "stop" and is_text:
        raise EngineError("the server of the model has not called the tool that it had to")


def check_followed(grammar: Grammar, sequence: records.Sequence) -> None:
    """Refuse a finished text that cannot have followed its schema.

    Raises:
        EngineError: it is no JSON.
    """
    if grammar.kind != "json_schema" or sequence.finish_reason != "stop":
        return
    try:
        json.loads(sequence.text)
    except (ValueError, RecursionError):
        message = "the server of the model has not held a text to its schema"
        raise EngineError(message) from None


async def under_schema(calls: ModelCalls) -> OpenAIServer:
    """What the server can, `no_grammar` and `unmasked` included."""
    can, grammar, unmasked = calls.can, grammar_of(_SCHEMA), ""
    if not can.tells_logprobs:
        reason, _ = await _held(calls, grammar)
        return replace(can, no_grammar=reason, unmasked=unmasked)
    reason, choice = await _held(calls, grammar, min(can.logprobs or 0, _TOP))
    if choice is None:  # maybe it takes one of the two alone
        reason, _ = await _held(calls, grammar)
    if choice is None or (choice.logprobs is None and not choice.unsound):
        unmasked = _NO_LOGPROBS
    elif not is_masked(choice):
        unmasked = UNMASKED
    return replace(can, no_grammar=reason, unmasked=unmasked)


def is_masked(choice: Choice) -> bool:
    """Whether the log-probs of the text that had to come are those among what was allowed.

    They are where nothing else is likely in the place of its brace.
    """
    if choice.unsound or choice.tokens is None or choice.logprobs is None:
        return False
    places = [i for i, token in enumerate(choice.tokens) if "{" in token]
    if not places:
        return False
    tops = choice.tops[places[-1]] if choice.tops else {}
    if len(tops) < 2:  # the chosen one alone
        return bool((choice.logprobs[places[-1] :] > _FORCED).all())
    likely = [name for name, one in tops.items() if one > _UNLIKELY]
    return all(not name.strip() or name.lstrip().startswith("{") for name in likely)


async def _held(
    calls: ModelCalls, grammar: Grammar, top: int | None = None
) -> tuple[str, Choice | None]:
    """Why it does not follow a grammar that has one text, "" where it does; and its last answer.

    `top` is how many likeliest tokens are asked for with it; None for no log-probs.
    """
    can, request = calls.can, GenerationRequest(prompt=_QUESTION)
    if can.chats:
        request = GenerationRequest(messages=({"role": "user", "content": _QUESTION},))
    prompt = await render(calls, request)
    reason, choice = REFUSED, None
    # Some begin behind a reasoning, which is closed at once where that is possible.
    for closed in ((), *((one.start, *one.end) for one in can.tag_ids)):
        asked = prompt
        if closed:
            asked = replace(prompt, ids=(*(prompt.ids or ()), *closed))
        held = under_grammar(can, asked, grammar)
        choices = await calls.try_complete(
            asked, held, max_tokens=_NUM_TOKENS, top=top, by_text=True
        )
        if not choices:
            break
        [choice] = choices
        if _is_held(choice.text):
            return "", choice
        reason = _IGNORED
    return reason, choice


def _is_held(text: str) -> bool:
    """Whether an answer is the one valid value, as far as it came; a reasoning aside.

    A model may fill its tokens with the blanks that JSON leaves open.
    """
    _, begin, rest = text.rpartition("{")
    written = "".join((begin + rest).split())
    return bool(begin) and _VALUE.startswith(written)
