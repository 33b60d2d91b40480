"""Calls of tools that a server parts from the text: read from its pieces, and put back. Pure."""

import json
from collections.abc import Iterable, Sequence
from itertools import product, starmap
from operator import itemgetter
from typing import Any

from models.units.tool_calls import Call, read


def with_calls(
    content: str, calls: Sequence[tuple[str, str]], tokens: tuple[str, ...]
) -> tuple[str, tuple[str, ...] | None]:
    """An answer with calls as one text, and the texts of its tokens where these join to it.

    Calls are written as Hermes' templates do, so that everything behind reads them as it reads
    those of a model in this process (`models.units.tool_calls`). Where the same calls can be read
    in the texts of the tokens, these are the answer's.
    """
    names, wanted = list(map(itemgetter(0), calls)), list(starmap(plain, calls))
    for written in (tokens, tokens[:-1]):  # the last token may be what ended the answer
        parsed = []
        for block in read("".join(written), names):
            if isinstance(block, Call):
                parsed.append(plain(block.name, block.arguments))
        if parsed and parsed == wanted:
            return "".join(written), (*written, *[""] * (len(tokens) - len(written)))
    blocks = [content.strip()]
    for name, arguments in calls:  # as they were written: those that were cut off are no call
        written_call = f'{{"name": {json.dumps(name)}, "arguments": {arguments or "{}"}}}'
        blocks.append(f"<tool_call>\n{written_call}\n</tool_call>")
    return "\n".join(filter(None, blocks)), None


def joined(pieces: Iterable[Any]) -> list[list[Any]]:
    """The pieces of each call in a stream.

    A piece goes on with the call of its number; another id, or where none are numbered another
    name, begins a call.
    """
    calls: list[list[Any]] = []
    last: dict[Any, tuple[list[Any], Any]] = {}
    for piece in pieces:
        number, call_id, function = piece.get("index"), piece.get("id"), piece.get("function") or {}
        call, known_id = last.get(number, ([], None))
        is_other = call_id and known_id and call_id != known_id
        if not call or is_other or (number is None and not call_id and function.get("name")):
            call = []
            calls.append(call)
        last[number] = call, call_id or known_id
        call.append(piece)
    return calls


def named(call: Sequence[Any]) -> tuple[str, str]:
    """The name and the arguments of a call, by its pieces."""
    told = {"name": "", "arguments": ""}
    for name, piece in product(told, call):
        more = (piece.get("function") or {}).get(name) or ""
        if (name, more) == ("name", told["name"]):  # some repeat it with each piece
            continue
        if not isinstance(more, str):
            more = json.dumps(more)
        told[name] += more
    if not told["name"]:
        raise ValueError("a call of nothing")
    return told["name"], told["arguments"]


def plain(name: str, arguments: str) -> tuple[str, Any]:
    try:
        return name, json.loads(arguments or "{}")
    except ValueError:  # cut off at its limit
        return name, arguments
