"""Types in schemas as people write them."""

import pytest

from models.units.json_schemas import BadSchema, tidied


def typed(kind):
    schema = {"properties": {"a": {"type": kind}}}
    tidied(schema, names_types=True)
    return schema["properties"]["a"]


def test_any_is_no_type():
    assert typed("any") == {}


@pytest.mark.parametrize("kind", ["banana", ["str", 7], [["str"]], "", []])
def test_what_is_no_type_is_refused_or_says_nothing(kind):
    if kind == []:
        assert typed(kind) == {"type": []}
        return
    with pytest.raises(BadSchema, match="#/properties/a"):
        typed(kind)


def test_types_are_found_where_schemas_are_and_not_in_data():
    schema = {
        "properties": {"type": {"items": {"anyOf": [{"type": "int"}, True]}}},
        "enum": [{"type": "str"}],
        "$defs": {"x": {"additionalProperties": {"type": "float"}}},
    }
    tidied(schema, names_types=True)
    assert schema["properties"]["type"]["items"]["anyOf"][0] == {"type": "integer"}
    assert schema["$defs"]["x"]["additionalProperties"] == {"type": "number"}
    assert schema["enum"] == [{"type": "str"}]


def test_null_asks_for_nothing_where_a_keyword_is_and_is_a_value_in_data():
    data = {"const": None, "default": None, "enum": [None, {"enum": None}]}
    schema = {"items": None, "anyOf": [{**data, "required": None}], "x-relative-tolerance": None}
    assert tidied(schema) == {"anyOf": [data]}


def test_a_whole_count_is_an_integer_however_it_is_written():
    schema = {"items": {"minLength": 1.0, "maxLength": 1.5, "minimum": 1.0, "const": 2.0}}
    assert str(tidied(schema)) == (
        "{'items': {'minLength': 1, 'maxLength': 1.5, 'minimum': 1.0, 'const': 2.0}}"
    )
