import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.units.chunks import beginning, chunk_spans


def ends_of(text):
    return [word.end() for word in re.finditer(r"\S+", text)]


def chunks_of(*sentences, max_tokens):
    text, spans = "", []
    for sentence in sentences:
        spans.append((len(text), len(text) + len(sentence)))
        text += f"{sentence} "
    found = chunk_spans(spans, ends_of(text), max_tokens)
    return [text[start:end] for start, end in found]


@pytest.mark.parametrize(
    ("sentences", "chunks"),
    [
        (["a b.", "c d."], ["a b. c d."]),
        (["a b.", "c d.", "e f."], ["a b. c d.", "c d. e f."]),
        (["a b.", "c.", "d e.", "f g."], ["a b. c.", "c. d e.", "d e. f g."]),
        (["a b c.", "d e."], ["a b c.", "d e."]),
        (["a b c d e f."], ["a b c d", " e f."]),
        ([], []),
    ],
    ids=["one", "overlap", "overlap of short ones", "no room for any", "a long one", "none"],
)
def test_chunks_are_whole_sentences_that_overlap_by_one(sentences, chunks):
    assert chunks_of(*sentences, max_tokens=4) == chunks


@given(st.lists(st.integers(1, 9), max_size=30), st.integers(1, 12))
def test_every_word_is_in_a_chunk_and_no_chunk_has_too_many(lengths, max_tokens):
    sentences = []
    for number, length in enumerate(lengths):
        sentences.append(" ".join(f"{number}.{i}" for i in range(length)))

    chunks = chunks_of(*sentences, max_tokens=max_tokens)

    assert {word for chunk in chunks for word in chunk.split()} == {
        word for sentence in sentences for word in sentence.split()
    }
    assert all(len(chunk.split()) <= max_tokens for chunk in chunks)
    if max(lengths, default=0) <= max_tokens:
        for sentence in sentences:
            assert any(sentence in chunk for chunk in chunks)


def test_a_hypothesis_ends_with_its_last_token_that_is_read():
    text = "a b c d. e"
    ends = ends_of(text)

    assert text[slice(*beginning((0, 8), ends, 4))] == "a b c d."
    assert text[slice(*beginning((2, 8), ends, 2))] == "b c"


def test_pieces_of_one_character_are_never_taken_apart_without_end():
    ends = [1, 1, 1, 2, 2, 2]  # each character is three tokens

    assert chunk_spans([(0, 2)], ends, 1) == [(0, 1), (1, 2)]
