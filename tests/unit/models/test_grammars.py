"""Which schemas a text can be held to: what a schema says is heeded, or refused by name."""

import json

import pytest

from models.grammars import MAX_SCHEMA_CHARACTERS, BadSchema, grammar_of

NODE = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}, "required": ["next"]}


ORDINARY = [
    "^(?:a|b)+$",
    r"\(?=a",
    "[(?=]",
    r"\\",
    r"[\](?=]a",
    "(?i)a",
    "(?<name>a)",
    r"\d\0",
    "[a",
]


def refusal_of(schema):
    with pytest.raises(BadSchema) as caught:
        grammar_of(schema)
    return str(caught.value)


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object", "properties": {"a": True, "b": False}},
        {"$ref": "#/definitions/a~1b", "definitions": {"a/b": {"type": "integer"}}},
        {"type": "object", "properties": {"next": {"$ref": "#"}}},
        {"type": "object", "properties": {"n": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}}
        | {"required": ["n"]},
        {"type": ["object", "null"], "properties": {"n": {"$ref": "#"}}, "required": ["n"]},
        {"type": "array", "items": {"$ref": "#"}},
        {"type": "array", "items": {"$ref": "#"}, "prefixItems": [{}], "minItems": 1},
        {"enum": [{"a": "$ref"}], "type": "object", "properties": {"a": {"$ref": "#"}}}
        | {"required": ["a"]},
        {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "urn:x", "title": "T"},
        {"properties": {"not": {"type": "string"}, "$ref": {"x-relative-tolerance": 0.1}}},
        {"const": {"not": 1}, "default": {"if": 2}, "x-anything": {"not": 3}},
    ],
)
def test_a_schema_is_the_source_of_its_grammar_with_a_rule_for_white_space(schema):
    grammar = grammar_of(schema)
    source = json.loads(grammar.source)

    assert source.pop("x-guidance")["whitespace_flexible"] is False
    assert (grammar.kind, source) == ("json_schema", schema)


@pytest.mark.parametrize("pattern", ORDINARY)
def test_a_pattern_without_them_may_spell_what_look_around_is_made_of(pattern):
    assert grammar_of({"pattern": pattern, "patternProperties": {pattern: True}})


LOOKING = ["(?=a)", "^(?!a).*$", "a(?<=a)", "(?<!a)b", r"(a)\1", r"(?<n>a)\k<n>", r"\\(?=a)"]


@pytest.mark.parametrize("pattern", LOOKING)
def test_look_around_and_backreferences_are_refused_before_a_server_ignores_them(pattern):
    told = "look-around and backreferences are not supported"
    assert refusal_of({"items": {"pattern": pattern}}) == f"at #/items: pattern: {told}"
    assert refusal_of({"patternProperties": {pattern: {}}}) == f"at #: patternProperties: {told}"


NOT_HEEDED = ["not", "if", "uniqueItems", "contains", "propertyNames", "dependentRequired"]
NOT_HEEDED += [
    "nullable",
    "unevaluatedProperties",
    "$dynamicRef",
    "$anchor",
    "x-guidance",
    "banana",
]


@pytest.mark.parametrize("keyword", NOT_HEEDED)
def test_a_keyword_that_is_not_heeded_is_refused_by_name_and_place(keyword):
    schema = {"properties": {"a/b": {"type": "array", "items": {keyword: {}}}}}
    told = f"at #/properties/a~1b/items: the keyword {keyword!r} is not supported"
    assert refusal_of(schema) == told


def test_an_id_within_a_schema_would_move_its_references_and_is_refused():
    assert "'$id' is not supported" in refusal_of({"properties": {"a": {"$id": "urn:x"}}})


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"type": 7}, "at #: type cannot be 7"),
        ({"type": [7]}, "at #: type must be a list of strings"),
        ({"required": "a"}, 'at #: required cannot be "a"'),
        ({"minItems": True}, "at #: minItems cannot be true"),
        ({"properties": []}, "at #: properties cannot be []"),
        ({"items": [{}]}, "at #: items cannot be [{}]"),
        ({"properties": {"a": 3}}, "at #/properties/a must be a schema"),
        ({"anyOf": [None]}, "at #/anyOf/0 must be a schema"),
    ],
)
def test_a_value_that_a_keyword_cannot_have_is_named(schema, told):
    assert refusal_of(schema).startswith(told)


@pytest.mark.parametrize(
    ("reference", "told"),
    [
        ("https://example.com/schema.json", "must point into the schema itself"),
        ("file:///etc/passwd", "must point into the schema itself"),
        ("other.json#/$defs/a", "must point into the schema itself"),
        ("#/$defs/none", "points to no schema"),
        ("#anchor", "points to no schema"),
        ("#/enum/0", "points to no schema"),
    ],
)
def test_a_reference_out_of_the_schema_is_refused_and_never_fetched(reference, told):
    assert told in refusal_of({"properties": {"a": {"$ref": reference}}, "enum": [{}]})


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$ref": "#/$defs/node", "$defs": {"node": NODE}},
        {"allOf": [{"$ref": "#/$defs/node"}, {}], "$defs": {"node": NODE}},
        {"anyOf": [{"$ref": "#/$defs/node"}, {"$ref": "#"}], "$defs": {"node": NODE}},
        {"type": "array", "minItems": 1, "items": {"$ref": "#"}},
        {"type": "array", "minItems": 1, "prefixItems": [{"$ref": "#"}]},
    ],
)
def test_a_schema_that_only_endless_values_would_be_valid_under_is_refused(schema):
    assert "no finite value is valid" in refusal_of(schema)


def test_a_schema_may_have_so_many_characters():
    whole = len(grammar_of({"title": ""}).source)
    most = MAX_SCHEMA_CHARACTERS - whole

    assert grammar_of({"title": "a" * most}).source
    assert refusal_of({"title": "a" * (most + 1)}) == "has more than 65536 characters of JSON"
    assert "65536 characters" in refusal_of({"enum": ["a" * 1_000_000]})


def test_a_schema_that_is_nested_beyond_python_is_refused():
    schema = {}
    for _ in range(100_000):
        schema = {"items": schema}
    assert refusal_of(schema) == "is nested too deeply"
