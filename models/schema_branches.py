"""Pure: whether the branches of a `oneOf` exclude each other, as far as that can be shown.

Where they do, one of them holds wherever any does, so that it says what `anyOf` says.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from models.units.json_schemas import TYPES, pointer

# Each is compared with each other one.
_MAX_BRANCHES = 64
# Bound of schemas within each other, references among them.
_MAX_DEPTH = 8
_KIND_OF = {bool: "boolean", int: "integer", float: "fraction", str: "string", dict: "object"}
_KIND_OF |= {list: "array", type(None): "null"}
_Kinds = frozenset[str]


@dataclass(frozen=True, slots=True)
class Branches:
    """Schemas within one schema."""

    targets: Mapping[str, Any]

    def exclude(self, branches: Sequence[Any], parent: Mapping[str, Any]) -> bool:
        """True where no value is valid under two of these branches and their parent's type."""
        if len(branches) > _MAX_BRANCHES:
            return False
        pairs, kinds = combinations(branches, 2), _kinds(parent)
        return all(self._are_exclusive(one, other, kinds, _MAX_DEPTH) for one, other in pairs)

    def _resolved(self, schema: Any) -> Any:
        for _ in range(_MAX_DEPTH):
            if not isinstance(schema, dict) or "$ref" not in schema:
                break
            schema = self.targets.get(pointer(schema["$ref"]), True)
        return schema

    def _are_exclusive(self, one: Any, other: Any, within: _Kinds, depth: int) -> bool:
        one, other = self._resolved(one), self._resolved(other)
        if one is False or other is False:
            return True
        if not depth or one is True or other is True:
            return False
        kinds = _kinds(one) & _kinds(other) & within
        if not kinds or _list_apart(one, other):
            return True
        for first, second in ((one, other), (other, one)):
            for keyword in ("anyOf", "oneOf"):
                inner = first.get(keyword, ())
                if inner and all(
                    self._are_exclusive(each, second, kinds, depth - 1) for each in inner
                ):
                    return True
        return kinds == {"object"} and self._differ_in_a_property(one, other, depth)

    def _differ_in_a_property(
        self, one: Mapping[str, Any], other: Mapping[str, Any], depth: int
    ) -> bool:
        """True where one requires a property, and no value of it is valid under both."""
        for name in {*one.get("required", ()), *other.get("required", ())}:
            members = []
            for schema in (one, other):
                otherwise = True
                if "patternProperties" not in schema:
                    otherwise = schema.get("additionalProperties", True)
                members.append(schema.get("properties", {}).get(name, otherwise))
            if self._are_exclusive(members[0], members[1], _kinds({}), depth - 1):
                return True
        return False


def _values(schema: Mapping[str, Any]) -> list[Any] | None:
    """The values that it lists; None where it lists none."""
    values: list[Any] | None = [schema["const"]] if "const" in schema else schema.get("enum")
    return values


def _kinds(schema: Mapping[str, Any]) -> _Kinds:
    if (values := _values(schema)) is not None:
        return frozenset(map(_kind_of, values))
    types = schema.get("type", TYPES)
    kinds = {types} if isinstance(types, str) else {*types}
    return frozenset(kinds - {"number"} | {"integer", "fraction"} if "number" in kinds else kinds)


def _kind_of(value: Any) -> str:
    is_whole = isinstance(value, float) and value.is_integer()
    return "integer" if is_whole else _KIND_OF[type(value)]


def _list_apart(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """True where both list values, no objects or arrays among them, and none in common."""
    listed, others = _values(one), _values(other)
    if listed is None or others is None:
        return False
    if any(isinstance(value, dict | list) for value in (*listed, *others)):
        return False
    ours = {(_kind_of(value), value) for value in listed}
    return ours.isdisjoint((_kind_of(value), value) for value in others)
