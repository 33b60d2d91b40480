"""Bounds and constants as llguidance can represent them, which is never wider than they are."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.grammar.bounds import (
    Unheld,
    check_constants,
    check_steps,
    checked_counts,
    lowered_numbers,
)

WIDE = {"type": "integer", "minimum": -(2**60), "maximum": 2**60}
EXTREMES = [0, 1, 2**52, 2**53, 2**54, 2**60, 1e300, 5e-324, 0.1]
NUMBERS = st.one_of(
    st.integers(-50, 50),
    st.floats(-50, 50),
    st.builds(
        lambda extreme, sign, more: sign * extreme + more,
        st.sampled_from(EXTREMES),
        st.sampled_from([1, -1]),
        st.integers(-3, 3),
    ),
)
KEYWORDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
BOUNDS = st.dictionaries(st.sampled_from(KEYWORDS), NUMBERS, min_size=1)


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "integer", "minimum": 3, "exclusiveMaximum": 8}, (3, 7)),
        ({"type": ["integer", "null"], "exclusiveMinimum": 2.5, "maximum": 3.9}, (3, 3)),
        (WIDE, (-(2**53), 2**53)),
        ({"type": "integer", "maximum": 2**60}, (None, 2**53)),
        ({"type": "integer", "minimum": 2**53}, (2**53, None)),
        ({"minimum": -1e300, "maximum": 1e300}, (-(2**53), 2**53)),
        ({"type": "number", "exclusiveMaximum": 1e16}, (None, 2**53)),
    ],
)
def test_a_bound_that_cannot_be_represented_moves_inward(schema, expected):
    found = lowered_numbers(schema)
    assert (found.get("minimum"), found.get("maximum")) == expected


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"type": "integer", "minimum": -(2**53) - 9, "maximum": -(2**53) - 4}, "leave nothing"),
        ({"type": "integer", "minimum": -(2**53) - 1, "maximum": -(2**53) - 1}, "leave nothing"),
        ({"type": "integer", "minimum": 2**53 + 1, "maximum": 2**53 + 4}, "leave nothing"),
        ({"minimum": 2**53 + 1, "maximum": 2**53 + 1}, "leave nothing"),
        ({"exclusiveMinimum": 2**53}, "leave nothing"),
        ({"type": "integer", "minimum": 2**53 + 1}, "leave nothing"),
        ({"maximum": -1e16}, "leave nothing"),
        ({"minimum": 2, "maximum": 1}, "no number lies between"),
        ({"minimum": 2, "exclusiveMaximum": 2}, "no number lies between"),
        ({"type": "integer", "minimum": 0.1, "maximum": 0.9}, "no integer lies between"),
        ({"minimum": math.inf}, "minimum must be a finite number"),
        ({"multipleOf": 1_000_001}, "few digits"),
        ({"multipleOf": 0.07}, "few digits"),
        ({"multipleOf": 1e-300}, "few digits"),
    ],
)
def test_bounds_without_a_number_between_them_that_can_be_written_are_refused(schema, told):
    with pytest.raises(Unheld, match=told):
        lowered_numbers(schema)


@given(kind=st.sampled_from([{}, {"type": "integer"}, {"type": "number"}]), bounds=BOUNDS)
def test_what_is_written_is_no_wider_and_each_bound_has_a_double(kind, bounds):
    try:
        found = lowered_numbers(kind | bounds)
    except Unheld:
        return
    least = max(bounds.get("minimum", -math.inf), bounds.get("exclusiveMinimum", -math.inf))
    most = min(bounds.get("maximum", math.inf), bounds.get("exclusiveMaximum", math.inf))
    for keyword, value in found.items():
        assert least <= value <= most
        assert abs(value) <= 2**53
        if bounds.get(f"exclusive{keyword.title()}") == value and kind:
            assert kind["type"] == "number"
            assert keyword.startswith("exclusive")
    assert found.keys() & {"minimum", "exclusiveMinimum"} or least == -math.inf
    assert found.keys() & {"maximum", "exclusiveMaximum"} or most == math.inf


def test_counts_are_neither_contradictory_nor_beyond_what_is_counted():
    assert checked_counts({"maxItems": 2**70, "minItems": 1}) == {"maxItems": 2**31 - 1} | {
        "minItems": 1
    }
    with pytest.raises(Unheld, match="minLength must be at most 2147483647"):
        checked_counts({"minLength": 2**31})
    with pytest.raises(Unheld, match="minItems is more than maxItems"):
        checked_counts({"minItems": 2, "maxItems": 1})


@pytest.mark.parametrize("value", [2**53, -(2**53), 0.1, 1e15, True, "é\t", None, -0.0])
def test_a_constant_that_is_written_as_it_is_passes(value):
    check_constants([{"a": [value]}])


@pytest.mark.parametrize("value", [2**53 + 1, -(2**53) - 1, 2**60, 1e16, math.inf, "\x00", "\x7f"])
def test_a_constant_that_would_be_written_otherwise_is_refused(value):
    with pytest.raises(Unheld):
        check_constants([{"a": [value]}])


def test_multiples_in_one_schema_have_a_small_one_in_common():
    check_steps([{"multipleOf": 0.01}, {"multipleOf": 5}, {}])
    check_steps([{"multipleOf": 65537}, {"multipleOf": 65537}])
    for steps in [(65537, 65539), (1e-9, 5)]:
        with pytest.raises(Unheld, match="too large a common multiple"):
            check_steps([{"multipleOf": step} for step in steps])
