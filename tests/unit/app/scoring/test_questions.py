"""What is scored and asked is pure: which text is y*, and what must be compared for it."""

from dataclasses import replace

import numpy as np
import pytest

from app.scoring.ask import Ask, GivenSample
from app.scoring.questions import (
    Subject,
    choose,
    make_questions,
    question_about,
    question_of,
    read_by_token,
    subject_of,
)
from models.records import GivenAnswer
from models.similarity.pairs import PairRules, PairTable
from tests.results import a_plan, generation, sequence

RULES = PairRules()
ASK = Ask(prompt="Capital of France?")


def table(scores):
    values = {pair: (value,) for pair, value in scores.items()}
    return PairTable(("similarity",), values, RULES)


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
        scores = {("a", "b"): 0.9, ("b", "a"): 0.9, ("b", "c"): 0.8, ("c", "b"): 0.8}
        scores |= {("a", "c"): 0.1, ("c", "a"): 0.1}
        assert self.chosen("mbr", "a", "b", "c", matrix=table(scores)) == (1, "b")


def asked(plan, found, contexts=()):
    return make_questions(replace(plan, ask=ASK), found, contexts, RULES, RULES)


class TestPairs:
    def test_nothing_is_compared_that_nobody_reads(self):
        plan = a_plan({"answer_token_logprobs"})
        nothing = asked(plan, subject("Rome"))
        assert (nothing.similarity, nothing.nli, nothing.true_false) == ([], [], None)

    def test_the_answer_is_compared_with_each_distinct_other_text_in_both_directions(self):
        found = asked(a_plan({"similarity"}), subject("Rome", "Rome", "Paris"))
        assert found.similarity == [("Paris", "Rome"), ("Rome", "Paris")]

    def test_a_matrix_compares_the_samples_with_each_other(self):
        found = asked(a_plan({"similarity_matrix"}), subject("a", "b"))
        assert found.similarity == [("a", "b"), ("b", "a")]

    def test_relevance_compares_the_whole_with_the_whole_without_each_token(self):
        answer = sequence(" so Paris", token_texts=(" so", " Paris"))
        plan = a_plan({"token_relevance"})
        found = subject("Rome", answer=answer)

        assert read_by_token(plan, found) == [answer]
        whole, first, second = "Where? so Paris", "Where? Paris", "Where? so"
        assert asked(plan, found, ["Where?"]).similarity == [
            (whole, first),
            (first, whole),
            (whole, second),
            (second, whole),
        ]

    def test_the_relevance_of_samples_follows_that_of_the_answer(self):
        plan = a_plan({"token_relevance", "sample_token_relevance"})
        found = subject("a", "b")
        assert read_by_token(plan, found) == [found.answer, *found.samples]

    def test_nli_judges_the_samples_and_the_answer_where_each_is_wanted(self):
        found = subject("a")
        assert asked(a_plan({"entailment"}), subject("a", "b")).nli == [("a", "b"), ("b", "a")]
        assert asked(a_plan({"answer_contradiction"}), found).nli == [
            ("Paris", "a"),
            ("a", "Paris"),
        ]


class TestQuestion:
    def test_whether_the_answer_is_true_is_asked_where_it_is_wanted(self):
        found = asked(a_plan({"p_true_logprob"}), subject())
        assert found.true_false == question_about("Paris", ASK)

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
