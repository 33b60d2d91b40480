"""Entries: everything that a response needs comes back exactly, and what is no entry is a miss."""

from dataclasses import fields, replace

import numpy as np
import orjson
import pytest

from app.scoring.ask import Ask, GivenSample
from app.scoring.entries import decode, encode
from app.scoring.evidence import Evidence, Subject, subject_of, token_statistics
from app.scoring.result import Computed
from models.records import GivenAnswer, ProbeReading
from tests.results import a_plan, generation, sequence

ASK = Ask(prompt="Capital of France?")
SAMPLES = (sequence(" Rome"), sequence("\x00", token_logprobs=None))
GENERATION = generation(
    " Paris",
    SAMPLES,
    seed=2**53 - 1,
    queue_s=0.5,
    generate_s=1.5,
    warnings=("reasoning_excluded",),
    probe_readings={"predicted_dissimilarity": ProbeReading(0.25, 99.5, True)},
)
SUBJECT = Subject(GENERATION.samples[0], 0, GENERATION.samples)
DERIVED = {
    "similarity": np.array([0.1, 1 / 3]),
    "similarity_matrix": np.eye(2),
    "sample_token_relevance": [np.array([0.5]), np.array([])],
    "p_true_logprob": -0.7,
    "predicted_dissimilarity": 0.25,
}
EVIDENCE = Evidence(
    SUBJECT, token_statistics(SUBJECT) | DERIVED, {"p_true_logprob": "too long"}, True
)
PLAN = a_plan({"similarity", "answer_token_logprobs"}, strategy="mbr")
COMPUTED = Computed(GENERATION, EVIDENCE, similarity_s=2.0)


def assert_same(one, other):
    if isinstance(one, np.ndarray):
        np.testing.assert_array_equal(one, other)
        assert one.shape == other.shape
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            assert_same(a, b)
    elif isinstance(one, dict):
        assert one.keys() == other.keys()
        for name in one:
            assert_same(one[name], other[name])
    elif hasattr(one, "__dataclass_fields__"):
        for field in fields(one):
            assert_same(getattr(one, field.name), getattr(other, field.name))
    else:
        assert one == other


def test_every_field_comes_back_but_times():
    back = decode(encode(COMPUTED, PLAN), PLAN, ASK)

    timeless = replace(GENERATION, queue_s=0.0, generate_s=0.0)
    assert_same(back, Computed(timeless, EVIDENCE, 0.0))


def test_what_an_ask_brings_is_not_stored_and_comes_back_with_the_ask():
    brought = (GivenSample("zanzibar", (-0.5,)), GivenSample("Rome"))
    ask = Ask(answer=GivenAnswer("Paris"), samples=brought)
    subject = subject_of(ask, None)
    known = token_statistics(subject) | {"similarity": np.array([0.5, 0.25])}
    computed = Computed(None, Evidence(subject, known, {}, False))
    entry = encode(computed, PLAN)

    assert b"zanzibar" not in entry
    assert_same(decode(entry, replace(PLAN, statistics=frozenset({"similarity"})), ask), computed)


def test_an_entry_serves_whoever_wants_no_more_than_it_holds():
    entry = encode(COMPUTED, PLAN)
    less = replace(PLAN, statistics=frozenset({"similarity"}))
    more = replace(PLAN, statistics=PLAN.statistics | {"answer_token_entropies"})

    assert decode(entry, less, ASK) is not None
    assert decode(entry, more, ASK) is None


def broken(change):
    values = orjson.loads(encode(COMPUTED, PLAN))
    change(values)
    return orjson.dumps(values)


BROKEN = {
    "empty": b"",
    "no JSON": b"\xff\x00",
    "no object": b"[]",
    "null": b"null",
    "half of it": encode(COMPUTED, PLAN)[:-20],
    "another format": broken(lambda values: values.update(format=0)),
    "a field is missing": broken(lambda values: values.pop("generation")),
    "a sample lacks a field": broken(lambda values: values["generation"]["samples"][0].pop("text")),
    "no such sample": broken(lambda values: values.update(answer_sample=9)),
    "a statistic that is none": broken(lambda values: values["derived"].update(secret=[1.0])),
    "an array of words": broken(lambda values: values["derived"].update(similarity=["a"])),
}


@pytest.mark.parametrize("entry", BROKEN.values(), ids=list(BROKEN))
def test_what_is_no_entry_is_a_miss(entry):
    assert decode(entry, PLAN, ASK) is None
