"""Entries: everything that a response needs comes back exactly, and what is no entry is refused."""

import copy
from dataclasses import replace

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.http.json_calls import json_of
from app.http.responses import to_response
from app.http.schemas import GenerateResponse
from app.scoring.ask import Ask, GivenSample
from app.scoring.derive import Evidence, token_statistics
from app.scoring.entries import decode, encode
from app.scoring.questions import Subject, subject_of
from models.estimators import ESTIMATORS, score
from models.records import GivenAnswer, ProbeReading, SamplingParams
from models.statistics import STATISTICS
from models.warnings import Warned
from tests.corrupt_entries import KINDS, at
from tests.results import a_plan, a_result, generation, sequence
from tests.same import assert_same

ASK = Ask(prompt="Capital of France?", sampling=SamplingParams(num_samples=2))
TOKENS = {"token_texts": (" Pa", "ris"), "token_entropies": np.array([0.5, 1 / 3])}
GENERATION = generation(
    sequence(" Paris", **TOKENS),
    (sequence(" Rome", **TOKENS), sequence("\x00", **TOKENS)),
    seed=2**53 - 1,
    queue_s=0.5,
    generate_s=1.5,
    warnings=(Warned.ONE_TOKEN_ANSWER,),
    probe_readings={
        "predicted_dissimilarity": ProbeReading(0.25, 99.5, True),
        "sentence_dissimilarity": ProbeReading(0.5, 50.0, False),
    },
    sentence_readings=(((1, 6), ProbeReading(0.5, 50.0, False)),),
)
SUBJECT = Subject(GENERATION.answer, None, GENERATION.samples)
DERIVED = {
    "exact_match": np.array([0.0, 0.0]),
    "similarity": np.array([0.1, 1 / 3]),
    "similarity_matrix": np.eye(2),
    "entailment": np.eye(2),
    "contradiction": np.zeros((2, 2)),
    "answer_entailment": np.array([0.1, 1 / 3]),
    "answer_contradiction": np.array([0.1, 1 / 3]),
    "token_relevance": np.array([0.5, 0.25]),
    "sample_token_relevance": [np.array([0.5, 0.25]), np.array([1.0, 0.0])],
    "p_true_logprob": -0.7,
    "predicted_dissimilarity": 0.25,
    "sentence_dissimilarity": 0.5,
}
EVIDENCE = Evidence(SUBJECT, token_statistics(SUBJECT) | DERIVED, {}, True)
PLAN = a_plan(EVIDENCE.statistics, ask=ASK)
COMPUTED = replace(EVIDENCE, generation=GENERATION, similarity_s=2.0)
NO_ENTRY = (ValueError, TypeError, LookupError, AttributeError)


def test_every_field_comes_back_but_times():
    back = decode(encode(COMPUTED), PLAN)

    timeless = replace(GENERATION, queue_s=0.0, generate_s=0.0)
    assert_same(back, replace(EVIDENCE, generation=timeless, payload=encode(COMPUTED)))


def test_what_an_ask_brings_is_not_stored_and_comes_back_with_the_ask():
    brought = (GivenSample("zanzibar", (-0.5,)), GivenSample("Rome"))
    ask = Ask(answer=GivenAnswer("Paris"), samples=brought)
    subject = subject_of(ask, None)
    known = token_statistics(subject) | {"similarity": np.array([0.5, 0.25])}
    evidence = Evidence(subject, known, {}, False)
    entry = encode(evidence)

    assert b"zanzibar" not in entry
    back = decode(entry, a_plan({"similarity"}, strategy="given", ask=ask))
    assert_same(back, replace(evidence, payload=entry))
    with pytest.raises(NO_ENTRY):
        decode(encode(COMPUTED), a_plan({"similarity"}, strategy="given", ask=ask))


def test_an_entry_serves_whoever_wants_no_more_returned_than_it_holds():
    entry = encode(COMPUTED)
    less = replace(PLAN, statistics=PLAN.statistics - {"similarity"})
    missing = frozenset({"sample_token_texts"})
    without_texts = replace(GENERATION, samples=(sequence(" Rome"), sequence("\x00")))
    subject = Subject(GENERATION.answer, None, without_texts.samples)
    statistics = token_statistics(subject) | DERIVED
    poorer = encode(Evidence(subject, statistics, {}, True, without_texts))
    wanted = replace(PLAN, statistics=PLAN.statistics - {"sample_token_entropies"})

    assert decode(entry, less) is not None
    assert decode(poorer, replace(wanted, read=wanted.read - missing)) is None
    with pytest.raises(NO_ENTRY):
        decode(poorer, wanted)


def drawing(sampling):
    """The plan of an ask with this sampling."""
    return replace(PLAN, ask=replace(ASK, sampling=sampling))


SHORTER = drawing(SamplingParams(num_samples=1))


def test_a_longer_draw_serves_a_shorter_one_in_every_statistic():
    entry = encode(replace(COMPUTED, truncated=False))
    back = decode(entry, SHORTER)

    first = replace(GENERATION, samples=GENERATION.samples[:1], queue_s=0.0, generate_s=0.0)
    subject = Subject(GENERATION.answer, None, first.samples)
    statistics = token_statistics(subject)
    for name, value in DERIVED.items():
        sliced = {("M",): np.s_[:1], ("M", "M"): np.s_[:1, :1], ("M", "T_m"): np.s_[:1]}
        cut = sliced.get(STATISTICS[name].shape)
        statistics[name] = value if cut is None else value[cut]
    assert_same(back, Evidence(subject, statistics, {}, False, first, payload=entry))


def test_too_few_samples_and_cut_pairs_serve_no_other_number():
    assert decode(encode(COMPUTED), PLAN) is not None
    assert decode(encode(COMPUTED), SHORTER) is None, "whose pair was cut?"
    assert decode(encode(COMPUTED), drawing(SamplingParams(3))) is None


def changed(change):
    return orjson.dumps(change(orjson.loads(encode(COMPUTED))))


CORRUPT = {kind: changed(change) for kind, change in KINDS.items()} | {
    "empty": b"",
    "no JSON": b"\xff\x00",
    "half of it": encode(COMPUTED)[:-20],
    "too deep for JSON": b"[" * 100_000,
    "a number beyond floats": encode(COMPUTED).replace(b"[0.1,", b"[1e999,"),
}


@pytest.mark.parametrize("entry", CORRUPT.values(), ids=list(CORRUPT))
def test_what_is_no_entry_is_refused(entry):
    with pytest.raises(NO_ENTRY):
        decode(entry, PLAN)


@pytest.mark.parametrize("index", [None, 2, -1, True, 0.0, "0"])
def test_a_sampled_answer_is_one_of_the_samples(index):
    subject = Subject(GENERATION.samples[0], 0, GENERATION.samples)
    known = token_statistics(subject) | DERIVED | {"similarity": np.array([0.5])}
    plan = replace(PLAN, strategy="mbr")
    entry = encode(Evidence(subject, known, {}, False, GENERATION))
    other = orjson.dumps(at("answer_sample", value=index)(orjson.loads(entry)))

    assert decode(entry, plan).subject.answer_sample == 0
    with pytest.raises(NO_ENTRY):
        decode(other, plan)


def places(value, path=()):
    """Every path in an entry's JSON."""
    yield path
    if isinstance(value, (dict, list)):
        names = value if isinstance(value, dict) else range(len(value))
        for name in names:
            yield from places(value[name], (*path, name))


VALUES = orjson.loads(encode(COMPUTED))
PLACES = list(places(VALUES))[1:]
SCALARS = st.none() | st.booleans() | st.integers(-3, 2**64) | st.floats() | st.text()
# What may well stand in some places.
SENSIBLE = st.floats(0, 1) | st.floats(-1e30, 0) | st.sampled_from(["length", "given", [], {}, 2])
JUNK = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=5
)


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(PLACES), SENSIBLE | JUNK), min_size=1, max_size=3))
def test_what_is_taken_for_an_entry_is_always_scored_and_answered(changes):
    values = copy.deepcopy(VALUES)
    for place, junk in changes:
        try:
            values = at(*place, value=junk)(values)
        except (LookupError, TypeError):  # an earlier change has removed the place
            continue
    try:
        evidence = decode(orjson.dumps(values), PLAN)
    except NO_ENTRY:
        return
    scores, reasons = score(ESTIMATORS, evidence.statistics, evidence.absent)
    ask = replace(ASK, return_samples=True, return_tokens=True)
    plan = replace(PLAN, estimators=tuple(ESTIMATORS))
    result = a_result(ask=ask, plan=plan, scores=scores, reasons=reasons, evidence=evidence)
    response = json_of(to_response(result, "an id"))
    assert GenerateResponse.model_validate_json(response).scores == scores
