import itertools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.units.characters import spans_of_texts
from models.units.comparison import MAX_LEAF_PAIRS
from models.units.fields import compared, fields, without
from models.units.json_values import MAX_DEPTH, parse, parsed

NAMES = st.sampled_from(["a", "b", "/~"])
SCALARS = st.sampled_from([None, True, False, 0, 1, 1.0, 1.04, 10**400, "", "x", " x", "y", "zz"])
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=10,
)


def likeness(first, second):
    assert first.strip() == first != second == second.strip()
    assert first
    assert second
    return 0.5 if len(first) == len(second) else 0.25


def beside(answer, *samples, schema=True, similarity=likeness):
    """Units by path, and what the answer lacks."""
    text = json.dumps(answer)
    of_samples = [None if one is ... else parse(json.dumps(one)) for one in samples]
    value = parse(text)
    units = fields(value, text, spans_of_texts([text]))
    units, extra = compared(units, value, of_samples, schema, similarity)
    return {unit.path: unit for unit in units}, extra


def strings_read(answer, *samples):
    """The pairs of strings that are compared, each of which is found to be unlike."""
    found = {}

    def similarity(first, second):
        found[first, second] = None
        return 0.0

    beside(answer, *samples, similarity=similarity)
    return list(found)


def supports(answer, *samples, schema=True, similarity=likeness):
    units, _ = beside(answer, *samples, schema=schema, similarity=similarity)
    return {path: unit.supports.tolist() for path, unit in units.items()}


@given(answer=JSON, sample=JSON)
def test_agreement_is_a_share_and_reads_only_pairs_that_were_read_before_any_was_known(
    answer, sample
):
    announced = strings_read(answer, sample)

    def similarity(first, second):
        assert (first, second) in announced
        return likeness(first, second)

    found = supports(answer, sample, similarity=similarity)

    assert all(0 <= one <= 1 for [one] in found.values())


@given(value=JSON)
def test_a_value_agrees_wholly_with_itself(value):
    units, extra = beside(value, value)

    assert {unit.support for unit in units.values()} == {1.0}
    assert extra == {}


@given(first=SCALARS, second=SCALARS, tolerance=st.sampled_from([0, 0.05]))
def test_two_leaves_agree_as_much_either_way_round(first, second, tolerance):
    schema = {"x-relative-tolerance": tolerance}

    assert supports(first, second, schema=schema) == supports(second, first, schema=schema)


@given(elements=st.lists(JSON, min_size=1, max_size=5), data=st.data())
def test_the_order_of_elements_takes_nothing_from_agreement(elements, data):
    shuffled = data.draw(st.permutations(elements))

    units, extra = beside(elements, shuffled)

    assert {unit.support for unit in units.values()} == {1.0}
    assert extra == {}


@given(
    answer=st.lists(st.sampled_from(["a", "b", "cc"]), min_size=1, max_size=5),
    sample=st.lists(st.sampled_from(["a", "b", "cc"]), max_size=5),
)
def test_no_other_matching_of_elements_agrees_more(answer, sample):
    def alike(first, second):
        return 1.0 if first == second else likeness(first, second)

    found = sum(one for [one] in supports(answer, sample).values())

    longer, shorter = sorted((answer, sample), key=len, reverse=True)
    sums = []
    for chosen in itertools.permutations(longer, len(shorter)):
        sums.append(sum(map(alike, chosen, shorter)))
    assert found == pytest.approx(max(sums))


@pytest.mark.parametrize(
    ("ours", "theirs", "schema", "expected"),
    [
        (5, 5.0, True, 1.0),
        (100, 105, {"x-relative-tolerance": 0.05}, 1.0),
        (100, 106, {"x-relative-tolerance": 0.05}, 0.0),
        (-100, 100, {"x-relative-tolerance": 0.05}, 0.0),
        (2**53, 2**53 + 1, True, 0.0),
        (10**400, 1.5, {"x-relative-tolerance": 0.1}, 0.0),
        (1, True, True, 0.0),
        (0, False, True, 0.0),
        (None, "", True, 0.0),
        ("5", 5, True, 0.0),
        ("", " ", True, 1.0),
        ("", "x", True, 0.0),
        (" x", "x ", {"enum": [" x"]}, 1.0),
        ("x", "y", True, 0.5),
        ("x", "y", {"format": "date"}, 0.0),
        ([], [], True, 1.0),
        ([], [1], True, 0.0),
        ([], {}, True, 0.0),
        ({}, {}, True, 1.0),
    ],
    ids=str,
)
def test_two_leaves_agree_by_type_and_rule(ours, theirs, schema, expected):
    assert supports(ours, theirs, schema=schema) == {"": [expected]}


def test_alternatives_stand_by_their_share_of_the_samples():
    units, _ = beside({"km": 5}, {"km": 6}, {"km": 5.0}, {}, {"km": 6.0}, {"km": [6]}, ...)

    assert dict(units["/km"].alternatives) == {
        "6": pytest.approx(1 / 3),
        None: pytest.approx(1 / 3),
        "5": pytest.approx(1 / 6),
        "[6]": pytest.approx(1 / 6),
    }
    assert list(units["/km"].alternatives)[:2] == ["6", None]


def test_what_the_answer_lacks_is_told_with_its_share():
    answer = {"tags": ["a"], "rows": [{"n": 1}]}
    sample = {"tags": ["b", "a", "c"], "rows": [{"n": 1}, {"n": 2}], "a/b": {"x": [1]}, "e": {}}

    _, extra = beside(answer, sample, answer)

    assert extra == {"/tags/-": 0.5, "/rows/-/n": 0.5, "/a~1b/x/0": 0.5, "/e": 0.5}


def test_a_field_has_its_text_its_span_and_its_tokens():
    tokens = spans_of_texts(['{"a": ["', "Li", 'ma", 1', "2]}", ""])
    text = '{"a": ["Lima", 12]}'

    name, number = fields(parse(text), text, tokens)

    assert (name.kind, name.path, name.text, name.spans) == ("field", "/a/0", '"Lima"', ((7, 13),))
    assert name.tokens.tolist() == [0, 1, 2]
    assert (number.text, number.tokens.tolist()) == ("12", [2, 3])


def test_ten_thousand_fields_are_compared_with_themselves_and_with_others():
    answer = [{"n": i, "s": "x"} for i in range(5_000)]
    shifted = [*answer[1:], {"n": -1, "s": "x"}]
    assert len(answer) ** 2 > MAX_LEAF_PAIRS

    units, extra = beside(answer, answer, shifted)

    assert len(units) == 10_000
    assert {tuple(unit.supports) for unit in units.values()} == {(1, 1), (1, 0)}
    assert extra == {}


def test_arrays_as_deep_as_they_may_be_are_compared():
    answer = sample = 1
    for _ in range(MAX_DEPTH):
        answer, sample = [answer, 2], [2, sample]

    units, _ = beside(answer, sample, answer)

    assert np.mean([unit.supports for unit in units.values()]) > 0.5


@pytest.mark.parametrize(
    ("text", "path", "left"),
    [
        ('{"a": 1, "b": "x"}', "/b", '{"a": 1, "b": null}'),
        ('{"a": 1, "a": 2}', "/a", '{"a": 1, "a": null}'),
        ('{"a": {"b": []}}', "/a/b", '{"a": {"b": null}}'),
        ('["\\u00e9\\"", 7]', "/0", "[null, 7]"),
        ("12345678901234567890", "", "null"),
        ('```json\n{"a/b": 1}\n```', "/a~1b", '```json\n{"a/b": null}\n```'),
    ],
    ids=["last", "duplicate key", "nested", "escaped", "a number alone", "code block"],
)
def test_a_field_is_removed_from_the_text_and_nothing_else(text, path, left):
    units = fields(parsed(text), text, spans_of_texts(()))

    assert without(text, [unit for unit in units if unit.path == path]) == left
    assert without(text, []) == text
