"""Units of an answer: read from texts, cut from statistics, and carried by the path of an ask."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.scoring.ask import Ask, GivenSample
from app.scoring.deployment import UNBOUNDED, AskLimits
from app.scoring.derive import Evidence, token_statistics
from app.scoring.questions import Subject
from app.scoring.scorer import Policy, Scorer
from app.scoring.units import TOKENS_UNKNOWN
from app.scoring.units import scored as scored_by
from models.errors import InvalidRequest
from models.records import GivenAnswer, Reasoning, SamplingParams
from models.similarity.pairs import PairTable, TextRules
from models.units.characters import token_spans
from models.units.parts import split
from models.units.steps import WorkBudget
from tests.fakes.pair_models import pairs_read
from tests.results import a_plan, generation, sequence
from tests.unit.app.scoring.test_scorer import num_calls, scoring

TEXTS = ('{"city":', ' "Li', 'ma", "km', '": 7}', "")
ANSWER = sequence(
    "".join(TEXTS), len(TEXTS), token_texts=TEXTS, token_logprobs=np.log([0.5, 0.25, 0.8, 0.1, 0.9])
)
TOOL = {"type": "function", "function": {"name": "weather"}}
SAMPLES = ('{"city": "Lima", "km": 7}', '{"city": "Cusco", "km": 7, "zip": 1}', "Lima")
NAMES = ("sp", "inconsistency", "cocoa_sp")

FIELDS = Ask(
    prompt="Which city?",
    answer=GivenAnswer(SAMPLES[0]),
    samples=tuple(map(GivenSample, SAMPLES)),
    units="fields",
)


def subject(answer=ANSWER, samples=SAMPLES, index=None):
    return Subject(answer, index, tuple(map(sequence, samples)))


def parts_of(given_subject, max_units=100):
    stated = split(given_subject.answer, "fields", max_units=max_units)
    beside = stated.fields_beside(given_subject.other_texts, max_units, WorkBudget())

    def parts(table):
        return beside(table.similarity_of_values())

    pairs = pairs_read(parts, ("similarity",), TextRules())
    return parts(PairTable(("similarity",), dict.fromkeys(pairs, (0.5,)), TextRules()))


def failed(name, error):
    raise AssertionError(f"{name}: {error!r}")


def scored(given_subject, parts, on_failure=failed, **absent):
    statistics = token_statistics(given_subject) | {"similarity": np.array([1.0, 0.2, 0.6])}
    plan = a_plan(
        statistics, ask=FIELDS, estimators=NAMES, unit_estimators=NAMES, unit_primary="cocoa_sp"
    )
    evidence = Evidence(given_subject, statistics, absent, truncated=False)
    return scored_by(plan, evidence, parts, on_failure).units


def test_without_texts_of_tokens_support_is_known_and_the_reason_for_the_rest():
    given_subject = subject(replace(ANSWER, token_texts=None))

    _, city, _ = scored(given_subject, parts_of(given_subject)).units

    assert city.scores == {"sp": None, "inconsistency": pytest.approx(0.5), "cocoa_sp": None}
    assert city.reasons["sp"] == TOKENS_UNKNOWN


def test_what_the_answer_lacks_is_left_out_of_its_parts():
    given_subject = subject(replace(ANSWER, token_logprobs=None))

    _, city, _ = scored(given_subject, parts_of(given_subject)).units

    assert city.scores.keys() == {"inconsistency", "cocoa_sp"}


def test_no_more_is_told_of_what_the_answer_lacks():
    many = json.dumps({f"k{i}": i for i in range(50)})

    parts = parts_of(subject(samples=(many,)), max_units=10)

    assert (len(parts.missing), parts.warnings) == (10, ("units_cut",))


def test_no_more_units_are_told_than_may_be():
    parts = parts_of(subject(), max_units=1)

    assert [unit.path for unit in parts.units] == ["/city"]
    assert parts.warnings == ("units_cut",)


def test_an_answer_without_fields_has_none_that_samples_could_be_compared_with():
    stated = split(replace(ANSWER, text="It is Lima."), "fields", tools=[TOOL])
    assert stated.units == stated.warnings == ()
    assert stated.fields_beside(SAMPLES, 100, WorkBudget()) is None


def test_tokens_behind_a_reasoning_lie_behind_what_its_last_token_left_over():
    answer = sequence('\n\n{"a": 1}', token_texts=('{"a"', ": 1}", ""))
    answer = replace(answer, reasoning=Reasoning("hm", 3, is_finished=True))

    spans = token_spans(answer)

    assert (spans.starts.tolist(), spans.ends.tolist()) == ([2, 6], [6, 10])


def test_a_blank_that_a_given_answer_was_read_with_stands_before_it():
    spans = token_spans(sequence('{"a": 1}', token_texts=(" ", "{", '"a"', ": 1}", "")))

    assert (spans.starts.tolist(), spans.ends.tolist()) == ([-1, 0, 1, 4], [0, 1, 4, 8])


def test_texts_of_another_answer_lie_nowhere():
    assert not len(token_spans(sequence("x" * 100, token_texts=("other",))).indices)


def test_tokens_that_are_bytes_of_one_character_lie_on_it():
    spans = token_spans(sequence("a東b", token_texts=("a", "", "", "東", "", "b")))

    assert spans.indices.tolist() == [0, 1, 2, 3, 5]
    assert spans.starts.tolist() == [0, 1, 1, 1, 2]


@given(
    texts=st.lists(st.text(max_size=4), max_size=12), leftover=st.sampled_from(["", "\n\n", " "])
)
def test_each_text_of_a_token_stands_where_its_span_says(texts, leftover):
    text = leftover + "".join(texts)

    spans = token_spans(sequence(text, token_texts=tuple(texts)))

    for index, start, end in zip(spans.indices, spans.starts, spans.ends, strict=True):
        if texts[index]:
            assert text[start:end] == texts[index]


# Through the path of an ask, over the fake models.


@pytest.mark.anyio
async def test_units_are_scored_and_asked_in_one_batch_with_the_rest():
    async with scoring() as scorer:
        batches = scorer.workers.similarity_scorers["fake"]._model.batches
        batches.clear()  # of the warm-up
        result = await scorer.run(FIELDS)

    answer, city, distance = result.units.units
    assert answer.scores == result.scores
    assert city.unit.path == "/city"
    assert city.scores.keys() == set(result.plan.unit_estimators)
    assert "rb_cocoa_sp" not in city.scores
    assert city.uncertainty == city.scores["cocoa_sp"] > distance.uncertainty > 0
    assert len(batches) == 1


@pytest.mark.anyio
async def test_an_unfinished_reasoning_has_no_parts():
    answer = replace(sequence(""), reasoning=Reasoning("hm", 3, is_finished=False))

    async def written(request, on_token=None):
        return generation(answer, SAMPLES)

    ask = Ask(prompt="?", sampling=SamplingParams(3), units="fields")
    async with scoring() as scorer:
        scorer.workers.generator.generate = written
        result = await scorer.run(ask)

    [answer] = result.units.units
    assert set(answer.scores.values()) == {None}
    assert "answer_not_json" not in result.warnings


async def refused(ask, limits=UNBOUNDED):
    async with scoring() as scorer:
        bounded = Scorer(scorer.workers, scorer.admission, policy=Policy(limits))
        calls = num_calls(scorer)
        with pytest.raises(InvalidRequest) as caught:
            await bounded.run(ask)
        assert num_calls(scorer) == calls
    return caught.value


@pytest.mark.anyio
async def test_too_many_pairs_of_fields_are_refused_before_any_work():
    error = await refused(FIELDS, AskLimits(max_pairs=1))

    assert error.field == "samples"
