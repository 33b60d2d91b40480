"""Grammars at servers of others: how they are asked for, and whether a server heeds them."""

import json
from dataclasses import replace
from typing import Any

from models.call_grammars import MARK, with_mark
from models.errors import EngineError
from models.grammars import grammar_of
from models.records import GenerationRequest, Grammar, Sequence
from workers.calls import Calls
from workers.openai.capabilities import Capabilities
from workers.openai.prompts import render, tokenize
from workers.openai.replies import read_choices
from workers.openai.requests import completion
from workers.openai.tags import with_tags

# What the server is held to while it is tried out: nobody answers the question so by chance.
_QUESTION = "What is the capital of France?"
_VALUE = '{"word":"cocoa"}'
_SCHEMA = {
    "type": "object",
    "properties": {"word": {"const": "cocoa"}},
    "required": ["word"],
    "additionalProperties": False,
}
# Tokens for it, and for the thoughts before it.
_NUM_TOKENS = 96
_REFUSED = "the server of the model takes no response_format"
_IGNORED = "the server of the model takes a response_format, and answers otherwise"
_NO_LARK = (
    "the server of the model follows no grammar that may call tools or not: with vLLM that takes "
    "--structured-outputs-config.backend guidance"
)


async def for_tokens(calls: Calls, can: Capabilities, grammar: Grammar) -> Grammar:
    """A grammar in which a mark that is a token of the server's is one."""
    if grammar.kind == "json_schema" or not can.tokenizes:
        return grammar
    ids = await tokenize(calls, MARK)
    if len(ids) != 1:
        return grammar
    return Grammar("lark", with_mark(grammar, ids[0]))


def with_grammar(body: dict[str, Any], grammar: Grammar) -> dict[str, Any]:
    """A body that asks for texts under a grammar."""
    if grammar.kind == "json_schema":
        schema = {"name": "answer", "schema": json.loads(grammar.source), "strict": True}
        return body | {"response_format": {"type": "json_schema", "json_schema": schema}}
    return body | {"structured_outputs": {"grammar": grammar.source}}


def check_followed(grammar: Grammar, sequence: Sequence) -> None:
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


async def no_grammar(calls: Calls, can: Capabilities) -> str:
    """Why it holds no text to a schema; "" where it does."""
    return await _reason(calls, can, grammar_of(_SCHEMA))


async def no_lark(calls: Calls, can: Capabilities) -> str:
    """Why it follows no grammar in the dialect of llguidance; "" where it does."""
    source = f"start: %json {grammar_of(_SCHEMA).source}"
    if not can.tokenizes or await _reason(calls, can, Grammar("lark", source)):
        return _NO_LARK
    return ""


async def _reason(calls: Calls, can: Capabilities, grammar: Grammar) -> str:
    """Why it does not follow a grammar that has one text; "" where it does."""
    request = GenerationRequest(prompt=_QUESTION)
    if can.chats:
        request = GenerationRequest(messages=({"role": "user", "content": _QUESTION},))
    prompt = await render(calls, can, request)
    reason = _REFUSED
    # Some begin behind a reasoning, which is closed at once where that is possible.
    for closed in ((), *((one.start, *one.end) for one in can.tag_ids)):
        asked = prompt
        if closed:
            asked = replace(prompt, ids=(*(prompt.ids or ()), *closed))
        body = with_grammar(completion(can, asked, max_tokens=_NUM_TOKENS), grammar)
        if (reply := await calls.attempt(asked.path, body)) is None:
            return reason
        [choice] = read_choices(reply, 1)
        choice = await with_tags(calls, can, choice, opened=asked.opened)
        if _is_held(choice.text):
            return ""
        reason = _IGNORED
    return reason


def _is_held(text: str) -> bool:
    """Whether an answer is the one valid value, as far as it came; a reasoning aside.

    A model may fill its tokens with the blanks that JSON leaves open.
    """
    _, begin, rest = text.rpartition("{")
    written = "".join((begin + rest).split())
    return bool(begin) and _VALUE.startswith(written)
