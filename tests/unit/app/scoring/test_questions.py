"""What is scored and asked is pure: which text is y*, and the question whether it is true."""

from dataclasses import replace

import numpy as np
import pytest

from app.scoring.ask import Ask, GivenSample
from app.scoring.questions import (
    Subject,
    choose,
    question_about,
    question_of,
    subject_of,
)
from models.records import GivenAnswer
from tests.results import generation, sequence

ASK = Ask(prompt="Capital of France?")


def subject(*samples, answer=" Paris", chosen=None):
    written = generation(answer, samples)
    return Subject(written.answer, chosen, written.samples)


class TestSubject:
    def test_without_given_texts_it_is_what_the_model_wrote(self):
        written = generation(" Paris", (" Rome",))
        assert subject_of(ASK, written) == Subject(written.answer, None, written.samples)

    def test_given_samples_take_the_place_of_the_models(self):
        brought = (GivenSample(" Rome ", (-0.5, -1.0)), GivenSample("<think>hm</think> Lyon"))
        found = subject_of(replace(ASK, samples=brought), generation(" Paris", (" Oslo",)))

        assert found.answer.text == " Paris"
        assert [sample.text for sample in found.samples] == [" Rome ", " Lyon"]
        assert found.samples[1].reasoning.text == "hm"
        assert found.texts == ["Rome", "Lyon"]
        assert found.samples[0].token_logprobs.tolist() == [-0.5, -1.0]
        assert found.samples[1].token_logprobs is None
        assert {sample.finish_reason for sample in found.samples} == {"given"}

    def test_texts_alone_have_no_tokens(self):
        ask = Ask(answer=GivenAnswer(" Paris "), samples=(GivenSample("Rome"),))
        found = subject_of(ask, None)

        assert (found.answer.text, found.answer.compared_text) == (" Paris ", "Paris")
        assert (found.answer.num_tokens, found.answer.token_ids) == (0, None)

    def test_the_others_are_all_samples_but_the_chosen_one(self):
        assert subject("a", "b", "a").other_texts == ["a", "b", "a"]
        assert subject("a", "b", "a", chosen=0).other_texts == ["b", "a"]


class TestChoosing:
    LIKELY = sequence("likely", 1, token_logprobs=np.array([-0.1]))
    LONG = sequence("long", 4, token_logprobs=np.full(4, -0.05))
    ODD = sequence("odd", 1, token_logprobs=np.array([-3.0]))

    def chosen(self, strategy, *samples, matrix=None):
        found = choose(strategy, subject(*samples), matrix)
        return found.answer_sample, found.answer.text

    @pytest.mark.parametrize("strategy", ["greedy", "given"])
    def test_the_answer_itself_stays(self, strategy):
        assert self.chosen(strategy, self.ODD) == (None, " Paris")

    def test_a_drawn_answer_is_the_first_sample_whatever_it_is(self):
        assert self.chosen("sample", self.ODD, self.LIKELY) == (0, "odd")

    def test_the_most_probable_sample_is_that_of_the_largest_sum(self):
        assert self.chosen("most_probable", self.ODD, self.LONG, self.LIKELY) == (2, "likely")

    def test_normalized_it_is_that_of_the_largest_mean(self):
        samples = (self.ODD, self.LIKELY, self.LONG)
        assert self.chosen("most_probable_normalized", *samples) == (2, "long")

    def test_mbr_takes_the_sample_most_like_the_others(self):
        matrix = np.array([[1.0, 0.9, 0.1], [0.9, 1.0, 0.8], [0.1, 0.8, 1.0]])
        assert self.chosen("mbr", "a", "b", "c", matrix=matrix) == (1, "b")


class TestQuestion:
    def test_it_is_the_prompt_or_the_last_word_of_the_user(self):
        chat = (
            {"role": "user", "content": "first"},
            {"role": "user", "content": "last"},
            {"role": "assistant", "content": "so"},
        )
        assert question_of(ASK) == "Capital of France?"
        assert question_of(Ask(messages=chat)) == "last"
        assert question_of(Ask(messages=chat[2:])) == ""
        assert question_of(Ask(answer=GivenAnswer("Paris"))) == ""

    def test_it_asks_for_one_token_of_a_prompt_as_a_prompt_and_of_a_chat_as_a_chat(self):
        about = question_about("Paris", replace(ASK, chat_template_kwargs={"a": 1}))
        assert about.prompt.startswith("Question: Capital of France?\n Possible answer: Paris\n")
        assert (about.sampling.max_new_tokens, about.num_samples, about.statistics) == (
            1,
            0,
            frozenset(),
        )
        chat = question_about("Paris", Ask(messages=({"role": "user", "content": "Where?"},)))
        assert chat.prompt is None
        assert chat.messages[0]["role"] == "user"
