"""What a label needs of a result: its scores and all that they depend on, and no prompt."""

from dataclasses import replace

import pytest

from app.plugins.labels.answers import to_answer
from app.scoring.ask import Ask, GivenSample
from app.scoring.judging import DecisionInfo, Judgement
from app.scoring.units import ScoredUnits
from models.records import GivenAnswer
from models.units.parts import Parts
from tests.results import PROBES, a_result, generation, sequence, similarity_info

NLI = similarity_info(identity="nli pairs")


def made(result, **options):
    return to_answer(result, "r-1", **{"keeps_text": False} | options)


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


REFUSED = Judgement(decision=DecisionInfo(False, 0.1, 0.05, "none", "hand_over", "none"))


def test_an_answer_that_its_client_did_not_read_cannot_be_labelled():
    held_back = a_result(ask=Ask(prompt="a", on_reject="abstain"), judgement=REFUSED)
    given = a_result(ask=Ask(prompt="a"), judgement=REFUSED)
    assert [made(one) is None for one in (held_back, given)] == [True, False]
