"""What is scored and asked is pure: which text is y*, and the question whether it is true."""

from dataclasses import replace

import numpy as np

from app.scoring.ask import Ask
from app.scoring.questions import Subject, choose, question_about
from tests.results import generation, sequence

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
