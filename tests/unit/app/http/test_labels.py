"""What a label needs of a result: its scores and all that they depend on, and no prompt."""

import time
from dataclasses import replace

import pytest

from app.http.labels import to_answer
from app.scoring.ask import Ask, GivenSample
from app.scoring.judging import Decision, Judgement
from app.scoring.result import Escalation
from app.scoring.units import Parts, ScoredUnits
from models.calibration import Binding
from models.codec import to_json
from models.records import GivenAnswer, SamplingParams
from tests.results import PROBES, a_result, comparer_info, generation, sequence

SAMPLING = SamplingParams(5, 32, 0.7, 20, 0.9, ("\n",), seed=3, stop_mass=0.5)
NLI = comparer_info(identity="nli pairs")


def made(result, **options):
    return to_answer(result, "r-1", **{"keeps_text": False} | options)


def test_an_answer_has_its_scores_and_what_they_came_from():
    written = generation(identity="weights")
    result = a_result(
        written,
        ask=Ask(prompt="zanzibar", sampling=SAMPLING),
        scores={"sp": 1.0, "mte": None},
        nli=NLI,
        judgement=Judgement(calibrator="abc"),
    )
    answer = made(result)
    assert (answer.id, answer.estimator) == ("r-1", "sp")
    assert answer.scores == {"sp": 1.0, "mte": None}
    assert (answer.calibrator, answer.text) == ("abc", None)
    assert abs(answer.served_at - time.time()) < 60
    assert answer.binding == Binding(
        model_id="fake",
        revision="1",
        generator="weights",
        input="prompt",
        strategy="greedy",
        num_samples=5,
        stop_mass=0.5,
        temperature=0.7,
        top_k=20,
        top_p=0.9,
        stop=("\n",),
        max_new_tokens=32,
        share_cut=0.0,
        similarity="fake",
        comparer="fake pairs",
        nli="nli pairs",
        probes={},
    )
    assert b"zanzibar" not in to_json(answer)
    assert b"Paris" not in to_json(answer)


def test_the_text_is_kept_where_it_may_be():
    assert made(a_result(), keeps_text=True).text == " Paris"


def test_without_a_limit_of_ones_own_the_default_is_bound():
    assert made(a_result()).binding.max_new_tokens == 256


def test_texts_that_were_cut_are_a_share():
    cut = sequence(" Rome", finish_reason="length")
    binding = made(a_result(generation(samples=(" Paris", cut, " Lyon")))).binding
    assert binding.share_cut == 0.25


def test_the_probes_that_were_read_are_bound_that_of_sentences_to_these():
    result = a_result(ask=Ask(prompt="a", units="sentences"), units=ScoredUnits((), Parts(), 0, 0))
    plan = replace(result.plan, statistics=result.plan.statistics | PROBES.keys())
    answer = made(replace(result, plan=plan))
    assert answer.binding.probes == {"predicted_dissimilarity": "abcdef"}
    assert answer.parts_binding.probes == {"sentence_dissimilarity": "defabc"}


BROUGHT = [
    {"samples": (GivenSample("b"),)},
    {"answer_token_logprobs": (-0.5,)},
    {"answer": GivenAnswer("b", append_eos=False)},
]


@pytest.mark.parametrize("brought", BROUGHT, ids=str)
def test_scores_on_what_the_client_brought_are_bound_to_nothing(brought):
    assert made(a_result(ask=Ask(prompt="a", **brought))).binding is None


def test_a_chat_is_bound_to_chats():
    chat = Ask(messages=({"role": "user", "content": "a"},))
    assert made(a_result(ask=chat)).binding.input == "messages"


REFUSED = Judgement(decision=Decision(False, 0.1, 0.05, "none"))


def test_an_answer_that_its_client_did_not_read_cannot_be_labelled():
    held_back = a_result(ask=Ask(prompt="a", on_reject="abstain"), judgement=REFUSED)
    given = a_result(ask=Ask(prompt="a"), judgement=REFUSED)
    other = a_result(judgement=REFUSED, escalation=Escalation("big", text=" Lyon"))
    failed = a_result(judgement=REFUSED, escalation=Escalation("big", error="no"))
    assert [made(one) is None for one in (held_back, given, other, failed)] == [
        True,
        False,
        True,
        False,
    ]


def test_a_label_of_an_answer_behind_a_reasoning_is_of_no_calibration():
    result = a_result()
    reasoned = replace(result, plan=replace(result.plan, is_reasoned=True))
    assert made(result).binding is not None
    assert made(reasoned).binding is None
