"""Pure: whether the branches of a `oneOf` exclude each other, as far as can be told.

Where they do, one of them holds wherever any does, so that it says what `anyOf` says.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

from models.units.json_schemas import TYPES

# Pairs that are compared one by one; more branches take a property that tells all of them apart.
_MAX_PAIRS = 500
# Of schemas within each other, references among them.
_MAX_DEPTH = 8
_NUMBERS = frozenset({"integer", "fraction"})
_ALL = frozenset(TYPES) - {"number"} | _NUMBERS
_Kinds = frozenset[str]


@dataclass(frozen=True, slots=True)
class Branches:
    """Schemas within one schema."""

    targets: Mapping[str, Any]

    def exclude(self, branches: Sequence[Any], parent: Mapping[str, Any]) -> bool:
        """Whether no value is valid under two of these branches and under their parent's type."""
        kinds = _kinds(parent)
        if len(branches) * (len(branches) - 1) // 2 > _MAX_PAIRS:
            return kinds == {"object"} and self._told_apart(branches)
        pairs = combinations(branches, 2)
        return all(self._are_exclusive(one, other, kinds, _MAX_DEPTH) for one, other in pairs)

    def _told_apart(self, branches: Sequence[Any]) -> bool:
        """Whether a property that all of them require has other constants in each."""
        resolved = [self._resolved(one) for one in branches]
        if not all(isinstance(one, dict) for one in resolved):
            return False
        names = set(resolved[0].get("required", ()))
        for name in names.intersection(*(one.get("required", ()) for one in resolved)):
            seen: set[str] = set()
            for one in resolved:
                constants = _constants(self._resolved(one.get("properties", {}).get(name, True)))
                if constants is None or not seen.isdisjoint(constants):
                    break
                seen |= constants.keys()
            else:
                return True
        return False

    def _resolved(self, schema: Any) -> Any:
        for _ in range(_MAX_DEPTH):
            if not isinstance(schema, dict) or "$ref" not in schema:
                break
            schema = self.targets.get(schema["$ref"].removeprefix("#"), True)
        return schema

    def _are_exclusive(self, one: Any, other: Any, within: _Kinds, depth: int) -> bool:
        one, other = self._resolved(one), self._resolved(other)
        if one is False or other is False:
            return True
        if not depth or one is True or other is True:
            return False
        kinds = _kinds(one) & within, _kinds(other) & within
        if not kinds[0] & kinds[1]:
            return True
        if _differ((_constants(one), _constants(other)), kinds):
            return True
        for first, second in ((one, other), (other, one)):
            for keyword in ("anyOf", "oneOf"):
                inner = first.get(keyword, ())
                if inner and all(
                    self._are_exclusive(each, second, kinds[0] & kinds[1], depth - 1)
                    for each in inner
                ):
                    return True
        if kinds[0] & kinds[1] <= _NUMBERS:
            return _lies_below(one, other) or _lies_below(other, one)
        return kinds[0] & kinds[1] == {"object"} and self._differ_in_a_property(one, other, depth)

    def _differ_in_a_property(
        self, one: Mapping[str, Any], other: Mapping[str, Any], depth: int
    ) -> bool:
        """Whether one requires a property, and no value of it is valid under both."""
        for name in {*one.get("required", ()), *other.get("required", ())}:
            members = []
            for schema in (one, other):
                otherwise = True
                if "patternProperties" not in schema:
                    otherwise = schema.get("additionalProperties", True)
                members.append(schema.get("properties", {}).get(name, otherwise))
            if self._are_exclusive(members[0], members[1], _ALL, depth - 1):
                return True
        return False


def _kinds(schema: Mapping[str, Any]) -> _Kinds:
    types = schema.get("type", TYPES)
    if isinstance(types, str):
        types = [types]
    return frozenset(types) - {"number"} | (_NUMBERS if "number" in types else frozenset())


def _constants(schema: Any) -> dict[str, _Kinds] | None:
    """The values that are valid under it, each with its type; None where they are not listed."""
    if not isinstance(schema, dict) or schema.keys().isdisjoint({"const", "enum"}):
        return None
    values = [schema["const"]] if "const" in schema else schema["enum"]
    return {json.dumps(_plain(one), sort_keys=True): _kind_of(one) for one in values}


def _plain(value: Any) -> Any:
    """Equal numbers, written alike."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _kind_of(value: Any) -> _Kinds:
    value = _plain(value)
    names = {bool: "boolean", int: "integer", float: "fraction", str: "string"}
    names |= {dict: "object", list: "array"}
    return frozenset({names.get(type(value), "null")})


def _differ(
    constants: tuple[dict[str, _Kinds] | None, dict[str, _Kinds] | None],
    kinds: tuple[_Kinds, _Kinds],
) -> bool:
    first, second = constants
    if first is not None and second is not None:
        return first.keys().isdisjoint(second)
    listed, other_kinds = (second, kinds[0]) if first is None else (first, kinds[1])
    return listed is not None and not any(kind & other_kinds for kind in listed.values())


def _lies_below(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    for most, least in product(("maximum", "exclusiveMaximum"), ("minimum", "exclusiveMinimum")):
        if most not in one or least not in other:
            continue
        is_open = (most, least) != ("maximum", "minimum")
        if one[most] < other[least] or (is_open and one[most] == other[least]):
            return True
    return False
