"""make_plan is pure: which work follows from which request, and what is refused before any."""

from dataclasses import replace

import pytest

from app.scoring.ask import Ask, GivenSample
from app.scoring.check import check
from app.scoring.defaults import DEFAULT_ESTIMATORS
from app.scoring.plan import generation_request
from app.scoring.planning import available_statistics, make_plan
from models.errors import ProbeMissing
from models.records import GenerationRequest, GivenAnswer, Grammar, SamplingParams
from models.statistics import supplied_by
from tests.results import a_deployment

ALL = supplied_by("answer", "samples")
LOGPROBS, ENTROPIES = "answer_token_logprobs", "answer_token_entropies"


def plan(supplied=ALL, **ask):
    """The plan of an ask, that a generator of these statistics carries out or refuses."""
    deployment = a_deployment(supplied)
    made = make_plan(Ask(**{"prompt": "a"} | ask), deployment)
    check(made, deployment)
    return made


# id: (body, statistics asked of the engine, whether similarity is wanted)
WORK = {
    "sp": ({"estimators": ("sp",)}, {LOGPROBS}, False),
    "ppl": ({"estimators": ("ppl",)}, {LOGPROBS}, False),
    "mte": ({"estimators": ("mte",)}, {ENTROPIES}, False),
    "mcse": ({"estimators": ("mcse",)}, {"sample_token_logprobs"}, False),
    "mcnse": ({"estimators": ("mcnse",)}, {"sample_token_logprobs"}, False),
    "inconsistency": ({"estimators": ("inconsistency",)}, {"sample_texts"}, True),
    "cocoa_sp": ({"estimators": ("cocoa_sp",)}, {LOGPROBS, "sample_texts"}, True),
    "cocoa_ppl": ({"estimators": ("cocoa_ppl",)}, {LOGPROBS, "sample_texts"}, True),
    "cocoa_mte": ({"estimators": ("cocoa_mte",)}, {ENTROPIES, "sample_texts"}, True),
    "the default": ({}, {LOGPROBS, ENTROPIES, "sample_texts", "sample_token_logprobs"}, True),
    "the primary beside the named": (
        {"estimators": ("sp",), "primary": "mte"},
        {LOGPROBS, ENTROPIES},
        False,
    ),
    "samples to return": (
        {"estimators": ("sp",), "return_samples": True},
        {LOGPROBS, "sample_texts", "sample_token_logprobs"},
        False,
    ),
}


@pytest.mark.parametrize(("body", "statistics", "wants_similarity"), WORK.values(), ids=list(WORK))
def test_only_the_statistics_that_are_read_are_asked_for(body, statistics, wants_similarity):
    planned = plan(**body)
    assert planned.generated == statistics
    assert ("similarity" in planned.statistics) == wants_similarity


# An answer that is a sample, and what reads others: the samples that are drawn.
DRAWN = {
    "nothing": ({"estimators": ("sp",)}, 0),
    "choices": ({"estimators": ("sp",), "num_shown": 3}, 2),
    "an estimator": ({"estimators": ("sp", "inconsistency")}, 10),
    "an estimator, beside choices": ({"estimators": ("inconsistency",), "num_shown": 3}, 10),
    "the default scores": ({}, 10),
    "the caller": ({"estimators": ("sp",), "return_samples": True}, 10),
    "groups by meaning": ({"estimators": ("sp",), "explain": True}, 10),
    "sentences": ({"estimators": ("sp",), "units": "sentences"}, 10),
}


@pytest.mark.parametrize(("body", "num"), DRAWN.values(), ids=list(DRAWN))
def test_a_drawn_answer_has_as_many_samples_as_are_read(body, num):
    planned = plan(sampling=SamplingParams(answer_temperature=0.2), **body)
    assert planned.request.num_samples == num


@pytest.mark.parametrize("drawn_at", [0.0, 0.2])
def test_of_a_drawn_answer_is_known_what_is_of_samples(drawn_at):
    deployment = a_deployment(ALL - {"sample_token_logprobs"})
    absent = {"sample_token_logprobs": "scaled"}
    generator = replace(deployment.models.generator, absent=absent)
    deployment = replace(deployment, models=replace(deployment.models, generator=generator))
    ask = Ask(prompt="a", sampling=SamplingParams(answer_temperature=drawn_at))
    made = make_plan(ask, deployment)
    assert (LOGPROBS in made.available) == (drawn_at == 0.0)
    assert made.absent.get(LOGPROBS) == ("scaled" if drawn_at else None)
    assert (made.primary == "inconsistency") == (drawn_at > 0.0)


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
        limits_samples=True,
    )
    assert generation_request(Ask(prompt="a"), wanted).prompt == "a"


@pytest.mark.parametrize(
    ("ask", "limits_samples"),
    [
        (Ask(prompt="a"), True),
        (Ask(prompt="a", sampling=SamplingParams(answer_temperature=0.2)), True),
        (Ask(prompt="a", answer=GivenAnswer("b")), True),
        (Ask(prompt="a", strategy="mbr"), False),
        (Ask(prompt="a", strategy="most_probable"), False),
    ],
    ids=lambda value: getattr(value, "strategy", value),
)
def test_samples_that_may_become_the_answer_are_whole(ask, limits_samples):
    assert generation_request(ask, frozenset({LOGPROBS})).limits_samples == limits_samples


# id: (ask, what is available of a generator that supplies everything)
EVERYTHING = supplied_by("answer", "samples", "probe", "question")
BESIDE = (EVERYTHING | supplied_by("similarity", "texts")) - {"closed_book_token_logprobs"}
LIMA = {"documents": ({"doc_id": "0", "title": "", "text": "Lima"},)}
TEXTUAL = {"sample_texts", "similarity", "similarity_matrix", "exact_match"}
AVAILABLE = {
    "a prompt": (Ask(prompt="a"), BESIDE),
    "messages": (Ask(messages=()), BESIDE),
    "documents": (Ask(messages=(), **LIMA), BESIDE | {"closed_book_token_logprobs", "grounded"}),
    "documents alone": (
        Ask(prompt="a", answer=GivenAnswer("b"), by_rules=True, **LIMA),
        {"grounded"},
    ),
    "documents beside a format": (
        Ask(messages=(), grammar=Grammar("json_schema", "{}"), **LIMA),
        BESIDE | {"grounded"},
    ),
    "documents beside log-probs of another model": (
        Ask(prompt="a", answer=GivenAnswer("b"), answer_token_logprobs=(-1.0,), **LIMA),
        (BESIDE | {"grounded"}) - supplied_by("probe") - supplied_by("answer") - {"token_relevance"}
        | {LOGPROBS},
    ),
    "a given answer has no light score": (
        Ask(prompt="a", answer=GivenAnswer("b")),
        BESIDE - supplied_by("probe"),
    ),
    "texts alone": (Ask(answer=GivenAnswer("b"), samples=(GivenSample("c"),)), TEXTUAL),
    "texts with log-probs": (
        Ask(answer=GivenAnswer("b"), samples=(GivenSample("c", (-1.0,)),)),
        TEXTUAL | {"sample_token_logprobs"},
    ),
    "log-probs of some": (
        Ask(answer=GivenAnswer("b"), samples=(GivenSample("c", (-1.0,)), GivenSample("d"))),
        TEXTUAL,
    ),
}


@pytest.mark.parametrize(("ask", "expected"), AVAILABLE.values(), ids=list(AVAILABLE))
def test_what_can_be_known_follows_from_what_is_asked_and_brought(ask, expected):
    assert available_statistics(ask, a_deployment(EVERYTHING)) == expected


def test_without_any_probe_sentences_have_the_probability_of_their_tokens():
    supplied = ALL | {"answer_token_texts"}
    planned = plan(supplied, light=True, units="sentences")
    assert (planned.primary, planned.unit_primary) == ("sp", "sp")
    assert planned.unit_estimators == ("sp", "ppl", "mte")
    for named in ({"estimators": ("cocoa_sp_light",)}, {"primary": "inconsistency_light"}):
        with pytest.raises(ProbeMissing):
            plan(supplied, light=True, units="sentences", **named)


def test_a_sampled_answer_takes_its_statistics_from_the_samples():
    planned = plan(strategy="most_probable", estimators=("sp", "mte"))
    assert planned.generated == {"sample_texts", "sample_token_logprobs", "sample_token_entropies"}


# id: (an ask, what it takes of the models)
ROWS = {
    "ten samples": ({}, 11),
    "no samples": ({"estimators": ("sp",)}, 1),
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


NAMED = ("cocoa_sp", "rb_cocoa_sp", "sp", "inconsistency", "mte")


@pytest.mark.parametrize(
    ("ask", "available", "primary"),
    [
        ({}, ALL, "cocoa_sp"),
        ({"primary": "mte"}, ALL, "mte"),
        ({"primary": "rb_cocoa_sp"}, ALL, "cocoa_sp"),
        ({"answer": GivenAnswer("1")}, frozenset({"sample_texts", "similarity"}), "inconsistency"),
    ],
    ids=["cocoa_sp", "the named one", "a named one of the answer alone", "without log-probs"],
)
def test_parts_are_scored_by_what_is_defined_for_them(ask, available, primary):
    made = plan(available, estimators=NAMED, units="fields", **ask)

    assert made.unit_estimators == ("cocoa_sp", "sp", "inconsistency", "mte")
    assert made.unit_primary == primary
