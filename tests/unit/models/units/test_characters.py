import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.records import Sequence
from models.units.characters import overlapping, spans_of_texts
from models.units.parts import split


@given(texts=st.lists(st.text(max_size=4)))
def test_the_spans_of_token_texts_join_to_the_text(texts):
    spans = spans_of_texts(texts)
    text = "".join(texts)

    pieces = [text[start:end] for start, end in zip(spans.starts, spans.ends, strict=True)]

    assert pieces == list(filter(None, texts))
    assert spans.indices.tolist() == [i for i, one in enumerate(texts) if one]


def test_a_special_token_inside_a_span_is_not_of_it():
    spans = spans_of_texts(["One", "", " more", ".", ""])

    assert overlapping(spans, [(0, 9)]).tolist() == [0, 2, 3]


def test_an_empty_span_has_no_tokens():
    spans = spans_of_texts(["ab", "cd"])

    assert overlapping(spans, [(1, 1)]).tolist() == []
    assert overlapping(spans, []).tolist() == []
    assert overlapping(spans, [(9, 12)]).tolist() == []


def test_a_token_that_begins_a_character_lies_on_it_and_a_special_one_on_none():
    spans = spans_of_texts(["a", "", "", "東", "", "b"], begun=[(1, 1), (2, 1)])

    assert overlapping(spans, [(1, 2)]).tolist() == [1, 2, 3]
    assert overlapping(spans, [(2, 3)]).tolist() == [5]


@pytest.mark.parametrize(
    ("texts", "tokens"),
    [
        (["Foxes.", "", "", " \N{FOX FACE} is one.", ""], [[0], [1, 2, 3]]),
        (["", "", " \N{FOX FACE}", " is", ".", ""], [[0, 1, 2, 3, 4]]),
        (["是", "", "。\N{FOX FACE}", "是。", ""], [[0, 1, 2], [1, 2, 3]]),
        (["It", "", " is."], [[0, 2]]),
    ],
)
def test_a_sentence_has_all_tokens_of_a_character_behind_a_blank(texts, tokens):
    text = "".join(texts).strip()
    answer = Sequence(text, text, len(texts), "stop", token_texts=tuple(texts))

    assert [unit.tokens.tolist() for unit in split(answer, "sentences").units] == tokens
