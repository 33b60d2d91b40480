from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from models.units.characters import behind, overlapping, spans_of_bytes, spans_of_texts


@given(texts=st.lists(st.text(max_size=4)))
def test_the_spans_of_token_texts_join_to_the_text(texts):
    spans = spans_of_texts(texts)
    text = "".join(texts)

    pieces = [text[start:end] for start, end in zip(spans.starts, spans.ends, strict=True)]

    assert pieces == list(filter(None, texts))
    assert spans.indices.tolist() == [i for i, one in enumerate(texts) if one]


@given(text=st.text(max_size=12), data=st.data())
def test_a_character_has_the_tokens_that_hold_one_of_its_bytes(text, data):
    encoded = text.encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(encoded)), max_size=10)))
    bounds = [0, *cuts, len(encoded)]
    pieces = [encoded[start:end] for start, end in pairwise(bounds)]
    owner = np.repeat(np.arange(len(pieces)), [len(piece) for piece in pieces])

    spans = spans_of_bytes(pieces)

    first_byte = 0
    for i, char in enumerate(text):
        last_byte = first_byte + len(char.encode())
        expected = np.unique(owner[first_byte:last_byte]).tolist()
        assert overlapping(spans, [(i, i + 1)]).tolist() == expected
        first_byte = last_byte


@given(pieces=st.lists(st.binary(max_size=4)))
def test_bytes_that_are_no_text_still_lie_somewhere(pieces):
    spans = spans_of_bytes(pieces)

    assert (np.diff(spans.starts) >= 0).all()
    assert (np.diff(spans.ends) >= 0).all()
    assert (spans.starts < spans.ends).all() or not b"".join(pieces)
    assert spans.indices.tolist() == [i for i, piece in enumerate(pieces) if piece]


def test_a_special_token_inside_a_span_is_not_of_it():
    spans = spans_of_texts(["One", "", " more", ".", ""])

    assert overlapping(spans, [(0, 9)]).tolist() == [0, 2, 3]


def test_a_special_token_inside_a_character_is_not_of_it():
    spans = spans_of_bytes([b"\xe6", b"", b"\x9d\xb1"])

    assert overlapping(spans, [(0, 1)]).tolist() == [0, 2]


def test_tokens_of_two_spans_count_once_and_in_order():
    spans = spans_of_texts(["ab", "cd", "ef"])

    assert overlapping(spans, [(3, 5), (0, 3)]).tolist() == [0, 1, 2]


def test_an_empty_span_has_no_tokens():
    spans = spans_of_texts(["ab", "cd"])

    assert overlapping(spans, [(1, 1)]).tolist() == []
    assert overlapping(spans, []).tolist() == []
    assert overlapping(spans, [(9, 12)]).tolist() == []


def test_a_token_that_begins_a_character_lies_on_it_and_a_special_one_on_none():
    spans = spans_of_texts(["a", "", "", "東", "", "b"], begun=[1, 2])

    assert overlapping(spans, [(1, 2)]).tolist() == [1, 2, 3]
    assert overlapping(spans, [(2, 3)]).tolist() == [5]


def test_behind_a_reasoning_tokens_and_characters_are_counted_from_its_end():
    texts = ["<think>", "hm", "</think", ">\n", "Peru", ".", ""]
    answer = "\nPeru."

    spans = behind(spans_of_texts(texts), 4, len("".join(texts)) - len(answer))

    assert overlapping(spans, [(0, 1)]).tolist() == []  # the tag's last token is not the answer's
    assert overlapping(spans, [(1, 6)]).tolist() == [0, 1]
    assert [answer[start:end] for start, end in zip(spans.starts, spans.ends, strict=True)] == [
        "Peru",
        ".",
    ]
