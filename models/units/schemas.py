"""How two values at one place are compared: what a JSON schema says of that place.

Remote references are never fetched. A pattern is never run: a hostile one would not end.
"""

from collections.abc import Mapping, Sized
from dataclasses import dataclass
from operator import ge, gt, le, lt
from typing import Any

from models.units.json_values import MAX_DEPTH, Value, escaped, json_type

# Formats that name a thing: another text names another thing, however alike.
NAMING_FORMATS = frozenset(
    {"date", "date-time", "time", "uuid", "email", "uri", "ipv4", "ipv6", "hostname"}
)
_LIMITS = {
    "number": {"minimum": ge, "maximum": le, "exclusiveMinimum": gt, "exclusiveMaximum": lt},
    "string": {"minLength": ge, "maxLength": le},
    "array": {"minItems": ge, "maxItems": le},
    "object": {"minProperties": ge, "maxProperties": le},
}


class BadSchema(ValueError):
    """A keyword of the schema has a value that the keyword cannot have."""


@dataclass(frozen=True, slots=True)
class Rule:
    """How a leaf is compared.

    Attributes:
        exact: whether strings agree wholly or not at all.
        tolerance: relative, of numbers.
    """

    exact: bool = False
    tolerance: float = 0.0


def rules(value: Value, schema: object) -> dict[str, Rule]:
    """A rule for each leaf of a value, by JSON Pointer.

    Local references are resolved, `allOf` is merged, of `anyOf` and `oneOf` the first branch
    counts that the value is valid under. A place that the schema leaves open has the plain rule.

    Args:
        value: the answer.
        schema: as JSON; true and false say nothing.

    Raises:
        BadSchema: for `{"type": 7}` and the like.

    >>> from models.units.json_values import parse
    >>> rules(parse('{"km": 7}'), {"properties": {"km": {"x-relative-tolerance": 0.1}}})
    {'/km': Rule(exact=False, tolerance=0.1)}
    """
    found: dict[str, Rule] = {}
    try:
        _Reader(schema).read(value, schema, "", found)
    except (AttributeError, TypeError, ValueError) as error:
        raise BadSchema(f"not a JSON schema: {error}") from error
    return found


class _Reader:
    """Reads one schema beside one value."""

    def __init__(self, root: object) -> None:
        self._root = root
        # By identity of schema and value. A pair that is being judged counts as invalid meanwhile:
        # references in a circle end, and nothing is judged twice.
        self._judged: dict[tuple[int, int], bool] = {}

    def read(self, value: Value, schema: object, path: str, found: dict[str, Rule]) -> None:
        merged = self._merged(schema, value)
        members, elements = value.members(), value.elements()
        for key, member in members.items():
            self.read(member, _member(merged, key), f"{path}/{escaped(key)}", found)
        for index, element in enumerate(elements):
            self.read(element, _element(merged, index), f"{path}/{index}", found)
        if not (members or elements):
            found[path] = _rule(merged)

    def _merged(self, schema: object, value: Value) -> dict[str, Any]:
        """One schema of all that holds at a place; of two words on one thing the nearer counts."""
        merged: dict[str, Any] = {}
        seen = set()
        pending = [schema]
        for one in pending:  # grows meanwhile
            if not isinstance(one, dict) or id(one) in seen:
                continue
            seen.add(id(one))
            _merge(merged, one)
            pending += [self._target(one), *one.get("allOf", [])]
            for branches in (one.get("anyOf", []), one.get("oneOf", [])):
                valid = (branch for branch in branches if self._is_valid(branch, value, MAX_DEPTH))
                pending.append(next(valid, None))
        return merged

    def _target(self, schema: Mapping[str, Any]) -> object:
        """What a local reference points to; None without one, or where it points nowhere."""
        start, *tokens = schema.get("$ref", "").split("/")
        target = self._root if start == "#" else None
        for token in tokens:
            key = token.replace("~1", "/").replace("~0", "~")
            if isinstance(target, list):
                target = dict(zip(map(str, range(len(target))), target, strict=True))
            target = target.get(key) if isinstance(target, dict) else None
        return target

    def _is_valid(self, schema: object, value: Value, depth: int) -> bool:
        """Whether the value is valid, as far as the keywords that are read here tell."""
        if not isinstance(schema, dict):
            return schema is not False
        pair = (id(schema), id(value))
        if pair not in self._judged:
            self._judged[pair] = False
            self._judged[pair] = depth > 0 and self._judge(schema, value, depth - 1)
        return self._judged[pair]

    def _judge(self, schema: dict[str, Any], value: Value, depth: int) -> bool:
        if not _is_valid_alone(schema, value):
            return False
        parts = [(one, value) for one in (self._target(schema), *schema.get("allOf", []))]
        parts += [(_member(schema, key), one) for key, one in value.members().items()]
        parts += [(_element(schema, i), one) for i, one in enumerate(value.elements())]
        if not all(self._is_valid(part, one, depth) for part, one in parts):
            return False
        for branches in (schema.get("anyOf"), schema.get("oneOf")):
            if branches and not any(self._is_valid(one, value, depth) for one in branches):
                return False
        return True


def _is_valid_alone(schema: Mapping[str, Any], value: Value) -> bool:
    """Whether type, constants, limits and required members hold, of the value itself."""
    content, types, constants = value.content, schema.get("type", []), schema.get("enum", [])
    if isinstance(types, str):
        types = [types]
    if types and not any(_has_type(content, one) for one in types):
        return False
    if "const" in schema:
        constants = [schema["const"]]
    if constants and not any(_is_same(one, value) for one in constants):
        return False
    if isinstance(content, dict) and not content.keys() >= set(schema.get("required", [])):
        return False
    size: Any = len(content) if isinstance(content, Sized) else content
    for keyword, holds in _LIMITS.get(json_type(content), {}).items():
        if keyword in schema and not holds(size, schema[keyword]):
            return False
    return True


def _has_type(content: Any, name: object) -> bool:
    if name == "integer":
        return json_type(content) == "number" and content % 1 == 0
    return json_type(content) == name


def _is_same(constant: object, value: Value) -> bool:
    return json_type(constant) == json_type(value.content) and constant == value.plain()


def _rule(schema: Mapping[str, Any]) -> Rule:
    is_constant = not schema.keys().isdisjoint(("enum", "const", "pattern"))
    exact = is_constant or schema.get("format") in NAMING_FORMATS
    return Rule(exact, max(0.0, float(schema.get("x-relative-tolerance", 0.0))))


def _member(schema: Mapping[str, Any], key: str) -> object:
    return schema.get("properties", {}).get(key, schema.get("additionalProperties"))


def _element(schema: Mapping[str, Any], index: int) -> object:
    first = schema.get("prefixItems", [])
    return first[index] if index < len(first) else schema.get("items")


def _merge(merged: dict[str, Any], schema: Mapping[str, Any]) -> None:
    """Add what holds, too; for a member that both name, both of its schemas hold."""
    members = dict(merged.get("properties", {}))
    for key, one in schema.get("properties", {}).items():
        members[key] = {"allOf": [members[key], one]} if key in members else one
    for keyword, own in schema.items():
        merged.setdefault(keyword, own)
    merged["properties"] = members
