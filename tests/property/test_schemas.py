"""Any schema that is taken: all that was finished under it is valid, by another implementation."""

import json

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.engines.protocol import EngineConfig
from models.engines.transformers import TransformersEngine
from models.grammar.grammars import grammar_of
from models.records import GenerationRequest, SamplingParams
from tests.tiny_models import byte_tokenizer, random_model

NAMES = ["a", "b/~", "é", '"', ""]
CONSTANTS = st.sampled_from(["x", 'q"\\', "é\n", 0, -7, 2.5, None, True, [], {"k": 1}])
BOUND = st.integers(0, 2)


def with_bounds(kind, least, most, keywords):
    low, high = keywords
    return {"type": kind, low: min(least, most), high: max(least, most)}


def closed(properties, required):
    names = [name for name in properties if name in required]
    return {
        "type": "object",
        "properties": properties,
        "required": names,
        "additionalProperties": False,
    }


LEAVES = st.one_of(
    st.builds(lambda value: {"const": value}, CONSTANTS),
    st.builds(lambda values: {"enum": values}, st.lists(CONSTANTS, min_size=1, max_size=3)),
    st.builds(with_bounds, st.just("string"), BOUND, BOUND, st.just(("minLength", "maxLength"))),
    st.builds(
        with_bounds,
        st.sampled_from(["integer", "number"]),
        st.integers(-20, 20),
        st.integers(-20, 20),
        st.just(("minimum", "maximum")),
    ),
    st.sampled_from(
        [
            {"type": "boolean"},
            {"type": ["null", "boolean"]},
            {"type": "string", "pattern": "^[ab]{1,2}$"},
            {"type": "string", "format": "date"},
            {"type": "integer", "multipleOf": 5, "minimum": 1, "maximum": 30},
            {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1},
            {"type": "integer", "exclusiveMinimum": 2**53 - 4, "maximum": 2**53 + 9},
            {"type": "number", "minimum": -1e300, "exclusiveMaximum": 0},
            {"type": "string", "maxLength": 2, "format": "password"},
            {"type": "array", "maxItems": 1, "uniqueItems": False},
            {"type": "array", "prefixItems": [{"type": "null"}], "additionalItems": False}
            | {"maxItems": 1},
        ]
    ),
)


def with_names(names, inner, least):
    schema = {"type": "object", names: {"^[ab]{1,2}$": inner}, "additionalProperties": False}
    if names == "properties":
        schema = {"type": "object", names: {"a": inner}, "propertyNames": {"type": "string"}}
        schema |= {"additionalProperties": {"type": "null"}, "required": ["a"]}
    return schema | {"minProperties": least, "maxProperties": least + 1}


def branched(inner):
    members = st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)
    arrays = st.builds(
        with_bounds, st.just("array"), BOUND, BOUND, st.just(("minItems", "maxItems"))
    )
    return st.one_of(
        st.builds(lambda array, items: array | {"items": items}, arrays, inner),
        st.builds(closed, members, st.sets(st.sampled_from(NAMES))),
        st.builds(
            lambda keyword, branches: {keyword: branches},
            st.sampled_from(["anyOf", "oneOf"]),
            st.lists(inner, min_size=1, max_size=2),
        ),
        st.builds(lambda branches: {"allOf": branches}, st.lists(inner, min_size=1, max_size=1)),
        st.builds(
            with_names, st.sampled_from(["properties", "patternProperties"]), inner, st.just(1)
        ),
    )


@pytest.fixture(scope="module")
def engine():
    model = random_model("llama", scale=2.0)
    return TransformersEngine(
        model, byte_tokenizer(), EngineConfig(), model_id="tiny", revision="1"
    )


@settings(max_examples=40, deadline=None, derandomize=True)
@given(schema=st.recursive(LEAVES, branched, max_leaves=4), seed=st.integers(0, 99))
def test_what_was_finished_under_a_schema_is_valid_under_it(engine, schema, seed):
    root = closed({"one": {"$ref": "#/$defs/one"}}, ["one"]) | {"$defs": {"one": schema}}
    held = json.loads(json.dumps(root).replace('"oneOf"', '"anyOf"'))
    request = GenerationRequest(
        "?",
        sampling=SamplingParams(num_samples=4, max_new_tokens=40, seed=seed),
        statistics=frozenset({"sample_texts"}),
        grammar=grammar_of(root),
    )
    job = engine.prepare(request)
    incoming = [job]
    while incoming or not engine.is_idle:
        report = engine.step(incoming)
        assert not report.failed
        incoming = []
    generation = engine.generation(job)
    for sequence in (generation.answer, *generation.samples):
        if sequence.finish_reason == "stop":
            value = json.loads(sequence.text)
            assert jsonschema_rs.is_valid(held, value)
