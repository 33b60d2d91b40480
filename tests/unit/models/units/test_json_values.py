import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.units.json_values import MAX_DEPTH, NotJson, escaped, leaves, parse, parsed

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=12,
)


@given(value=JSON, indent=st.sampled_from([None, 2]), is_ascii=st.booleans())
def test_values_are_those_of_the_standard_library_and_stand_where_their_spans_say(
    value, indent, is_ascii
):
    text = json.dumps(value, indent=indent, ensure_ascii=is_ascii)

    parsed = parse(text)

    assert parsed.plain() == value
    for _, leaf in leaves(parsed):
        start, end = leaf.span
        assert json.loads(text[start:end]) == leaf.plain()
        assert text[start:end] == text[start:end].strip()


@given(text=st.text(st.sampled_from('{}[]",:\\/ut e019-.x\n'), max_size=14) | st.text(max_size=9))
def test_what_the_standard_library_refuses_or_reads_as_no_number_is_refused(text):
    try:
        expected = json.loads(text)
        json.dumps(expected, allow_nan=False)
    except ValueError:
        with pytest.raises(NotJson):
            parse(text)
    else:
        assert parse(text).plain() == expected


@pytest.mark.parametrize(
    "text",
    [
        "", " ", '{"a": 1', '{"a', "[1, 2", "[1,]", '{"a": 1,}', "{a: 1}", "1 2", "01", "nul",
        '"\\x"', '"a\nb"', "NaN", "[-Infinity]", "1e999", "9" * 5000, "[" * 100_000, "\ufeff1",
        "```json\n{}\n```", '{"a": 1} done', '"\\ud8',
    ],
    ids=lambda text: repr(text[:12]),
)  # fmt: skip
def test_what_is_no_json_is_told(text):
    with pytest.raises(NotJson, match=r"."):
        parse(text)


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_depth_has_a_limit(opening, closing):
    deepest = opening * MAX_DEPTH + "1" + closing * MAX_DEPTH

    [(path, leaf)] = leaves(parse(deepest))

    assert path.count("/") == MAX_DEPTH
    assert leaf.content == 1
    with pytest.raises(NotJson, match=f"deeper than {MAX_DEPTH}"):
        parse(opening + deepest + closing)


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ('{"a/b": {"~": 1, "": 2}}', ["/a~1b/~0", "/a~1b/"]),
        ('{"~1": [[], {}]}', ["/~01/0", "/~01/1"]),
        ('{"k": [1, 2], "k": 3}', ["/k"]),
        ('{"\\u00e9\\u002f": 1}', ["/é~1"]),
        ("7", [""]),
        ("[]", [""]),
    ],
)
def test_leaves_are_named_by_json_pointer(text, paths):
    assert [path for path, _ in leaves(parse(text))] == paths


def test_of_duplicate_keys_the_last_has_the_span():
    assert parse('{"k": 1, "k": 22}').content["k"].span == (14, 16)


def test_surrogates_are_one_character_and_a_lone_one_can_be_stored():
    assert parse('"\\ud83d\\ude00"').content == "😀"
    assert parse('{"\\ud83d": "\\ude00"}').plain() == {"\ufffd": "\ufffd"}


def test_a_great_integer_is_exact():
    assert parse(str(10**400 + 1)).content == 10**400 + 1


def test_escaping_is_undone_in_the_opposite_order():
    assert escaped("~1").replace("~1", "/").replace("~0", "~") == "~1"


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("[7]", [7]),
        ("```json\n[7]\n```", [7]),
        ("\n```\n[7]```\n", [7]),
        ('```JSON  \n{"a": "```"}\n```', {"a": "```"}),
        ("Here you are:\n```json\n[7]\n```", None),
        ("```json\n[7]\n```\n```json\n[8]\n```", None),
        ("```python\n[7]\n```", None),
        ("```json\n```", None),
        ("", None),
    ],
)
def test_json_may_be_all_of_a_text_or_its_only_code_block(text, content):
    value = parsed(text)

    assert (value and value.plain()) == content
    if value:
        assert text[slice(*value.span)] == json.dumps(content)
