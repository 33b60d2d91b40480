"""Pure: the JSON schemas that a text can be held to, and the grammar of each.

What a schema says is heeded or refused by name, never ignored. Nothing is fetched and no pattern is
run here; the engine that follows a grammar bounds what that takes, and says what else is wrong.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from models.records import Grammar
from models.units.json_values import escaped

MAX_SCHEMA_CHARACTERS = 65_536

# One way of writing each value, so that equal values are equal texts, and no model that is not made
# for JSON writes blanks until its last token. llguidance reads it, here and in vLLM; others do not.
_OPTIONS = "x-guidance"
_WRITTEN = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}

_ONE = ("items", "additionalItems", "additionalProperties")
_SEVERAL = ("prefixItems", "allOf", "anyOf", "oneOf")
_NAMED = ("properties", "patternProperties", "$defs", "definitions")
# Python types of what these keywords can have for a value.
_VALUES: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(_ONE, (dict, bool)),
    **dict.fromkeys(_SEVERAL, (list,)),
    **dict.fromkeys(_NAMED, (dict,)),
    "type": (str, list),
    "enum": (list,),
    "required": (list,),
    **dict.fromkeys(("$ref", "pattern", "format"), (str,)),
    **dict.fromkeys(("minItems", "maxItems", "minLength", "maxLength"), (int,)),
    **dict.fromkeys(("minProperties", "maxProperties"), (int,)),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum"), (int, float)),
    **dict.fromkeys(("exclusiveMaximum", "multipleOf"), (int, float)),
}
# Keywords with any value: one that is heeded, and those that say nothing of what is valid.
_FREE = frozenset({"const", "title", "description", "default", "examples", "deprecated"})
_FREE |= {"readOnly", "writeOnly", "contentMediaType", "contentEncoding", "discriminator"}
_FREE |= {"$comment", "$schema"}
# Of a pattern: what engines ignore or refuse, or an escaped sign, a class or a sign.
_PIECES = re.compile(r"(\\[1-9]|\\k<|\(\?<?[=!])|\\.|\[(?:\\.|[^]\\])*\]?|.", re.DOTALL)


class BadSchema(ValueError):
    """No text can be held to a schema; says where in it and why."""


@dataclass(eq=False, slots=True)
class _Node:
    """A schema within a schema, and what must be finite so that some value under it is.

    Attributes:
        num_missing: of those, that are not known to be finite yet.
        parents: that wait for this one.
    """

    num_missing: int = 0
    parents: list["_Node"] = field(default_factory=list)

    def needs(self, *others: "_Node") -> None:
        """All of them must be finite."""
        self.num_missing += len(others)
        for other in others:
            other.parents.append(self)

    def needs_one(self, others: list["_Node"]) -> None:
        """One of them must be finite."""
        choice = _Node(num_missing=1)
        for other in others:
            other.parents.append(choice)
        self.needs(choice)


def grammar_of(schema: Mapping[str, Any]) -> Grammar:
    """The grammar of texts that are valid under a schema.

    Raises:
        BadSchema: it is too large, says what cannot be heeded, points out of itself, or no finite
            value is valid under it.
    """
    try:
        source = json.dumps({**schema, _OPTIONS: _WRITTEN})
    except RecursionError:
        raise BadSchema("is nested too deeply") from None
    if len(source) > MAX_SCHEMA_CHARACTERS:
        raise BadSchema(f"has more than {MAX_SCHEMA_CHARACTERS} characters of JSON")
    _check(schema)
    return Grammar("json_schema", source)


def _check(root: Mapping[str, Any]) -> None:
    nodes: dict[str, _Node] = {}
    schemas = list(_schemas_in(root))
    for path, _ in schemas:
        nodes[path] = _Node()
    for path, schema in schemas:
        if isinstance(schema, dict):
            _check_keywords(path, schema, nodes)
            _connect(path, schema, nodes)
    known = [node for node in nodes.values() if node.num_missing == 0]
    for node in known:  # grows meanwhile
        for parent in node.parents:
            parent.num_missing -= 1
            if parent.num_missing == 0:
                known.append(parent)
    if nodes[""].num_missing > 0:
        raise BadSchema("no finite value is valid under it: what it requires contains itself")


def _schemas_in(root: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Each schema within a schema by its JSON Pointer, the whole first."""
    pending: list[tuple[str, Any]] = [("", root)]
    while pending:
        path, schema = pending.pop()
        if not isinstance(schema, dict | bool):
            raise BadSchema(f"{_place(path)} must be a schema, which is an object, true or false")
        yield path, schema
        if isinstance(schema, bool):
            continue
        for keyword, value in schema.items():
            _check_value(path, keyword, value)
            inner = f"{path}/{escaped(keyword)}"
            if keyword in _ONE:
                pending.append((inner, value))
            elif keyword in _SEVERAL:
                pending += [(f"{inner}/{number}", one) for number, one in enumerate(value)]
            elif keyword in _NAMED:
                pending += [(f"{inner}/{escaped(name)}", one) for name, one in value.items()]


def _check_value(path: str, keyword: str, value: Any) -> None:
    types = _VALUES.get(keyword)
    if types is None:
        return
    is_bool = isinstance(value, bool)
    if not isinstance(value, types) or (is_bool and bool not in types):
        raise BadSchema(f"{_place(path)}: {keyword} cannot be {json.dumps(value):.40}")
    patterns: Mapping[str, Any] = {"pattern": [value], "patternProperties": value}
    for pattern in patterns.get(keyword, ()):
        if any(piece[1] for piece in _PIECES.finditer(pattern)):
            what = "look-around and backreferences are not supported"
            raise BadSchema(f"{_place(path)}: {keyword}: {what}")
    if keyword not in ("required", "type") or not isinstance(value, list):
        return
    if not all(isinstance(name, str) for name in value):
        raise BadSchema(f"{_place(path)}: {keyword} must be a list of strings")


def _check_keywords(path: str, schema: Mapping[str, Any], nodes: Mapping[str, _Node]) -> None:
    for keyword in schema:
        if keyword in _VALUES or keyword in _FREE or (keyword == "$id" and not path):
            continue
        if keyword.startswith("x-") and keyword != _OPTIONS:
            continue
        raise BadSchema(f"{_place(path)}: the keyword {keyword!r:.60} is not supported")
    reference = schema.get("$ref")
    if reference is None:
        return
    if not reference.startswith("#"):
        raise BadSchema(f"{_place(path)}: $ref must point into the schema itself, as #/$defs/name")
    if reference.removeprefix("#") not in nodes:
        raise BadSchema(f"{_place(path)}: $ref {reference!r:.60} points to no schema")


def _connect(path: str, schema: Mapping[str, Any], nodes: Mapping[str, _Node]) -> None:
    """Say what a schema needs; a value that it lists is finite whatever else it says."""
    node = nodes[path]
    if "enum" in schema or "const" in schema:
        return
    if "$ref" in schema:
        node.needs(nodes[schema["$ref"].removeprefix("#")])
    for number in range(len(schema.get("allOf", []))):
        node.needs(nodes[f"{path}/allOf/{number}"])
    for keyword in ("anyOf", "oneOf"):
        if keyword in schema:
            numbers = range(len(schema[keyword]))
            node.needs_one([nodes[f"{path}/{keyword}/{number}"] for number in numbers])
    if schema.get("type") == "object":
        for name in schema.get("required", []):
            if name in schema.get("properties", {}):
                node.needs(nodes[f"{path}/properties/{escaped(name)}"])
    if schema.get("type") == "array" and (least := schema.get("minItems", 0)) > 0:
        num_first = len(schema.get("prefixItems", []))
        for number in range(min(least, num_first)):
            node.needs(nodes[f"{path}/prefixItems/{number}"])
        if least > num_first and "items" in schema:
            node.needs(nodes[f"{path}/items"])


def _place(path: str) -> str:
    return f"at #{path:.120}"
