"""No text that follows a schema is a number that the schema excludes."""

import json

import jsonschema_rs
import pytest

from models.grammar.calls import grammar_of_calls
from models.grammar.following import Grammars
from models.grammar.grammars import grammar_of
from tests.tiny_models import byte_tokenizer

ABOVE, BELOW = {"exclusiveMinimum": 0}, {"exclusiveMaximum": 0}
NUMBER = {"type": "number"}
# Schemas, and what is valid under each.
BOUNDED = {
    "above 0": (NUMBER | ABOVE | {"maximum": 0.5}, ["0.1", "0.5", "0.000001"]),
    "above 1": (NUMBER | {"exclusiveMinimum": 1, "maximum": 1.5}, ["1.1", "1.5", "1.0000001"]),
    "above 100": (NUMBER | {"exclusiveMinimum": 100, "maximum": 100.5}, ["100.1", "100.5"]),
    "below 0": (NUMBER | BELOW | {"minimum": -0.5}, ["-0.1", "-0.5"]),
    "below -1": (NUMBER | {"minimum": -1.5, "exclusiveMaximum": -1}, ["-1.1", "-1.5"]),
    "between": (NUMBER | ABOVE | {"exclusiveMaximum": 1}, ["0.1", "0.9999"]),
    "one end": (NUMBER | ABOVE, ["0.1", "1", "12.5", "9007199254740991"]),
    "steps": (NUMBER | ABOVE | {"maximum": 0.5, "multipleOf": 0.1}, ["0.1", "0.5"]),
    "whole steps": (NUMBER | {"exclusiveMinimum": 5, "multipleOf": 5}, ["10", "15"]),
    "any type": (ABOVE | {"maximum": 0.5}, ["0.1", '"a"', "null"]),
    "a choice": ({"anyOf": [NUMBER | ABOVE | {"maximum": 0.5}, {"type": "null"}]}, ["0.1", "null"]),
    "both": ({"allOf": [NUMBER | ABOVE, {"maximum": 0.5}]}, ["0.1", "0.5"]),
    "elsewhere": ({"allOf": [{"$ref": "#/$defs/a"}, {"maximum": 0.5}], "$defs": {"a": ABOVE}},
                  ["0.1", "0.5"]),
    "an integer": ({"allOf": [{"type": "integer"}, ABOVE | {"exclusiveMaximum": 3}]}, ["1", "2"]),
    "a large one": (NUMBER | {"exclusiveMinimum": 2**52}, [str(2**52 + 1), str(2**52 + 2)]),
}  # fmt: skip
NEVER = ["0", "-0", "0.0", "1", "1.0", "-1", "-1.0", "100", "100.0", "5", "3", str(2**52), "0.6"]


@pytest.fixture(scope="module")
def grammars():
    return Grammars(byte_tokenizer(), frozenset({1}), 259)


def is_followed(grammars, grammar, text):
    """Whether a whole text may be written."""
    following = grammars.begin(grammar, in_thoughts=False)
    for token in [*grammars.ids(text), 1]:
        words = following.allowed()
        if words is None or not words.view("uint32")[token // 32] >> (token % 32) & 1:
            return False
        following.take(token)
    return True


@pytest.mark.parametrize(("schema", "valid"), BOUNDED.values(), ids=BOUNDED)
def test_an_excluded_bound_is_never_written_and_what_is_valid_beside_it_may_be(
    grammars, schema, valid
):
    grammar = grammar_of(schema)
    for text in valid:
        assert is_followed(grammars, grammar, text), text
    for text in NEVER:
        is_valid = jsonschema_rs.is_valid(schema, json.loads(text))
        assert is_valid or not is_followed(grammars, grammar, text), text


def test_an_argument_of_a_call_is_not_the_bound_that_is_excluded(grammars):
    price = NUMBER | ABOVE | {"maximum": 0.5}
    parameters = {"type": "object", "properties": {"p": price}, "required": ["p"]}
    tool = {"type": "function", "function": {"name": "f", "parameters": parameters}}
    grammar = grammar_of_calls([tool], several=False, answer=None)
    call = '{"name": "f", "arguments": {"p": %s}}'

    assert is_followed(grammars, grammar, call % "0.1")
    assert not is_followed(grammars, grammar, call % "0")
