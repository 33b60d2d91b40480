"""Sentences that are told while the answer is written, against those of the whole answer."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.http.unit_events import EndedSentences
from models.records import Token
from models.units.sentences import sentence_spans

ANSWER = "# Lima\n\nLima is the capital. It has nine people.\n\n- It is old.\n- Dr. Ash is not.\n"
TABLE = "| a | b |\n|---|---|\n| one | two |\n| three | four |\n"


def told(pieces, max_units=100):
    """What is told as tokens of -1 nat each are written."""
    ended = EndedSentences(max_units)
    units = []
    for piece in pieces:
        units += ended.add(Token(piece, logprob=-1.0))
    return units


def pieces_of(text):
    return re.findall(r"\s*\S{1,4}|\s+$", text)


@pytest.mark.parametrize("text", [ANSWER, TABLE], ids=["prose", "table"])
def test_all_but_the_last_sentence_are_told_as_they_stand_in_the_answer(text):
    units = told(pieces_of(text))

    assert [tuple(one.span) for one in units] == sentence_spans(text)[:-1]
    assert [one.text for one in units] == [text[slice(*one.span)] for one in units]


def test_a_sentence_has_the_surprise_of_its_own_tokens():
    first, second = told(["It", " is", " so.", " He", " is.", " Yes"])

    assert (first.tokens, first.scores) == ([0, 3], {"sp": 3.0})
    assert (second.tokens, second.scores) == ([3, 5], {"sp": 2.0})
    assert first.uncertainty == 3.0


def test_half_a_character_belongs_to_the_sentence_that_it_begins():
    first, second = told(["一。", "", "二。", "三"])

    assert (first.text, first.tokens) == ("一。", [0, 1])
    assert (second.text, second.tokens) == ("二。", [1, 3])


def test_a_sentence_is_told_when_the_next_one_begins():
    ended = EndedSentences(100)
    counts = []
    for piece in ["One is.", "\n", "\n", "Two", " is.", " Three"]:
        counts.append(len(ended.add(Token(piece, logprob=-1.0))))

    assert counts == [0, 0, 0, 1, 0, 1]


def test_at_most_so_many_are_told():
    assert len(told(pieces_of(ANSWER), max_units=2)) == 2


def test_tokens_without_log_probs_and_reasonings_tell_none():
    ended = EndedSentences(100)

    assert ended.add(Token("One is. Two is. Three")) == []
    assert ended.add(Token("", logprob=-1.0, reasoning="One is. Two is.")) == []


@given(st.text("ab1.!?。 \n-#|`*'", max_size=60), st.integers(1, 5))
def test_no_character_is_told_twice_and_nothing_but_what_is_written(text, size):
    pieces = [text[start : start + size] for start in range(0, len(text), size)]

    behind = 0
    for one in told(pieces):
        start, end = one.span
        assert behind <= start < end
        assert text[start:end] == one.text
        behind = end
