"""Branches of a `oneOf` that exclude each other, and those of which that is not known."""

import pytest

from models.schema_branches import Branches


def kind(value, required=True, **more):
    schema = {"type": "object", "properties": {"kind": value, **more}}
    return schema | ({"required": ["kind"]} if required else {})


NONE, ANY = {}, Branches({})
TARGETS = Branches({"/$defs/a": kind({"const": 1}), "/$defs/b": kind({"const": 2})})
LISTED = [{"enum": [f"k{number}"]} for number in range(63)]

EXCLUSIVE = {
    "types": [{"type": "string"}, {"type": ["null", "integer"]}],
    "integer consts": [kind({"const": 1}), kind({"const": 2})],
    "an integer and a string": [kind({"const": 1}), kind({"const": "1"})],
    "true is not 1": [{"const": True}, {"const": 1}],
    "lists": [{"enum": [1, "a"]}, {"enum": [2, "b"]}],
    "a list beside a type": [{"enum": [1, None]}, {"type": ["string", "boolean"]}],
    "one requires it, the other bounds it": [kind({"const": 1}), kind({"const": 2}, False)],
    "no further properties": [
        kind({"const": 1}),
        {"type": "object", "properties": {}, "additionalProperties": False},
    ],
    "references": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}],
    "choices": [{"anyOf": [{"const": 1}, {"const": 2}]}, {"const": 3}],
    "many": [kind(one) for one in LISTED],
    "false": [False, {}],
}


@pytest.mark.parametrize("name", EXCLUSIVE)
def test_branches_that_exclude_each_other(name):
    assert TARGETS.exclude(EXCLUSIVE[name], NONE)


UNKNOWN = {
    "integer and number": [{"type": "integer"}, {"type": "number"}],
    "the same number": [{"const": 1}, {"const": 1.0}],
    "ranges": [{"type": "integer", "maximum": 5}, {"type": "number", "minimum": 5.5}],
    "too many": [kind({"const": number}) for number in range(65)],
    "equal objects": [{"const": {"a": 1, "b": 2}}, {"const": {"b": 2, "a": 1.0}}],
    "a list beside its type": [{"enum": [1, "a"]}, {"type": "string"}],
    "nobody requires it": [kind({"const": 1}, False), kind({"const": 2}, False)],
    "other than objects": [{"properties": {"k": {"const": 1}}, "required": ["k"]}] * 2,
    "patterns": [
        kind({"const": 1}),
        {"type": "object", "patternProperties": {"^k": {}}, "additionalProperties": False},
    ],
    "ranges that touch": [{"type": "number", "maximum": 5}, {"type": "number", "minimum": 5}],
    "a circle": [{"$ref": "#/$defs/c"}, {"type": "string"}],
    "many with two alike": [kind(one) for one in [*LISTED, LISTED[7]]],
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_branches_of_which_that_is_not_known(name):
    circle = Branches({"/$defs/c": {"$ref": "#/$defs/c"}})
    assert not circle.exclude(UNKNOWN[name], NONE)


def test_the_type_beside_the_branches_counts():
    branches = [{"properties": {"k": {"const": i}}, "required": ["k"]} for i in range(2)]
    assert ANY.exclude(branches, {"type": "object"})
    assert not ANY.exclude(branches, NONE)
