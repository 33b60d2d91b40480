"""Which schemas a text can be held to: what a schema says is heeded, or refused by name."""

import json
from itertools import product

import jsonschema_rs
import pytest
from llguidance import LLMatcher, LLTokenizer

from models.grammar.grammars import MAX_SCHEMA_CHARACTERS, grammar_of
from models.units.json_schemas import MAX_DEPTH, BadSchema

NODE = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}, "required": ["next"]}


ORDINARY = ["^(?:a|b)+$", r"\(?=a", "[(?=]", r"\\", r"[\](?=]a", "(?i:a)", "(?<name>a)", r"\d\0"]
ORDINARY += ["[a", r"[a\[\]]", r"[\&\&a]", "a&&b--", "[a&b-z~-]", r"\p{L}\\z", r"[^\]\\]", r"\x41"]
ORDINARY += [
    r"^\p{L}+$",
    r"^\p{Lu}\p{Ll}+$",
    r"^\u{1F98A}+$",
    r"^\P{L}+$",
    r"[\p{sc=Greek}]++"[:-1],
]


def refusal_of(schema):
    with pytest.raises(BadSchema) as caught:
        grammar_of(schema)
    return str(caught.value)


def written(schema):
    """What a schema becomes, without the options beside it."""
    grammar = grammar_of(schema)
    assert grammar.kind == "json_schema"
    source = json.loads(grammar.source)
    assert source.pop("x-guidance")["whitespace_flexible"] is False
    return source


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object", "properties": {"a": True, "b": False}},
        {"type": ["object", "null"], "properties": {"n": {}}, "required": ["n"]},
        {"type": "array", "items": {}, "prefixItems": [{}], "minItems": 1},
        {"enum": [{"a": "$ref"}], "type": "object", "properties": {"a": {}}},
        {"const": {"not": 1}},
        {"type": "string", "format": "ipv4", "pattern": "^2", "minLength": 1},
        {"type": "number", "exclusiveMinimum": 0.05, "maximum": 0.1, "multipleOf": 0.01},
        {"type": "object", "required": ["a"], "properties": {"a": {}}, "minProperties": 2},
        {"type": "object", "properties": {"a": {}, "b": {}}, "additionalProperties": False}
        | {"minProperties": 1},
        {"patternProperties": {"^a[.]$": {}}, "additionalProperties": False, "maxProperties": 2},
    ],
)
def test_a_schema_that_is_followed_as_it_is_stays_as_it_is(schema):
    assert written(schema) == schema


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"$schema": "https://json-schema.org/draft-07/schema", "$id": "urn:x", "title": "T"}, {}),
        ({"default": {"if": 2}, "x-anything": {"not": 3}, "additionalItems": False}, {}),
        ({"uniqueItems": False, "propertyNames": {"type": "string"}}, {}),
        ({"type": "string", "format": "password"}, {"type": "string"}),
        ({"type": "integer", "format": "int64"}, {"type": "integer"}),
        ({"properties": {"not": {"x-relative-tolerance": 0.1}}}, {"properties": {"not": {}}}),
        (
            {"$ref": "#/definitions/a~1b", "definitions": {"a/b": {"type": "integer"}}},
            {"$ref": "#/$defs/0", "$defs": {"0": {"type": "integer"}}},
        ),
        (
            {"$ref": "#/$defs/a%20%C3%A9%25", "$defs": {"a é%": {"type": "integer"}}},
            {"$ref": "#/$defs/0", "$defs": {"0": {"type": "integer"}}},
        ),
        (
            {"type": "object", "properties": {"n": {"$ref": "#"}}},
            {"type": "object", "properties": {"n": {"$ref": "#/$defs/0"}}}
            | {"$defs": {"0": {"type": "object", "properties": {"n": {"$ref": "#/$defs/0"}}}}},
        ),
        (
            {"patternProperties": {"^k$": {"type": "null"}, "^[ab]$": {}}},
            {"properties": {"k": {"type": "null"}}, "patternProperties": {"^[ab]$": {}}},
        ),
        (
            {"anyOf": [{}], "type": "object", "additionalProperties": False},
            {"type": "object", "additionalProperties": False, "anyOf": [{}]},
        ),
        ({"minProperties": 1, "required": ["a"]}, {"required": ["a"]}),
    ],
)
def test_what_says_nothing_is_left_out_and_the_rest_written_as_it_is_followed(schema, expected):
    assert written(schema) == expected


BOTH = [{"type": "integer"}, {"minimum": 5}]


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"oneOf": BOTH}, {"anyOf": BOTH}),
        ({"items": {"oneOf": BOTH}}, {"items": {"anyOf": BOTH}}),
        ({"oneOf": BOTH, "allOf": [{}]}, {"allOf": [{}], "anyOf": BOTH}),
        (
            {"oneOf": BOTH, "anyOf": [{"type": "null"}, {}]},
            {"anyOf": [{"type": "null"}, {}], "allOf": [{"anyOf": BOTH}]},
        ),
    ],
    ids=["alone", "within", "beside allOf", "beside anyOf"],
)
def test_one_of_is_held_as_any_of_and_marked_as_wider(schema, expected):
    assert written(schema) == expected
    assert grammar_of(schema).is_wider


@pytest.mark.parametrize(
    "schema",
    [{"anyOf": BOTH}, {"properties": {"oneOf": {"type": "null"}}}, {"const": {"oneOf": BOTH}}],
    ids=["anyOf", "a property", "a constant"],
)
def test_what_has_no_one_of_is_not(schema):
    assert not grammar_of(schema).is_wider


@pytest.mark.parametrize("pattern", ORDINARY)
def test_a_pattern_without_them_may_spell_what_look_around_is_made_of(pattern):
    assert grammar_of({"pattern": pattern, "patternProperties": {pattern: True}})


LOOKING = ["(?=a)", "^(?!a).*$", "a(?<=a)", "(?<!a)b", r"(a)\1", r"(?<n>a)\k<n>", r"\\(?=a)"]


@pytest.mark.parametrize("pattern", LOOKING)
def test_look_around_and_backreferences_are_refused_before_a_server_ignores_them(pattern):
    told = "look-around and backreferences are not supported"
    assert refusal_of({"items": {"pattern": pattern}}) == f"at #/items: pattern: {told}"
    assert refusal_of({"patternProperties": {pattern: {}}}) == f"at #: patternProperties: {told}"


CLASSES = ["^[[:alpha:]]$", "^a[b[c]]d$", "[a-z&&x]", "[a-z--b]", "[a~~b]", "[]a]", "[^]a]"]
CLASSES += [r"[\[[]", r"\[[^&&]", r"a\\[b[]"]
ESCAPES = {r"\A": r"\Aa", r"\z": r"a\z", r"\p": r"(\pL)+", r"\x{": r"\x{41}", r"\a": r"\\\a"}
ESCAPES |= {
    "(?i)": "(?i)yes",
    "(?s-m)": "^(?s-m).$",
    "(?P<": "(?P<n>a)",
    r"\p{lu}": r"^\p{lu}$",
    "++": "^a++$",
    "?+": "a?+",
}


@pytest.mark.parametrize("pattern", CLASSES)
def test_a_class_that_would_not_end_at_its_first_bracket_is_refused(pattern):
    for schema, keyword in [
        ({"pattern": pattern}, "pattern"),
        ({"patternProperties": {pattern: {}}}, "patternProperties"),
    ]:
        told = f"at #/items: {keyword}: by ECMA-262 a class ends at its first ]"
        assert refusal_of({"items": schema}).startswith(told)


@pytest.mark.parametrize(("escape", "pattern"), ESCAPES.items(), ids=ESCAPES)
def test_an_escape_that_is_none_of_ecma_262_is_refused(escape, pattern):
    told = f"pattern: {escape} is not of ECMA-262"
    assert told in refusal_of({"pattern": pattern})
    assert f"{escape} is not of" in refusal_of({"patternProperties": {pattern: {}}})


BLANKS = "\t\n\v\f\r \xa0\u1680\u2000\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
# A sign, and what it means of the characters of "a.", blanks and U+0085, by ECMA-262.
SETS = {
    ".": set("a.\x85" + BLANKS) - set("\n\r\u2028\u2029"),
    r"\s": set(BLANKS),
    r"[^\S.]": set(BLANKS),
    r"\S": set("a.\x85"),
    r"[^\s]": set("a.\x85"),
    r"[\s\S]": set("a.\x85" + BLANKS),
    r"[.\\s]": {"."},
    r"\.": {"."},
}


@pytest.mark.parametrize(("pattern", "expected"), SETS.items(), ids=SETS)
def test_a_sign_means_what_ecma_262_says(pattern, expected):
    [name] = written({"patternProperties": {f"^{pattern}$": True}})["patternProperties"]
    assert written({"pattern": f"^{pattern}$"}) == {"pattern": name}
    tokenizer, found = LLTokenizer("byte"), set()
    schema = json.dumps({"type": "string", "pattern": name})
    for sign in "a." + BLANKS + "\x85":
        matcher = LLMatcher(tokenizer, LLMatcher.grammar_from_json_schema(schema))
        ids = tokenizer.tokenize_str(json.dumps(sign, ensure_ascii=False))
        if matcher.try_consume_tokens(ids) == len(ids):
            found.add(sign)
    assert found == expected


TIMES = ["12:00:59Z", "12:00:60Z", "23:59:09.5+01:00", "24:00:00Z", "08:60:00z"]
DAYS = ["2024-02-29", "2023-02-29", "1900-02-29", "2000-02-29", "0004-02-28", "2023-01-31"]
DAYS += ["2023-02-30", "1999-12-10", "2023-11-31", "2023-13-01"]
MOMENTS = {"date": DAYS, "time": TIMES, "date-time": list(map("T".join, product(DAYS, TIMES)))}


@pytest.mark.parametrize("kind", MOMENTS)
def test_a_date_or_a_time_is_one_that_there_is(kind):
    schema = {"type": "string", "format": kind, "maxLength": 40, "allOf": [{"minLength": 1}]}
    validator = jsonschema_rs.Draft202012Validator(schema, validate_formats=True)
    source, tokenizer = (
        LLMatcher.grammar_from_json_schema(grammar_of(schema).source),
        LLTokenizer("byte"),
    )
    for moment in MOMENTS[kind]:
        ids = tokenizer.tokenize_str(json.dumps(moment))
        matched = LLMatcher(tokenizer, source).try_consume_tokens(ids)
        assert (matched == len(ids)) == validator.is_valid(moment), moment


NOT_HEEDED = ["not", "if", "contains", "dependentRequired"]
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


@pytest.mark.parametrize(
    ("keyword", "value"), [("uniqueItems", True), ("propertyNames", {"pattern": "^a"})]
)
def test_a_keyword_is_refused_for_what_of_it_is_not_heeded(keyword, value):
    told = f"at #/items: the keyword '{keyword}' is not supported"
    assert refusal_of({"items": {keyword: value}}) == told


def test_an_id_within_a_schema_would_move_its_references_and_is_refused():
    assert "'$id' is not supported" in refusal_of({"properties": {"a": {"$id": "urn:x"}}})


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"type": 7}, "at #: type cannot be 7"),
        ({"type": [7]}, "at #: type must be a list of strings"),
        ({"type": "banana"}, "at #: type 'banana' is none of null, boolean, object"),
        ({"items": {"enum": []}}, "at #/items: enum is empty"),
        ({"$ref": 7}, "at #: $ref cannot be 7"),
        ({"uniqueItems": 1}, "at #: uniqueItems cannot be 1"),
        ({"required": "a"}, 'at #: required cannot be "a"'),
        ({"type": []}, "at #: type cannot be []"),
        ({"minItems": True}, "at #: minItems cannot be true"),
        ({"maxLength": -1}, "at #: maxLength cannot be -1"),
        ({"multipleOf": 0}, "at #: multipleOf cannot be 0"),
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
    most = MAX_SCHEMA_CHARACTERS - len(json.dumps({"title": ""}))

    assert grammar_of({"title": "a" * most}).source
    assert refusal_of({"title": "a" * (most + 1)}) == "has more than 65536 characters of JSON"
    assert "65536 characters" in refusal_of({"enum": ["a" * 1_000_000]})


@pytest.mark.parametrize("keyword", ["items", "const"])
def test_a_schema_is_nested_no_deeper_than_whoever_reads_it_can_follow(keyword):
    schema, deepest = {}, {}
    for level in range(100_000):
        schema = {keyword: schema}
        if level == MAX_DEPTH - 2:
            deepest = schema

    assert grammar_of(deepest).source
    assert refusal_of({keyword: deepest}) == "is nested deeper than 100 levels"
    assert refusal_of(schema) == "is nested deeper than 100 levels"


def test_parts_that_are_referred_to_where_they_stand_are_written_only_so_often():
    schema = deepest = {"enum": ["a" * 900]}
    for _ in range(45):
        schema = {"properties": {"a": schema}}
    path = ""
    for _ in range(45):
        path += "/properties/a"
        schema.setdefault("allOf", []).append({"$ref": f"#{path}"})

    assert grammar_of(schema).source
    deepest["enum"] = ["a" * 9000]
    assert "refers to too many parts of itself" in refusal_of(schema)


def test_patterns_are_so_many_and_so_long():
    names = {f"^{number}.*": {} for number in range(33)}
    assert refusal_of({"items": {"patternProperties": names}}) == (
        "has more than 32 patterns in patternProperties"
    )
    del names["^0.*"]
    assert grammar_of({"items": {"patternProperties": names}}).source
    told = "at #: pattern: it has more than 1024 characters"
    assert refusal_of({"pattern": "a" * 1025}) == told


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"minProperties": 3, "maxProperties": 2}, "minProperties is more than maxProperties"),
        ({"type": "object", "minProperties": 2}, "and one may come twice"),
    ],
)
def test_a_number_of_properties_that_cannot_be_is_refused(schema, told):
    assert refusal_of({"items": schema}).startswith("at #/items: ")
    assert told in refusal_of(schema)


@pytest.mark.parametrize("value", [2**60, [2**53 + 1, 'a"'], {"a": [-(2**60), 1e300]}])
def test_values_that_the_library_would_write_otherwise_are_refused(value):
    assert "at #/items: a number in it is beyond 2^53" in refusal_of({"items": {"const": value}})


def test_a_control_character_without_a_short_escape_is_refused_beside_others():
    assert "a control character" in refusal_of({"items": {"const": "\x00"}})
    assert written({"items": {"const": "\t\n\u00e9"}}) == {"items": {"const": "\t\n\u00e9"}}
