"""Tool calls in the text of an answer, in the formats of the templates that are known.

| what templates write | models |
|---|---|
| `<tool_call>{"name": …, "arguments": {…}}</tool_call>`, one for each call | Hermes, Qwen |
| `[TOOL_CALLS][{"name": …, "arguments": {…}}, …]` | Mistral |
| `{"name": …, "parameters": {…}}`, several of them with `;` between | Llama 3 |

Texts are decoded without special tokens, so that the mark in front may be missing: then the whole
text must be calls of tools that there are.
"""

import json
import re
import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from models.units.json_values import MAX_DEPTH, NotJson, Value, parse

_BEGIN, _END = "<tool_call>", "</tool_call>"
_BLOCK = re.compile(r"<tool_call>\s*")
_BLOCK_END = re.compile(r"\s*(?:</tool_call>|\Z)")
# Marks that may stand before calls that are a whole text.
_MARK = re.compile(r"\s*(?:\[TOOL_CALLS\]|<\|python_tag\|>|<\|tool_call\|>)?\s*")
_BETWEEN = re.compile(r"[\s;]*")
_BARE_STARTS = ("{", "[", "<|python_tag|>", "<|tool_call|>")
_BARE_CALLS = re.compile(rf"{_MARK.pattern}(?:\[\s*\{{.*\}}\s*\]|\{{.*\}})", re.DOTALL)
_PROBE_ARGUMENT = "place"
# Keywords of a schema of arguments that do not require any.
_SAYS_OF_NONE = {"type", "properties", "required", "title", "description", "$schema"}


@dataclass(frozen=True, slots=True)
class Call:
    """One call."""

    name: str  # of the tool
    arguments: str  # JSON text of an object, as it was written
    value: Value  # `{"function": {"name", "arguments"}}`, each with its place in the text


def read(text: str, names: Collection[str]) -> list[str | Call]:
    """The calls of an answer in their order, and the texts before, between and behind them.

    What is no call that can be read is text. Texts are stripped, and none is empty.
    Calls without a mark must be of the tools of these names.

    >>> [one] = read('<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>', ["f"])
    >>> one.name, one.arguments
    ('f', '{"a": 1}')
    """
    parts = [part.strip() if isinstance(part, str) else part for part in segments(text, names)]
    return list(filter(None, parts))


def segments(text: str, names: Collection[str]) -> list[str | Call]:
    """Calls, and all text around them as it stands; see `read`."""
    parts: list[str | Call] = list(_bare(text, names))
    if parts:
        return parts
    last_end = 0
    for block in _BLOCK.finditer(text):
        if block.start() < last_end:
            continue
        values, end = _values(text, block.end())
        calls = [call for value in values if (call := _call(value, text)) is not None]
        closed = _BLOCK_END.match(text, end)
        if not calls or len(calls) < len(values) or closed is None:
            continue
        parts += [text[last_end : block.start()], *calls]
        last_end = closed.end()
    return [*parts, text[last_end:]]


def num_settled(text: str, *, is_start: bool) -> int:
    """Number of leading characters that no later text can make part of a call, or cut off from one.

    The text is an answer so far, or, where it is no start, what follows such characters of it.

    >>> num_settled("Let me look. <tool", is_start=True)
    12
    """
    begun = text.lstrip()
    if is_start and (
        begun.startswith(_BARE_STARTS) or any(start.startswith(begun) for start in _BARE_STARTS)
    ):
        return 0
    last_end = 0
    for block in _BLOCK.finditer(text):
        if block.start() < last_end:
            continue
        end = block.end()
        if _END in text[end:]:
            _, end = _values(text, end)
        closed = _BLOCK_END.match(text, end)
        if end == block.end() or closed is None or not closed[0].strip():
            return len(text[: block.start()].rstrip())
        last_end = closed.end()
    for size in range(len(_BEGIN) - 1, 0, -1):
        if text.endswith(_BEGIN[:size]):
            return len(text[:-size].rstrip())
    return len(text.rstrip())


class CallStream:
    """Texts and calls of a growing answer, the same that `read` finds in the whole."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._pending = ""
        self._is_start = True
        self._in_text = False
        self._has_text = False

    def add(self, text: str) -> list[str | Call]:
        self._pending += text
        settled = num_settled(self._pending, is_start=self._is_start)
        if not settled:
            return []
        text, self._pending = self._pending[:settled], self._pending[settled:]
        return self._settled(text)

    def finish(self) -> list[str | Call]:
        text, self._pending = self._pending, ""
        return self._settled(text)

    def _settled(self, text: str) -> list[str | Call]:
        parts = segments(text, self._names if self._is_start else ())
        self._is_start = False
        settled: list[str | Call] = []
        for i, part in enumerate(parts):
            if isinstance(part, Call):
                self._in_text = False
                settled.append(part)
                continue
            if i + 1 < len(parts) or not self._pending:
                part = part.rstrip()
            if not self._in_text:
                part = part.lstrip()
            if not part:
                continue
            if self._has_text and not self._in_text:
                part = f"\n{part}"
            self._in_text = self._has_text = True
            settled.append(part)
        return settled


def as_value(text: str, tools: Sequence[Mapping[str, Any]]) -> Value | None:
    """The calls of these tools by an answer as one JSON array; None where there are none."""
    names = [tool["function"]["name"] for tool in tools]
    calls = [part.value for part in read(text, names) if isinstance(part, Call)]
    if not calls:
        return None
    return Value(calls, (calls[0].span[0], calls[-1].span[1]))


def schema_of(tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The schema of the calls of `as_value`: an array, each with its tool's arguments."""
    branches, parameters = [], {}
    for number, tool in enumerate(tools):
        function = tool["function"]
        place = f"#/$defs/{number}"
        parameters[str(number)] = _moved(function.get("parameters") or {}, place)
        call = {"name": {"const": function["name"]}, "arguments": {"$ref": place}}
        branches.append({"properties": {"function": {"properties": call}}})
    return {"$defs": parameters, "items": {"anyOf": branches}}


def schema_of_one(tools: Sequence[Mapping[str, Any]], under: str = "arguments") -> dict[str, Any]:
    """The schema of one call without a mark, which has its arguments `under` this name."""
    branches, parameters = [], {}
    for number, tool in enumerate(tools):
        function, named = tool["function"], f"tools.{number}.function.parameters"
        place = f"#/$defs/{named}"
        arguments = _moved(function.get("parameters") or {}, place)
        parameters[named] = _closed({"type": "object", **arguments})
        branches.append(
            {
                "type": "object",
                "properties": {"name": {"const": function["name"]}, under: {"$ref": place}},
                "required": ["name", under],
                "additionalProperties": False,
            }
        )
    if len(branches) == 1:
        return {"$defs": parameters, **branches[0]}
    return {"$defs": parameters, "anyOf": branches}


def _closed(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema; without arguments where it names none and has no rule for others."""
    names_arguments = schema.get("properties") or schema.get("required")
    if names_arguments or schema.keys() - _SAYS_OF_NONE:
        return schema
    return {**schema, "additionalProperties": False}


class CallTrial:
    """A chat that ends in a call: it shows whether a template writes calls that are read here."""

    def __init__(self) -> None:
        self._name = f"f{secrets.token_hex(4)}"
        function = {"name": self._name, "arguments": json.dumps({_PROBE_ARGUMENT: self._name})}
        call = {"id": "a1b2c3d4e", "type": "function", "function": function}
        self.chat: list[dict[str, Any]] = [
            {"role": "user", "content": "Hello"},
            {"role": "assistant", "content": "", "tool_calls": [call]},
        ]

    def reads_back(self, prompt: str, rendered: str) -> bool:
        """True where `read` finds the call as the template writes it in the rendered chat.

        `prompt` is the chat without its last message, rendered for an answer.
        """
        size = 0
        while prompt[size : size + 1] == rendered[size : size + 1] != "":
            size += 1
        written = rendered[size:]
        if _BEGIN in rendered[max(0, size - len(_BEGIN)) :]:  # it may begin as another tag does
            written = rendered[rendered.rindex(_BEGIN) :]
        elif (bare := _BARE_CALLS.match(written)) is not None:  # what ends the turn is no text
            written = bare[0]
        calls = [part for part in read(written, [self._name]) if isinstance(part, Call)]
        if [call.name for call in calls] != [self._name]:
            return False
        return bool(json.loads(calls[0].arguments) == {_PROBE_ARGUMENT: self._name})


def _bare(text: str, names: Collection[str]) -> Iterator[Call]:
    """The calls that a whole text is; none where anything else is in it."""
    mark = _MARK.match(text)
    values, end = _values(text, mark.end() if mark else 0)
    calls = [_call(value, text) for value in values]
    if text[end:].strip() or not all(call and call.name in names for call in calls):
        return
    yield from filter(None, calls)


def _values(text: str, start: int) -> tuple[list[Value], int]:
    """JSON objects that follow each other, or those of an array, and where they end."""
    values: list[Value] = []
    decoder = json.JSONDecoder()
    end = start
    while text[start : start + 1] in ("{", "["):
        try:
            _, end = decoder.raw_decode(text, start)
            value = parse(text, start, end)
        except (NotJson, ValueError, RecursionError):
            return values, start
        if isinstance(value.content, list):
            values += value.content
        else:
            values.append(value)
        between = _BETWEEN.match(text, end)
        start = between.end() if between else end
    return values, end


def _call(value: Value, text: str) -> Call | None:
    """A value as a call; None where it is none."""
    content = value.content
    if not isinstance(content, dict):
        return None
    name, arguments = content.get("name"), content.get("arguments", content.get("parameters"))
    if name is None or not isinstance(name.content, str):
        return None
    if arguments is None or not isinstance(arguments.content, dict):
        return None
    function = Value({"name": name, "arguments": arguments}, value.span)
    start, end = arguments.span
    return Call(name.content, text[start:end], Value({"function": function}, value.span))


def _moved(schema: Any, place: str, depth: int = 4 * MAX_DEPTH) -> Any:
    """A schema with its local references, now that it stands at a place of another one."""
    if not depth:
        return {}
    if isinstance(schema, list):
        return [_moved(item, place, depth - 1) for item in schema]
    if not isinstance(schema, dict):
        return schema
    moved = {}
    for key, value in schema.items():
        if key == "$ref" and isinstance(value, str) and value.startswith("#"):
            moved[key] = place + value[1:]
        else:
            moved[key] = _moved(value, place, depth - 1)
    return moved
