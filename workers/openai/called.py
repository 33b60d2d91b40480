"""Tools that a server shows by itself, and calls that it parts from text. Pure.

Answers are texts here, with calls as Hermes' templates write them, so that everything behind reads
them as it reads those of a model in this process (`models.units.tool_calls`).
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from models.records import GenerationRequest
from models.units.tool_calls import Call, read


def tools_sent(request: GenerationRequest, *, must_call: bool) -> dict[str, Any]:
    """What a body says of tools; a grammar that is a schema of one call asks for one."""
    if not request.tools:
        return {}
    sent: dict[str, Any] = {"tools": list(request.tools)}
    if must_call:
        allowed = _allowed(json.loads(request.grammar.source if request.grammar else "{}"))
        sent["tool_choice"] = "required"
        if len(allowed) == 1 < len(request.tools):
            sent["tool_choice"] = {"type": "function", "function": {"name": allowed[0]}}
    return sent


def _allowed(schema: Mapping[str, Any]) -> list[str]:
    """Names in the schema of one call; see `models.units.tool_calls.schema_of_one`."""
    branches = schema.get("anyOf", [schema])
    return [one["properties"]["name"]["const"] for one in branches]


def text_of(
    content: str, calls: Sequence[Any], tokens: Sequence[str] | None
) -> tuple[str, Sequence[str] | None]:
    """An answer with calls as one text, and the texts of its tokens where these join to it.

    Args:
        content: what is said beside the calls.
        calls: as the server parts them.
        tokens: texts of all that the model wrote, as far as they are told; they are the answer's
            where the same calls can be read in them.

    Raises:
        LookupError, TypeError: they make no sense.
    """
    wanted = [_plain(one["function"]["name"], one["function"]["arguments"]) for one in calls]
    names = [name for name, _ in wanted]
    for size in (0, 1):  # the last token may be what ended the answer
        written = list(tokens or ())[: len(tokens or ()) - size]
        found = [one for one in read("".join(written), names) if isinstance(one, Call)]
        if found and [_plain(one.name, one.arguments) for one in found] == wanted:
            return "".join(written), [*written, *[""] * size]
    blocks = [content.strip()] if content.strip() else []
    for one in calls:  # arguments as they were written: those that were cut off are no call
        name, arguments = one["function"]["name"], one["function"]["arguments"]
        written_call = f'{{"name": {json.dumps(name)}, "arguments": {arguments or "{}"}}}'
        blocks.append(f"<tool_call>\n{written_call}\n</tool_call>")
    return "\n".join(blocks), None


def add(calls: list[dict[str, Any]], pieces: Sequence[Mapping[str, Any]]) -> None:
    """Add what one event of a stream says of calls to what is known of them.

    Raises:
        ValueError: a call is skipped; its number may be any.
    """
    for piece in pieces:
        index = piece.get("index", len(calls))
        if not 0 <= index <= len(calls):
            raise ValueError("calls are not told one after another")
        if index == len(calls):
            calls.append({"function": {"name": "", "arguments": ""}})
        for name, value in (piece.get("function") or {}).items():
            calls[index]["function"][name] = calls[index]["function"].get(name, "") + (value or "")


def _plain(name: str, arguments: str) -> tuple[str, Any]:
    try:
        return name, json.loads(arguments or "{}")
    except ValueError:  # cut off at its limit
        return name, arguments
