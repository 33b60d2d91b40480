"""JSON values with their spans in the text, which the standard library does not report."""

import json
import math
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

from models.records import Span

# Bound of arrays and objects within each other: walks of a value may recurse.
MAX_DEPTH = 32

# All but commas, colons and white space, in a text that is known to be JSON.
_TOKEN = re.compile(r'[{}\[\]]|"(?:[^"\\]|\\.)*"|[^{}\[\]",:\s]+')
# The first line of a code block of JSON in Markdown, and its last one.
_FENCE_START = re.compile(r"\s*```(json)?[ \t]*\n", re.IGNORECASE)
_FENCE_END = "```"
_TYPES = {dict: "object", list: "array", str: "string", bool: "boolean", type(None): "null"}


class NotJson(ValueError):
    """The text is no JSON that can be read; the message says why."""


@dataclass(frozen=True, slots=True)
class Value:
    """A JSON value."""

    content: Any  # a str, int, float, bool or None, a dict of values or a list of them
    span: Span  # of its JSON text, quotation marks and brackets included

    def children(self) -> list[tuple[str | int, "Value"]]:
        if isinstance(self.content, dict):
            return list(self.content.items())
        if isinstance(self.content, list):
            return list(enumerate(self.content))
        return []

    def is_leaf(self) -> bool:
        """True where it holds no other value: also an empty object or array."""
        return not (isinstance(self.content, dict | list) and self.content)

    def plain(self) -> Any:
        """The value as `json.loads` returns it."""
        if isinstance(self.content, list):
            return [value.plain() for value in self.content]
        if isinstance(self.content, dict):
            return {key: value.plain() for key, value in self.content.items()}
        return self.content


def json_type(content: object) -> str:
    """Name of a content's type; integers and floats are one: "number"."""
    return _TYPES.get(type(content), "number")


def parse(text: str, start: int = 0, end: int = sys.maxsize) -> Value:
    """The JSON value that a text is from `start` to `end`; of duplicate keys the last counts.

    NaN and the infinities are no JSON. A lone surrogate, which cannot be stored, becomes the
    replacement character.

    Raises:
        NotJson: the text is none, nested deeper than `MAX_DEPTH`, or has a number that is too
            long.

    >>> parse(' {"a": 10} ').content["a"]
    Value(content=10, span=(7, 9))
    """
    try:
        json.loads(text[start:end], parse_constant=_refuse)
        tokens = _TOKEN.finditer(text, start, end)
        return _value(next(tokens), tokens, MAX_DEPTH)
    except RecursionError as error:
        raise NotJson(f"nested deeper than {MAX_DEPTH}") from error
    except ValueError as error:
        raise NotJson(str(error)) from error


def parsed(text: str) -> Value | None:
    r"""The JSON value that a text is, or that it holds as its only code block; None without one.

    >>> parsed("```json\n[7]\n```").content
    [Value(content=7, span=(9, 10))]
    """
    if (fence := _FENCE_START.match(text)) and text.rstrip().endswith(_FENCE_END):
        # Blanks in place of the fence, so that spans stay those of the whole text.
        text = " " * fence.end() + text[fence.end() : text.rindex(_FENCE_END)]
    try:
        return parse(text)
    except NotJson:
        return None


def leaves(value: Value, path: str = "") -> Iterator[tuple[str, Value]]:
    """JSON Pointer (RFC 6901) and value of all but non-empty objects and arrays, in order.

    >>> [path for path, _ in leaves(parse('{"a/b": [1, []]}'))]
    ['/a~1b/0', '/a~1b/1']
    """
    if value.is_leaf():
        yield path, value
    for token, child in value.children():
        yield from leaves(child, f"{path}/{escaped(token)}")


def escaped(token: str | int) -> str:
    """A key or an index as a part of a JSON Pointer."""
    return str(token).replace("~", "~0").replace("/", "~1")


def _value(first: re.Match[str], tokens: Iterator[re.Match[str]], depth: int) -> Value:
    """The value that begins with this token, in a text that is JSON."""
    if first[0] not in ("{", "["):
        return Value(_scalar(first[0]), first.span())
    if not depth:
        raise ValueError(f"nested deeper than {MAX_DEPTH}")
    content: Any = {} if first[0] == "{" else []
    for token in tokens:
        if token[0] in ("}", "]"):
            break
        if first[0] == "[":
            content.append(_value(token, tokens, depth - 1))
        else:
            content[_scalar(token[0])] = _value(next(tokens), tokens, depth - 1)
    return Value(content, (first.start(), token.end()))


def _scalar(token: str) -> Any:
    content = json.loads(token)
    if isinstance(content, str):
        return content.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(content, float) and math.isinf(content):
        raise ValueError("a number that is too great")
    return content


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
