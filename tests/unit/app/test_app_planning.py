"""make_plan is pure: which work follows from which request, and what is refused before any."""

import pytest

from app.planning import generation_request, make_plan, missing_statistics
from app.schemas import DEFAULT_ESTIMATORS, GenerateRequest
from models.errors import InvalidRequest, StatisticUnavailable
from models.records import ANSWER_STATISTICS, SAMPLE_STATISTICS, GenerationRequest, SamplingParams

ALL = ANSWER_STATISTICS | SAMPLE_STATISTICS | {"similarity"}
LOGPROBS, ENTROPIES = "answer_token_logprobs", "answer_token_entropies"


def plan(available=ALL, **body):
    return make_plan(GenerateRequest(**({"prompt": "a"} | body)), frozenset(available))


# id: (body, statistics asked of the engine, whether similarity is wanted)
WORK = {
    "sp": ({"estimators": ["sp"]}, {LOGPROBS}, False),
    "ppl": ({"estimators": ["ppl"]}, {LOGPROBS}, False),
    "mte": ({"estimators": ["mte"]}, {ENTROPIES}, False),
    "mcse": ({"estimators": ["mcse"]}, {"sample_token_logprobs"}, False),
    "mcnse": ({"estimators": ["mcnse"]}, {"sample_token_logprobs"}, False),
    "consistency": ({"estimators": ["consistency"]}, {"sample_texts"}, True),
    "cocoa_sp": ({"estimators": ["cocoa_sp"]}, {LOGPROBS, "sample_texts"}, True),
    "cocoa_ppl": ({"estimators": ["cocoa_ppl"]}, {LOGPROBS, "sample_texts"}, True),
    "cocoa_mte": ({"estimators": ["cocoa_mte"]}, {ENTROPIES, "sample_texts"}, True),
    "the default": ({}, {LOGPROBS, ENTROPIES, "sample_texts"}, True),
    "the primary beside the named": (
        {"estimators": ["sp"], "estimator": "mte"},
        {LOGPROBS, ENTROPIES},
        False,
    ),
    "samples to return": (
        {"estimators": ["sp"], "return_samples": True},
        {LOGPROBS, "sample_texts", "sample_token_logprobs"},
        False,
    ),
}


@pytest.mark.parametrize(("body", "statistics", "wants_similarity"), WORK.values(), ids=list(WORK))
def test_only_the_statistics_that_are_read_are_asked_for(body, statistics, wants_similarity):
    planned = plan(**body)
    assert planned.engine_statistics == statistics
    assert ("similarity" in planned.statistics) == wants_similarity


def test_tokens_to_return_ask_for_everything_that_is_known_of_the_answer():
    assert plan(estimators=["sp"], return_tokens=True).engine_statistics == ANSWER_STATISTICS


def test_what_a_deployment_cannot_supply_is_not_asked_for():
    planned = plan(ALL - {ENTROPIES}, return_tokens=True, return_samples=True)
    assert ENTROPIES not in planned.engine_statistics
    assert planned.engine_statistics >= {LOGPROBS, "sample_texts", "sample_token_logprobs"}
    assert planned.estimators == tuple(DEFAULT_ESTIMATORS)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"estimators": ["sp", "mte"]}, "estimators"),
        ({"estimator": "cocoa_mte"}, "estimator"),
        ({"estimators": ["sp"], "estimator": "mte"}, "estimator"),
        ({"estimators": ["mte"], "estimator": "mte"}, "estimators"),
    ],
    ids=["named", "primary", "primary beside the named", "both"],
)
def test_a_named_estimator_without_its_statistic_is_refused_with_its_name(body, field):
    with pytest.raises(StatisticUnavailable, match=f"reads {ENTROPIES}") as caught:
        plan(ALL - {ENTROPIES}, **body)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("body", "names", "primary"),
    [
        ({}, DEFAULT_ESTIMATORS, "cocoa_ppl"),
        ({"estimators": ["mte", "sp"]}, ["mte", "sp"], "mte"),
        ({"estimators": ["sp", "cocoa_ppl"]}, ["sp", "cocoa_ppl"], "cocoa_ppl"),
        ({"estimators": ["sp", "mte", "sp"]}, ["sp", "mte"], "sp"),
        ({"estimators": ["sp"], "estimator": "ppl"}, ["sp", "ppl"], "ppl"),
        ({"estimator": "sp"}, DEFAULT_ESTIMATORS, "sp"),
    ],
    ids=["default", "the first", "cocoa_ppl", "repeated", "added", "among the default"],
)
def test_the_primary_is_as_asked_or_cocoa_ppl_or_the_first(body, names, primary):
    planned = plan(**body)
    assert planned.estimators == tuple(names)
    assert planned.primary == primary


@pytest.mark.parametrize(
    ("field", "refused", "accepted"),
    [("temperature", 0.049, 0.05), ("top_k", 1, 2), ("top_p", 0.049, 0.05)],
)
def test_sampling_that_repeats_the_answer_is_refused_only_where_an_estimator_reads_samples(
    field, refused, accepted
):
    with pytest.raises(InvalidRequest, match="at least") as caught:
        plan(**{field: refused})
    assert caught.value.field == field
    assert plan(**{field: accepted})
    assert plan(estimators=["sp"], **{field: refused})


def test_everything_of_the_request_that_the_engine_heeds_reaches_it():
    body = {
        "num_samples": 3,
        "max_new_tokens": 5,
        "temperature": 0.5,
        "top_k": 7,
        "top_p": 0.9,
        "stop": ["\n", "Q:"],
        "seed": 11,
    }
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    request = GenerateRequest(messages=messages, chat_template_kwargs={"thinking": False}, **body)
    assert generation_request(request, frozenset({LOGPROBS}), (1, 2)) == GenerationRequest(
        prompt=None,
        messages=tuple(messages),
        chat_template_kwargs={"thinking": False},
        sampling=SamplingParams(**body | {"stop": ("\n", "Q:")}),
        statistics=frozenset({LOGPROBS}),
        answer_ids=(1, 2),
    )
    raw = generation_request(GenerateRequest(prompt="a"), frozenset())
    assert (raw.prompt, raw.messages) == ("a", None)


@pytest.mark.parametrize(
    ("name", "available", "missing"),
    [
        ("cocoa_mte", ALL, []),
        ("cocoa_mte", ALL - {ENTROPIES}, [ENTROPIES]),
        ("cocoa_mte", frozenset(), [ENTROPIES, "similarity"]),
    ],
    ids=["none", "one", "all"],
)
def test_missing_statistics_are_named_in_order(name, available, missing):
    assert missing_statistics(name, available) == missing
