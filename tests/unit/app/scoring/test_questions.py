"""What is scored and asked is pure: which text is y*, and the question whether it is true."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

from app.scoring.ask import Ask
from app.scoring.planning import make_plan
from app.scoring.questions import (
    Subject,
    choose,
    closed_book,
    closed_book_logprobs,
    evened,
    p_true_logprob,
    question_about,
    without_documents,
)
from models.records import GivenAnswer, Reasoning, Sequence
from tests.results import generation, sequence
from tests.unit.app.scoring.test_plan import ALL, a_deployment

ASK = Ask(prompt="Capital of France?")


def test_normalized_the_most_probable_sample_is_that_of_the_largest_mean():
    likely = sequence("likely", 1, token_logprobs=np.array([-0.1]))
    long = sequence("long", 4, token_logprobs=np.full(4, -0.05))
    written = generation(" Paris", (likely, long))
    found = choose("most_probable_normalized", Subject(written.answer, None, written.samples), None)
    assert (found.answer_sample, found.answer.text) == (1, "long")


def test_it_asks_for_one_token_of_a_prompt_as_a_prompt_and_of_a_chat_as_a_chat():
    about = question_about("Paris", replace(ASK, chat_template_kwargs={"a": 1}))
    assert about.prompt.startswith("Question: Capital of France?\n Possible answer: Paris\n")
    assert (about.sampling.max_new_tokens, about.num_samples) == (1, 0)
    assert about.statistics == frozenset()
    said = {"role": "user", "content": "Which city?"}, {"role": "assistant", "content": "Rome"}
    chat = question_about("Paris", Ask(messages=(*said, {"role": "user", "content": "Where?"})))
    assert chat.prompt is None
    [message] = chat.messages
    assert message["role"] == "user"
    assert message["content"].startswith("Question: Which city?\nWhere?\n Possible answer: Paris\n")


@pytest.mark.parametrize(
    ("true", "false", "reason"),
    [
        (None, -1.0, "does not tell True from False"),
        (-1.0, None, "does not tell True from False"),
        (-12.3, -13.0, "neither True nor False"),
    ],
    ids=["no true", "no false", "another reply"],
)
def test_p_true_that_cannot_be_had_has_a_reason(true, false, reason):
    assert reason in p_true_logprob(true, false)


def test_p_true_is_normalised_over_both():
    assert p_true_logprob(np.log(0.3), np.log(0.1)) == pytest.approx(np.log(0.75))


DOCUMENT = {"doc_id": "0", "title": "", "text": "Lima is in Peru."}
CHAT = ({"role": "user", "content": "Lima is in Peru. Where is it?"},)


def test_without_documents_the_prompt_is_what_is_left_of_it():
    shown = Ask(messages=CHAT, documents=(DOCUMENT,))
    assert without_documents(shown) == Ask(messages=CHAT)
    held = replace(shown, documents_in="prompt")
    [message] = without_documents(held).messages
    assert message == {"role": "user", "content": "\n Where is it?"}
    call = {"role": "assistant", "content": None, "tool_calls": ()}  # says nothing
    assert without_documents(replace(held, messages=(*CHAT, call))).messages == (message, call)
    raw = Ask("Lima is in Peru.\nSo", (1, 2), documents=(DOCUMENT,), documents_in="prompt")
    left = without_documents(raw)
    assert (left.prompt, left.prompt_ids, left.documents) == ("\n\nSo", (), None)
    assert without_documents(replace(raw, documents=())).prompt == raw.prompt


def test_a_document_that_stands_in_another_is_cut_with_it():
    short = {**DOCUMENT, "text": "Lima"}
    ask = Ask(messages=CHAT, documents=(short, DOCUMENT), documents_in="prompt")
    [message] = without_documents(ask).messages
    assert message["content"] == "\n Where is it?"


def test_an_answer_is_read_without_documents_as_it_ended():
    ask = Ask(messages=CHAT, documents=(DOCUMENT,), num_tops=3, estimators=("remaining",))
    plan = make_plan(ask, a_deployment(ALL))
    for reason, ends in {"stop": True, "length": False}.items():
        request = closed_book(plan, sequence("Peru", 1, finish_reason=reason))
        assert request.answer == GivenAnswer("Peru", append_eos=ends)
        assert (request.documents, request.messages, request.num_samples) == ((), CHAT, 0)
        assert (request.num_tops, request.statistics) == (0, {"answer_token_logprobs"})
    given = GivenAnswer("Peru", append_eos=False)
    plan = make_plan(replace(ask, answer=given), a_deployment(ALL))
    assert closed_book(plan, sequence("Peru", 1)).answer == given


def test_log_probs_of_other_tokens_are_those_of_another_answer():
    logprobs = np.array([-1.0, -2.0])
    answer = sequence("Peru", 2, token_ids=(4, 5), token_logprobs=None)
    read = replace(answer, token_logprobs=logprobs)
    assert closed_book_logprobs(answer, generation(read)) is logprobs
    for other in (replace(read, token_ids=(4, 6)), replace(read, num_tokens=3)):
        assert "other tokens" in closed_book_logprobs(answer, generation(other))
    unknown = replace(read, token_ids=None)  # as some servers tell none of what they write
    assert closed_book_logprobs(answer, generation(unknown)) is logprobs
    told = generation(answer, absent={"answer_token_logprobs": "none are told"})
    assert closed_book_logprobs(answer, told) == "none are told"
    assert "not available" in closed_book_logprobs(answer, generation(answer))


def test_without_the_results_of_tools_the_messages_of_others_stay():
    result = {"role": "tool", "content": "Lima is in Peru."}
    ask = Ask(messages=(*CHAT, result), documents=(DOCUMENT,), documents_in="tools")
    assert without_documents(ask).messages == (*CHAT, {"role": "tool", "content": "\n"})


def drawn(text, logprobs, ids=None, **more):
    return Sequence(
        text, text.strip(), len(logprobs), "stop", ids, np.array(logprobs, dtype=np.float64), **more
    )


THOUGHT = Reasoning("so", 3, is_finished=True)


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        ([drawn("a", [-0.41], (1,)), drawn("a", [-0.4], (1,))], [-0.4, -0.4]),
        ([drawn("a", [-0.41], (1,)), drawn("a", [-0.4], (2,))], [-0.41, -0.4]),
        ([drawn("a", [-0.41]), drawn("a", [-0.4])], [-0.4, -0.4]),
        ([drawn("a", [-5.0]), drawn("a", [-0.5])], [-5.0, -0.5]),
        ([drawn("a", [-0.41]), drawn(" a", [-0.4])], [-0.41, -0.4]),
        ([drawn("a", [-0.2, -0.2]), drawn("a", [-0.4])], [-0.4, -0.4]),
        ([drawn("a", [-0.41], (1,), reasoning=THOUGHT), drawn("a", [-0.4], (1,))], [-0.41, -0.4]),
    ],
    ids=[
        "the same ids, apart by rounding",
        "other ids",
        "no ids, close",
        "no ids, apart",
        "another text",
        "another number of tokens",
        "behind a reasoning",
    ],
)
def test_only_the_same_tokens_are_evened_in_every_order(samples, expected):
    for order in permutations(range(len(samples))):
        found = evened([samples[i] for i in order])
        sums = [float(one.token_logprobs.sum()) for one in found]
        assert sums == pytest.approx([expected[i] for i in order])
        assert [one.text for one in found] == [samples[i].text for i in order]


def test_samples_without_log_probs_stay_as_they_are():
    samples = (Sequence("a", "a", 1, "stop"), Sequence("a", "a", 1, "stop"))

    assert evened(samples) == samples
