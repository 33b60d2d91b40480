"""No object that is written under a schema has a key twice."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.engines.keys import Keys, Quotes, may_repeat_keys
from models.grammars import grammar_of
from tests.unit.models.engines.test_grammars import engine_of, llama, request_for, running

pytestmark = pytest.mark.anyio

__all__ = ["llama"]

PIECES = ["{", "}", "[", "]", '"', "a", "b", r"\"", "\\\\", ", ", ": ", '"a"', '"b', 'a"', "1"]
TOKENS = st.lists(st.sampled_from(PIECES), min_size=1, max_size=4).map("".join).map(str.encode)
ANY = st.recursive(
    st.integers(0, 1),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.text('ab"\\', max_size=2), inner, max_size=3)
    ),
)


@given(value=ANY, cut=st.integers(0, 200), tokens=st.lists(TOKENS, max_size=30))
def test_exactly_the_tokens_are_barred_that_write_a_key_again(value, cut, tokens):
    text = json.dumps(value).encode()
    keys, quotes = Keys(), Quotes([one for one in tokens if one.count(b'"') < 3])
    assert not keys.feed(text[: cut % (len(text) + 1)])

    again = {number for number, one in enumerate(quotes.texts) if keys.copy().feed(one)}
    assert set(keys.barred(quotes)) == again


@given(value=ANY)
def test_a_text_that_repeats_no_key_is_read_without_complaint_token_by_token(value):
    keys = Keys()
    assert not any(keys.feed(bytes([sign])) for sign in json.dumps(value).encode())


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({}, True),
        ({"type": "array"}, True),
        ({"anyOf": [{"type": "null"}, {"type": "object"}]}, True),
        ({"type": "object", "properties": {"a": {}}, "additionalProperties": False}, True),
        ({"type": "object", "patternProperties": {"^a": False}}, True),
        (
            {"type": "object", "properties": {"a": {"const": {}}}, "additionalProperties": False},
            False,
        ),
        (
            {"type": "array", "items": {"$ref": "#/$defs/a"}, "$defs": {"a": {"type": "null"}}},
            False,
        ),
        ({"type": ["string", "integer"]}, False),
        (
            {"type": "object", "required": ["n"], "additionalProperties": False}
            | {"properties": {"n": {"type": ["array", "null"], "items": {"$ref": "#"}}}},
            False,
        ),
    ],
)
def test_a_schema_leaves_keys_open_unless_it_names_all_of_them(schema, expected):
    assert may_repeat_keys(json.loads(grammar_of(schema).source)) == expected


def refuse_twice(pairs):
    assert len(dict(pairs)) == len(pairs), pairs
    return dict(pairs)


@pytest.mark.parametrize("name", ["^[ab]{1,3}$", '^["\\\\\\\\]{1,3}$'])
async def test_answers_and_samples_repeat_no_key(llama, name):
    inner = {"type": "object", "patternProperties": {name: {"const": 1}}}
    inner |= {"additionalProperties": False, "minProperties": 4, "maxProperties": 6}
    schema = {"type": "object", "patternProperties": {name: inner}, "maxProperties": 3}
    schema |= {"additionalProperties": False, "minProperties": 2}
    async with running(engine_of(llama)) as worker:
        request = request_for("?", num_samples=12, max_new_tokens=240, grammar=grammar_of(schema))
        generation = await worker.generate(request)

    finished = [one for one in generation.samples if one.finish_reason == "stop"]
    assert finished
    for one in finished:
        value = json.loads(one.text, object_pairs_hook=refuse_twice)
        assert 2 <= len(value) <= 3
        assert all(4 <= len(members) <= 6 for members in value.values())


async def test_a_text_in_which_all_names_are_used_up_ends(llama):
    schema = {"type": "object", "patternProperties": {"^[ab]$": {"const": 1}}}
    grammar = grammar_of(schema | {"additionalProperties": False})
    async with running(engine_of(llama)) as worker:
        request = request_for("?", num_samples=20, max_new_tokens=40, grammar=grammar)
        generation = await worker.generate(request)

    found = [json.loads(one.text, object_pairs_hook=refuse_twice) for one in generation.samples]
    assert max(map(len, found)) == 2
