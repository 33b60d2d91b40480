"""Which fields are right: by path, or by agreement with a reference."""

import json
from types import MappingProxyType

import pytest

from app.scoring.units import ScoredUnit
from cocoa_lab.examples import Example
from cocoa_lab.parts.examples import PartsExample
from cocoa_lab.parts.labelling import labelled
from models.units.characters import spans_of_texts
from models.units.fields import fields
from models.units.json_values import parsed

NONE = MappingProxyType({})


def labels_of(answer, schema=True, reference=None, **labels):
    """By path, whether each field is right; and how many the answer lacks."""
    example = Example("a", "t", "?", ())
    paths = {f"/{name}": right for name, right in labels.items()}
    one = PartsExample(example, None, schema, paths, reference)
    text = answer if isinstance(answer, str) else json.dumps(answer)
    value, units = parsed(text), []
    if value is not None:
        units = fields(value, text, spans_of_texts(()))
    found = labelled(one, value, [ScoredUnit(unit, None, NONE, NONE) for unit in units])
    paths = [part.unit.path for part in found.parts]
    return dict(zip(paths, found.correct, strict=True)), found.num_lacking


def test_labels_by_path_are_those_of_the_file_and_others_have_none():
    found = labels_of({"a": 1, "b": 2, "c": 3}, a=True, b=False, z=True)

    assert found == ({"/a": 1.0, "/b": 0.0}, 1)


@pytest.mark.parametrize(
    ("answer", "reference", "right"),
    [
        ({"a": "Lima "}, {"a": "Lima"}, [1]),
        ({"a": "lima"}, {"a": "Lima"}, [0]),
        ({"a": 5.0}, {"a": 5}, [1]),
        ({"a": "5"}, {"a": 5}, [0]),
        ({"a": None}, {}, [0]),
        ({"a": [1, 2]}, {"a": [2, 1]}, [1, 1]),
        ({"a": [{"n": 1, "q": 2}, {"n": 3, "q": 4}]}, {"a": [{"n": 3, "q": 9}]}, [0, 0, 1, 0]),
    ],
    ids=str,
)
def test_a_field_is_right_that_agrees_wholly_with_the_reference(answer, reference, right):
    found, _ = labels_of(answer, reference=reference)

    assert list(found.values()) == right


def test_what_the_prompt_tells_is_not_judged():
    example = Example("a", "t", "?", ())
    reference = {"name": "Lima", "country": "Peru"}
    one = PartsExample(example, None, True, {}, reference, ignored=frozenset({"/name"}))
    text = json.dumps(reference)
    units = fields(parsed(text), text, spans_of_texts(()))

    found = labelled(one, parsed(text), [ScoredUnit(unit, None, NONE, NONE) for unit in units])

    assert [part.unit.path for part in found.parts] == ["/country"]
    assert found.num_lacking == 0


def test_the_schema_says_how_far_numbers_may_differ():
    schema = {"properties": {"km": {"x-relative-tolerance": 0.05}}}

    assert labels_of({"km": 104}, schema, {"km": 100}) == ({"/km": 1.0}, 0)
    assert labels_of({"km": 104}, True, {"km": 100}) == ({"/km": 0.0}, 0)


def test_what_only_the_reference_has_is_counted():
    assert labels_of({"a": 1}, reference={"a": 1, "b": 2, "c": {"d": 3}}) == ({"/a": 1.0}, 2)


def test_an_answer_that_is_no_json_has_no_labelled_fields():
    assert labels_of("Lima", a=True) == ({}, 1)
