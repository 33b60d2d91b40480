"""Schemas and grammars at a server: fields of a body for them, and a trial of their effect."""

import json
from asyncio import Lock
from typing import Any

from models.errors import EngineError
from models.grammar.calls import MARKS, with_tokens
from models.grammar.grammars import grammar_of
from models.records import GenerationRequest, Grammar, Sequence
from models.units.tool_calls import Call, read
from workers.calling import gather
from workers.openai.choices import Choice
from workers.openai.found import OpenAIServer
from workers.openai.profiles import NO_FORMAT, UNMASKED
from workers.openai.prompts import HOUSE, ModelCalls, closed, question, tokenize
from workers.openai.requests import COMPLETIONS, Prompt
from workers.protocol import refuse_unheeded

_HINTS = "x-guidance"  # of llguidance
_NO_LARK = (
    "the server of the model follows no grammar that may call tools or not: with vLLM that takes "
    "--structured-outputs-config.backend guidance"
)
# The only valid value of the schema that is tried out: no model answers the question so by chance.
_VALUE = '{"word":"cocoa"}'
_SCHEMA = {
    "type": "object",
    "properties": {"word": {"const": "cocoa"}},
    "required": ["word"],
    "additionalProperties": False,
}
# Tokens for it, and for the thoughts before it; and the log-prob of what has to come, at least.
_NUM_TOKENS, _FORCED = 96, -3.0
_IGNORED = "the server of the model takes a response_format, and answers otherwise"


def check_heeded(server: OpenAIServer, request: GenerationRequest) -> None:
    """Refuse what a server does not heed, by the name of the field."""
    if request.grammar is not None and not server.holds_calls(request):
        reason = server.profile.no_grammar or ""
        if request.grammar.kind == "lark":
            reason = "" if server.profile.tokenizes else _NO_LARK
        refuse_unheeded("grammar", reason)
    reason = server.no_reasoning_limit
    for field in ("max_sample_reasoning_tokens", "max_reasoning_tokens"):
        if getattr(request.sampling, field):
            refuse_unheeded(field, reason)


def under_grammar(server: OpenAIServer, prompt: Prompt, grammar: Grammar) -> dict[str, Any]:
    """The fields of a body for texts under a grammar."""
    if grammar.kind != "json_schema":
        return {"structured_outputs": {"grammar": grammar.source}}
    schema = json.loads(grammar.source)
    if not server.profile.reads_hints:
        schema.pop(_HINTS, None)
    if server.profile.schema_of_texts and prompt.path == COMPLETIONS:
        return {server.profile.schema_of_texts: schema}
    named = {"name": "answer", "schema": schema, "strict": True}
    return {"response_format": {"type": "json_schema", "json_schema": named}}


async def for_tokens(calls: ModelCalls, grammar: Grammar) -> Grammar:
    """The grammar, with marks that are single tokens of the server as these tokens."""
    if grammar.kind == "json_schema" or not calls.server.profile.tokenizes:
        return grammar
    pieces = await gather(*(tokenize(calls, mark) for mark in MARKS))
    ids = {mark: tokens[0] for mark, tokens in zip(MARKS, pieces, strict=True) if len(tokens) == 1}
    return with_tokens(grammar, ids)


def check_followed(request: GenerationRequest, text: Sequence, *, is_call: bool) -> None:
    """Refuse a finished text that cannot have followed its schema, or has not called a tool."""
    if request.grammar is None or text.is_withheld or text.finish_reason != "stop":
        return
    if is_call:
        names = [tool["function"]["name"] for tool in request.tools]
        calls = read(text.text, names)
        if not any(isinstance(block, Call) for block in calls):
            raise EngineError("the server of the model has not called the tool that it had to")
    elif request.grammar.kind == "json_schema":
        try:
            json.loads(text.text)
        except (ValueError, RecursionError):
            raise EngineError("the server of the model has not held a text to its schema") from None


async def find_out(calls: ModelCalls, request: GenerationRequest, one_by_one: Lock) -> None:
    """Try out whether a server follows schemas, once a request needs that and it is not known."""
    server = calls.server
    if not _is_unknown(server, request):
        return
    async with one_by_one:
        if not _is_unknown(server, request):  # another request has tried it out
            return
        top = None if server.no_logprobs() else min(server.profile.logprobs or 0, 1)
        reason, choice = await _held(calls, top)
        if choice is None and top is not None:  # maybe it takes one of the two alone
            reason, _ = await _held(calls, None)
        server.learn(no_grammar=reason, unmasked="" if top is None else _unmasked(choice))


def _is_unknown(server: OpenAIServer, request: GenerationRequest) -> bool:
    """True where a request has a schema, and the server's ways with one are not known yet."""
    grammar, known = request.grammar, server.profile
    if grammar is None or grammar.kind != "json_schema" or server.holds_calls(request):
        return False
    is_refused = known.is_hosted and known.logprobs is None  # which is as good as a trial
    return not is_refused and (known.no_grammar is None or known.unmasked is None)


def _unmasked(choice: Choice | None) -> str:
    """The reason why log-probs of a forced text are not over the allowed tokens alone, or ""."""
    if choice is None or (choice.logprobs is None and not choice.unsound):
        return "the server of the model tells no log-probs under a response_format"
    tokens, logprobs = choice.tokens or (), choice.logprobs
    braces = [i for i, token in enumerate(tokens) if "{" in token]
    if choice.unsound or logprobs is None or not braces:
        return UNMASKED
    if not (logprobs[braces[-1] :] > _FORCED).all():
        return UNMASKED
    return ""


async def _held(calls: ModelCalls, top: int | None) -> tuple[str, Choice | None]:
    """The reason why it follows no schema of one text, "" where it does; and its last answer.

    `top` likeliest tokens are requested with it; None for no log-probs.
    """
    reason, choice = NO_FORMAT, None
    prompt = await question(calls, HOUSE)
    # Some begin behind a reasoning, which is closed at once where that is possible.
    for asking in (prompt, *await closed(calls, prompt)):
        held = under_grammar(calls.server, asking, grammar_of(_SCHEMA))
        answer = await calls.try_complete(asking, held, max_tokens=_NUM_TOKENS, top=top)
        if answer is None:
            break
        reason, choice = _IGNORED, answer
        if _is_held(answer.text):
            return "", answer
    return reason, choice


def _is_held(text: str) -> bool:
    """True where an answer is the only valid value, as far as it came; a reasoning aside.

    A model may fill its tokens with the blanks that JSON leaves open.
    """
    _, begin, rest = text.rpartition("{")
    written = "".join((begin + rest).split())
    return bool(begin) and _VALUE.startswith(written)
