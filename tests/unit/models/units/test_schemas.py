import json

import pytest

from models.units.json_schemas import BadSchema
from models.units.json_values import parse
from models.units.schemas import NAMING_FORMATS, Rule, may_be_null, rules

EXACT, PLAIN = Rule(exact=True), Rule()


def rule(value, schema, path=""):
    return rules(parse(json.dumps(value)), schema)[path]


@pytest.mark.parametrize(
    "schema",
    [{"enum": ["a", "b"]}, {"const": "a"}, {"pattern": "^a"}]
    + [{"format": name} for name in sorted(NAMING_FORMATS)],
    ids=str,
)
def test_what_names_a_thing_is_compared_exactly(schema):
    assert rule("a", schema) == EXACT


@pytest.mark.parametrize(
    "schema", [{}, {"type": "string"}, {"format": "idn-email"}, True, False, None], ids=str
)
def test_other_strings_are_compared_by_likeness(schema):
    assert rule("a", schema) == PLAIN


@pytest.mark.parametrize(
    ("value", "schema", "path"),
    [
        ({"a": {"b": "x"}}, {"properties": {"a": {"properties": {"b": {"const": "x"}}}}}, "/a/b"),
        ({"a": "x"}, {"additionalProperties": {"const": "x"}}, "/a"),
        (["p", "x"], {"prefixItems": [{}], "items": {"const": "x"}}, "/1"),
        (["x", "p"], {"prefixItems": [{"const": "x"}], "items": {}}, "/0"),
        ({"a/b~": "x"}, {"properties": {"a/b~": {"const": "x"}}}, "/a~1b~0"),
    ],
    ids=["properties", "additional ones", "items", "prefix", "escaped"],
)
def test_the_schema_of_a_place_is_found(value, schema, path):
    assert rule(value, schema, path) == EXACT


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("#/$defs/name", EXACT),
        ("#/$defs/a~1b~0", EXACT),
        ("#/$defs/via", EXACT),
        ("#/$defs/a%20b", EXACT),
        ("#/%24defs/%C3%A9", EXACT),
        ("#/$defs/list%2F1", EXACT),
        ("#/$defs/a%2520b", PLAIN),
        ("#/$defs/list/1", EXACT),
        ("#/$defs/none", PLAIN),
        ("#/$defs/list/7", PLAIN),
        ("#/$defs/list/x", PLAIN),
        ("#/$defs/circle", PLAIN),
        ("#", PLAIN),
        ("#anchor", PLAIN),
        ("https://example.com/schema", PLAIN),
        ("other.json#/$defs/name", PLAIN),
    ],
)
def test_local_references_are_resolved_and_no_others(reference, expected):
    definitions = {
        "name": {"const": "x"},
        "a/b~": {"const": "x"},
        "via": {"$ref": "#/$defs/name"},
        "a b": {"const": "x"},
        "é": {"const": "x"},
        "circle": {"$ref": "#/$defs/circle"},
        "list": [{}, {"const": "x"}],
    }

    assert rule("x", {"$ref": reference, "$defs": definitions}) == expected


def test_a_schema_may_refer_to_itself_as_deep_as_the_value_goes():
    tree = {
        "properties": {"name": {"format": "uuid"}, "in": {"$ref": "#"}},
        "anyOf": [{"$ref": "#"}, {"allOf": [{"$ref": "#"}]}],
    }

    assert rule({"in": {"in": {"name": "x"}}}, tree, "/in/in/name") == EXACT


def test_all_of_holds_together():
    first = {"properties": {"a": {"x-relative-tolerance": 0.5}, "b": {"const": "x"}}}
    second = {"properties": {"a": {"const": 1}}}

    found = rules(parse('{"a": 1, "b": "x"}'), {"allOf": [first, {"allOf": [second]}]})

    assert found == {"/a": Rule(exact=True, tolerance=0.5), "/b": EXACT}


NEVER = {"const": "another value"}


@pytest.mark.parametrize(
    ("value", "refused"),
    [
        ("x", {"type": "number"}),
        ("x", {"type": ["null", "integer"]}),
        (1.5, {"type": "integer"}),
        (True, {"type": "integer"}),
        (True, {"enum": [1]}),
        ("x", {"enum": ["y"]}),
        ("x", {"const": ["x"]}),
        ([1], {"const": [True, 2]}),
        (3, {"minimum": 4}),
        (3, {"maximum": 2}),
        (3, {"exclusiveMinimum": 3}),
        (3, {"exclusiveMaximum": 3}),
        ("x", {"minLength": 2}),
        ("xyz", {"maxLength": 2}),
        ([1], {"minItems": 2}),
        ([], {"minItems": 1}),
        ({"a": 1}, {"required": ["b"]}),
        ({"a": 1}, {"properties": {"a": NEVER}}),
        ({"a": 1}, {"additionalProperties": False}),
        ([1, 2], {"prefixItems": [{}, NEVER]}),
        ([1, 2], {"items": NEVER}),
        ("x", {"$ref": "#/$defs/never"}),
        ("x", {"allOf": [{}, NEVER]}),
        ("x", {"anyOf": [NEVER, NEVER]}),
        ("x", {"oneOf": [NEVER]}),
        ("x", False),
    ],
    ids=str,
)
def test_the_first_branch_counts_that_the_value_is_valid_under(value, refused):
    for keyword in ("anyOf", "oneOf"):
        branches = [refused, {"x-relative-tolerance": 0.25}, {"x-relative-tolerance": 0.5}]
        schema = {keyword: branches, "$defs": {"never": NEVER}}
        at_first_leaf = next(iter(rules(parse(json.dumps(value)), {"items": {}} | schema).values()))
        expected = 0.0 if isinstance(value, dict | list) and value else 0.25

        assert at_first_leaf.tolerance == expected


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        (5.0, {"type": "integer"}),
        (7, {"type": ["string", "number"]}),
        (True, {"type": "boolean", "minimum": 7}),
        ("x", {"pattern": "^(a+)+$"}),
        (1, {"enum": [1.0]}),
        ("x", {"oneOf": [NEVER, {"type": "string"}]}),
        ("x", {"unknown": 1}),
        ("x", {"$ref": "#/$defs/nowhere"}),
    ],
    ids=str,
)
def test_a_branch_that_holds_is_chosen(value, schema):
    branches = [schema | {"x-relative-tolerance": 0.25}, {"x-relative-tolerance": 0.5}]

    assert rule(value, {"anyOf": branches}).tolerance == 0.25


def test_branches_in_branches_without_end_are_judged_once_each():
    names = [f"n{i}" for i in range(200)]
    each = [{"$ref": f"#/$defs/{name}"} for name in names]
    definitions = {name: {"anyOf": each} for name in names}

    assert rule("x", {"anyOf": each, "$defs": definitions}) == PLAIN


ANY_VALUE = "a keyword in it has a value that it cannot have"


@pytest.mark.parametrize(
    ("value", "schema", "told"),
    [
        ({"a": 1}, {"properties": 7}, "at #: properties cannot be 7"),
        ({"a": 1}, {"properties": []}, "at #: properties cannot be []"),
        ({"a": 1}, {"anyOf": [{"required": 7}]}, "at #/anyOf/0: required cannot be 7"),
        (["x"], {"prefixItems": 7}, "at #: prefixItems cannot be 7"),
        (1, {"allOf": 7}, "at #: allOf cannot be 7"),
        (1, {"$ref": 7}, "at #: $ref cannot be 7"),
        (1, {"x-relative-tolerance": "much"}, ANY_VALUE),
        (1, {"anyOf": [{"minimum": "1"}]}, 'at #/anyOf/0: minimum cannot be "1"'),
        (1, {"anyOf": [{"type": 7}]}, "at #/anyOf/0: type cannot be 7"),
        ("x", {"format": []}, "at #: format cannot be []"),
    ],
    ids=str,
)
def test_what_is_no_schema_is_told_by_place_and_in_no_words_of_python(value, schema, told):
    with pytest.raises(BadSchema) as caught:
        rule(value, schema)
    assert str(caught.value) == told


def test_a_negative_tolerance_is_none():
    assert rule(1, {"x-relative-tolerance": -1}) == PLAIN


OPTIONAL = {"anyOf": [{"type": "string"}, {"type": "null"}]}


@pytest.mark.parametrize(
    ("schema", "allowed"),
    [
        (True, True),
        ({}, True),
        ({"type": "string"}, False),
        ({"type": ["string", "null"]}, True),
        (OPTIONAL, True),
        ({"oneOf": [{"type": "string"}, {"type": "number"}]}, False),
        ({"allOf": [OPTIONAL, {"type": "string"}]}, False),
        ({"enum": ["x", None]}, True),
        ({"enum": ["x"]}, False),
        ({"const": "x"}, False),
        ({"$ref": "#/$defs/optional"}, True),
        ({"$ref": "#/$defs/name"}, False),
    ],
    ids=str,
)
def test_a_leaf_may_be_null_where_its_schema_says_so(schema, allowed):
    value, named = parse('{"a/b": ["x"]}'), {"optional": OPTIONAL, "name": {"type": "string"}}
    whole = {"properties": {"a/b": {"items": schema}}, "$defs": named}

    assert may_be_null(value, whole) == (frozenset({"/a~1b/0"}) if allowed else frozenset())


def test_what_may_be_null_of_a_schema_that_is_none_is_an_error():
    with pytest.raises(BadSchema):
        may_be_null(parse('{"a": 1}'), {"properties": 7})
