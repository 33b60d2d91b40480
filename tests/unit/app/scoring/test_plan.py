"""make_plan is pure: which work follows from which request, and what is refused before any."""

import pytest

from app.scoring.ask import Ask, GivenSample
from app.scoring.check import check
from app.scoring.defaults import DEFAULT_ESTIMATORS
from app.scoring.plan import generation_request, make_plan
from models.errors import ProbeMissing
from models.records import GenerationRequest, GivenAnswer, SamplingParams
from models.statistics import ANSWER_STATISTICS, SAMPLE_STATISTICS
from tests.results import a_deployment

ALL = ANSWER_STATISTICS | SAMPLE_STATISTICS
LOGPROBS, ENTROPIES = "answer_token_logprobs", "answer_token_entropies"


def plan(supplied=ALL, **ask):
    """The plan of an ask, that a generator of these statistics carries out or refuses."""
    deployment = a_deployment(supplied)
    made = make_plan(Ask(**{"prompt": "a"} | ask), deployment)
    check(made, deployment)
    return made


def test_what_a_deployment_cannot_supply_is_not_asked_for():
    planned = plan(ALL - {ENTROPIES}, return_tokens=True, return_samples=True)
    assert ENTROPIES not in planned.generated
    assert planned.generated >= {LOGPROBS, "sample_texts", "sample_token_logprobs"}
    assert planned.estimators == tuple(DEFAULT_ESTIMATORS)


def test_everything_of_the_ask_that_a_generator_heeds_reaches_it():
    ask = Ask(
        messages=({"role": "system", "content": "s"}, {"role": "user", "content": "u"}),
        chat_template_kwargs={"thinking": False},
        sampling=SamplingParams(3, 5, 0.5, 7, 0.9, ("\n", "Q:"), 11),
        answer=GivenAnswer("Paris", append_eos=False),
    )
    wanted = frozenset({LOGPROBS})
    assert generation_request(ask, wanted) == GenerationRequest(
        messages=ask.messages,
        chat_template_kwargs=ask.chat_template_kwargs,
        sampling=ask.sampling,
        statistics=wanted,
        answer=ask.answer,
    )
    assert generation_request(Ask(prompt="a"), wanted).prompt == "a"


def test_without_any_probe_sentences_have_the_probability_of_their_tokens():
    supplied = ALL | {"answer_token_texts"}
    planned = plan(supplied, light=True, units="sentences")
    assert (planned.primary, planned.unit_primary) == ("sp", "sp")
    assert planned.unit_estimators == ("sp", "ppl", "mte")
    for named in ({"estimators": ("cocoa_sp_light",)}, {"primary": "consistency_light"}):
        with pytest.raises(ProbeMissing):
            plan(supplied, light=True, units="sentences", **named)


def test_a_sampled_answer_takes_its_statistics_from_the_samples():
    planned = plan(strategy="most_probable", estimators=("sp", "mte"))
    assert planned.generated == {"sample_texts", "sample_token_logprobs", "sample_token_entropies"}


# id: (an ask, what it takes of the models)
ROWS = {
    "ten samples": ({}, 11),
    "no samples": ({"estimators": ("sp",)}, 1),
    "as few samples as needed": ({"sampling": SamplingParams(20, stop_mass=0.7)}, 21),
    "samples brought along": ({"samples": (GivenSample("a"), GivenSample("b"))}, 3),
    "texts alone": (
        {"prompt": None, "answer": GivenAnswer("a"), "samples": (GivenSample("b"),)},
        2,
    ),
    "log-probs alone": (
        {"prompt": None, "answer": GivenAnswer("a"), "answer_token_logprobs": (-1.0,)},
        1,
    ),
}


@pytest.mark.parametrize(("body", "rows"), ROWS.values(), ids=ROWS)
def test_what_an_ask_takes_is_its_answer_and_its_samples(body, rows):
    assert plan(**body).num_rows == rows
