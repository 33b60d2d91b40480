"""Chats with tools: calls, answers from their results, and requests that no tool serves."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from cocoa_lab.embedded.topics import definite
from cocoa_lab.embedded.world.document import Document, Message, user
from cocoa_lab.embedded.world.knowledge import Fact, Knowledge
from cocoa_lab.embedded.world.mentions import Mention
from cocoa_lab.embedded.world.pen import Pen
from cocoa_lab.embedded.world.tools import (
    TOOLS,
    Tool,
    answer,
    call,
    described,
    mentions_for,
    request,
)

SHARE_TWO_CALLS, SHARE_RESULTS, SHARE_NO_CALL = 0.12, 0.25, 0.15
MAX_OFFERED = 3

# Questions that no tool serves, by kind of place and attribute.
_QUESTIONS = (
    ("country", "capital", "What is the capital of {place}?"),
    ("country", "language", "Which language is spoken in {place}?"),
    ("country", "continent", "On which continent is {place}?"),
    ("city", "river", "On which river does {place} lie?"),
    ("city", "founder", "Who founded {place}?"),
    ("city", "currency", "How do people pay in {place}?"),
)
# What is missing: a request without the argument, and the question back.
_INCOMPLETE = (
    ("get_weather", "What is the weather like?", "In which city?"),
    ("get_time", "What time is it there?", "In which city?"),
    ("set_alarm", "Wake me up tomorrow.", "At what time?"),
    ("count_people", "How many people live there?", "In which country?"),
)


def written_calls(calls: Sequence[Mapping[str, Any]]) -> str:
    """Calls as the chat template writes them and as they are read back."""
    return "\n".join(f"<tool_call>\n{json.dumps(one)}\n</tool_call>" for one in calls)


def offer(needed: str | None, pen: Pen, *, without: str | None = None) -> list[dict[str, Any]]:
    """Some tools in a random order, the needed one among them."""
    others = [tool for tool in TOOLS if tool.name not in (needed, without)]
    count = pen.rng.randint(0 if needed else 1, MAX_OFFERED - (needed is not None))
    chosen = [tool for tool in TOOLS if tool.name == needed] + pen.rng.sample(others, count)
    return [described(tool) for tool in pen.rng.sample(chosen, len(chosen))]


def _facts(mentions: Sequence[Mapping[str, Mention]]) -> list[Fact]:
    facts: list[Fact] = []
    for by_name in mentions:
        for one in by_name.values():
            facts += one.facts
    return facts


def asked(tool: Tool, knowledge: Knowledge, pen: Pen) -> tuple[str, list[dict[str, Mention]]]:
    """A request for one call of a tool or two, and what each call's arguments are mentioned as."""
    first = mentions_for(tool, knowledge, pen)
    text = request(tool, first, pen)
    if list(tool.arguments) != ["city"] or not pen.chance(SHARE_TWO_CALLS):
        return text, [first]
    second = mentions_for(tool, knowledge, pen)
    if second["city"].value == first["city"].value:
        return text, [first]
    end = text[-1]
    return f"{text.removesuffix(end)} and in {second['city'].words}{end}", [first, second]


def call_document(knowledge: Knowledge, pen: Pen) -> Document:
    """A call, an answer from a call's result, or an answer without a call."""
    if pen.chance(SHARE_NO_CALL):
        return _incomplete(pen) if pen.chance(0.3) else _unserved(knowledge, pen)
    tool = pen.rng.choice(TOOLS)
    text, mentions = asked(tool, knowledge, pen)
    calls = [call(tool, one) for one in mentions]
    if len(calls) == 1 and pen.chance(SHARE_RESULTS):
        return _from_result(tool, text, mentions[0], pen)
    return Document(
        kind="call",
        messages=[user(text)],
        reply=written_calls(calls),
        tools=offer(tool.name, pen),
        facts=_facts(mentions),
    )


def _from_result(tool: Tool, text: str, mentions: Mapping[str, Mention], pen: Pen) -> Document:
    result = tool.result(pen)
    function = call(tool, mentions)
    turn: Message = {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"type": "function", "function": function}],
    }
    return Document(
        kind="call",
        messages=[user(text), turn, {"role": "tool", "content": json.dumps(result)}],
        reply=answer(tool, mentions, result),
        tools=offer(tool.name, pen),
    )


def unserved(knowledge: Knowledge, pen: Pen) -> tuple[str, Fact]:
    """A question that no tool serves, and the fact that answers it."""
    while True:
        kind, attribute, words = pen.rng.choice(_QUESTIONS)
        place = knowledge.draw(pen, "country" if kind == "country" else "city")
        fact = knowledge.tell(place, attribute, pen)
        if fact is not None:
            return words.format(place=definite(place.name)), fact


def _unserved(knowledge: Knowledge, pen: Pen) -> Document:
    text, fact = unserved(knowledge, pen)
    tools = offer(None, pen)
    return Document("call", [user(text)], str(fact.value), tools=tools, facts=[fact])


def _incomplete(pen: Pen) -> Document:
    name, text, reply = pen.rng.choice(_INCOMPLETE)
    return Document("call", [user(text)], reply, tools=offer(name, pen))
