"""Reasonings of existing servers: in the text, apart in a message, and in streams of both."""

import numpy as np
import pytest

from models.engines.tags import Tags
from models.records import GenerationRequest, Token
from workers.calling import Listener
from workers.openai.replies import read_choices
from workers.openai.sequences import TokenStream, behind_reasoning, to_sequence, token_texts

CUT = "reasoning_unfinished"
WANTED = frozenset({"token_logprobs", "token_texts"})
PIECES = ["<think>", "hm", "</th", "ink>\n", "Par", "is"]
LOGPROBS = [-6.0, -5.0, -4.0, -3.0, -2.0, -1.0]


def completion(pieces=PIECES, **fields):
    logprobs = {"tokens": pieces, "token_logprobs": LOGPROBS[: len(pieces)]}
    told = {"text": "".join(pieces), "finish_reason": "stop", "logprobs": logprobs}
    return read_choices([{"choices": [told | fields]}], 1)[0]


def chat(message, pieces=PIECES, finish_reason="stop"):
    content = [
        {"token": piece, "logprob": one} for piece, one in zip(pieces, LOGPROBS, strict=False)
    ]
    told = {"message": message, "finish_reason": finish_reason, "logprobs": {"content": content}}
    return read_choices([{"choices": [told]}], 1)[0]


def sequence(choice, *, texts=None, opened=False):
    whole = to_sequence(choice, WANTED)
    return behind_reasoning(whole, choice, texts or token_texts(choice), opened=opened)


def test_a_completion_is_cut_where_the_tokens_texts_end_its_reasoning():
    found = sequence(completion())
    assert (found.text, found.reasoning.text, found.reasoning.num_tokens) == ("\nParis", "hm", 4)
    assert (found.num_tokens, found.token_logprobs.tolist()) == (2, [-2.0, -1.0])
    assert found.token_texts == ("Par", "is")


def test_a_prompt_that_opened_the_reasoning_needs_no_start_tag():
    found = sequence(completion(PIECES[1:]), opened=True)
    assert (found.text, found.reasoning.text, found.num_tokens) == ("\nParis", "hm", 2)
    cut = sequence(completion(["hm", " well"], finish_reason="length"), opened=True)
    assert (cut.text, cut.no_answer, cut.num_tokens) == ("", CUT, 0)


def test_tokens_without_texts_leave_nothing_to_score_rather_than_the_thoughts():
    choice = completion([f"token_id:{i}" for i in range(6)], text="".join(PIECES))
    found = sequence(choice)
    assert (found.text, found.reasoning.text) == ("\nParis", "hm")
    assert (found.token_logprobs, found.token_texts) == (None, None)


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_a_message_that_tells_it_apart_has_log_probs_of_both(name):
    found = sequence(chat({"content": "Paris", name: "hm"}))
    assert (found.text, found.reasoning.text, found.reasoning.is_finished) == ("Paris", "hm", True)
    np.testing.assert_array_equal(found.token_logprobs, [-2.0, -1.0])


def test_a_message_whose_reasoning_was_cut_off_has_no_answer():
    found = sequence(chat({"content": None, "reasoning": "hm"}, PIECES[:2], "length"))
    assert (found.text, found.no_answer, found.reasoning.num_tokens) == ("", CUT, 2)
    assert len(found.token_logprobs) == 0


def told_by(pieces, *, opened=False, key="text"):
    told = []
    stream = TokenStream(GenerationRequest("a"), Listener(told.append), opened=opened)
    for piece in pieces:
        choice = {"delta": piece} if key == "delta" else {"text": piece}
        stream.hear({"choices": [{"index": 0, "finish_reason": None} | choice]})
    return told


def test_a_stream_tells_the_thoughts_and_then_the_answer():
    told = told_by(PIECES)
    assert [token.reasoning for token in told] == ["hm", None, None]
    assert "".join(token.text for token in told) == "\nParis"


def test_a_stream_that_was_opened_by_its_prompt_begins_with_thoughts():
    assert [token.reasoning for token in told_by(PIECES[1:], opened=True)] == ["hm", None, None]


@pytest.mark.parametrize("opened", [False, True])
def test_long_thoughts_are_told_token_by_token_and_looked_through_where_they_may_end(
    monkeypatch, opened
):
    looked = []
    known_parts = Tags.known_parts

    def counting(texts, **options):
        looked.append(texts)
        return known_parts(texts, **options)

    monkeypatch.setattr(Tags, "known_parts", counting)
    thoughts = [f" {number}" for number in range(200)]
    pieces = [*thoughts, " 2 > 1", "</think>", "\n\nParis"]
    told = told_by(pieces if opened else ["<think>", *pieces], opened=opened)

    assert [token.reasoning for token in told[:200]] == ["0", *thoughts[1:]]
    assert "".join(token.text for token in told) == "\n\nParis"
    assert len(looked) < 100


@pytest.mark.parametrize("pieces", [["Paris", " it is"], ["<", "b>Paris"], [" ", "Paris"]])
def test_a_stream_without_a_reasoning_is_told_whole(pieces):
    assert told_by(pieces) == [Token(piece) for piece in pieces]


def test_a_chats_stream_has_deltas_of_both():
    deltas = [{"reasoning": "h"}, {"reasoning_content": "m"}, {"content": "Paris"}]
    told = told_by(deltas, key="delta")
    assert told == [Token("", reasoning="h"), Token("", reasoning="m"), Token("Paris")]
