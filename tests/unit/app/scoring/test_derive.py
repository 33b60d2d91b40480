"""From replies to statistics is pure: each planned statistic is there, or has its reason."""

from functools import partial

import pytest

from app.scoring.ask import Ask
from app.scoring.derive import derive, of_similarity
from app.scoring.questions import Subject
from models.similarity.pairs import PairTable, TextRules
from models.statistics import supplied_by
from tests.fakes.pair_models import pairs_read
from tests.results import a_plan, generation, sequence

RULES = TextRules()
ASK = Ask(prompt="Capital of France?")


def table(scores=None, labels=("similarity",), truncated=False):
    values = {pair: (value,) * len(labels) for pair, value in (scores or {}).items()}
    return PairTable(labels, values, RULES, truncated)


def subject(*samples, answer=" Paris"):
    written = generation(answer, samples)
    return Subject(written.answer, None, written.samples)


def derived(statistics, found, said, *, written=None, **plan):
    planned = a_plan(statistics, ask=ASK, **plan)
    return derive(planned, found, written, (), *said)


def test_relevance_reads_the_whole_with_the_whole_without_each_token_of_the_answer_and_samples():
    plan = a_plan({"token_relevance", "sample_token_relevance"}, ask=ASK)
    answer, sample = (sequence(f" so {city}", token_texts=(" so", f" {city}")) for city in "LM")
    work = partial(of_similarity, plan, Subject(answer, None, (sample,)), ["Where?", "Who?"])

    read = pairs_read(work, ("similarity",), RULES)
    assert [whole for whole, _ in read[::2]] == 2 * ["Where? so L"] + 2 * ["Who? so M"]
    assert [without for _, without in read[::2]] == ["Where? L", "Where? so", "Who? M", "Who? so"]
    assert [(b, a) for a, b in read[::2]] == read[1::2]


def test_similarity_has_one_value_for_each_other_sample_with_multiplicity():
    scores = {("Paris", "Rome"): 0.25, ("Rome", "Paris"): 0.75}
    said = (table(scores, truncated=True),)
    found = derived({"similarity"}, subject("Rome", "Paris", "Rome"), said)

    assert found.statistics["similarity"].tolist() == [0.5, 1.0, 0.5]
    assert found.truncated


def test_a_given_answer_says_why_it_has_no_light_score():
    found = derived((), subject(), (table(),), strategy="given")
    assert found.absent.keys() == supplied_by("probe")


def test_what_the_generator_was_asked_is_there_or_absent_with_its_reason():
    names = {"p_true_logprob", "closed_book_token_logprobs"}
    asked = {"p_true_logprob": -0.5, "closed_book_token_logprobs": "other tokens"}
    found = derived(names, subject(), (table(), None, asked))

    assert found.statistics["p_true_logprob"] == -0.5
    assert found.absent["closed_book_token_logprobs"] == "other tokens"


def test_a_planned_statistic_that_nobody_supplied_is_loud():
    without = subject(sequence("a", token_logprobs=None))
    said = (table(),)
    with pytest.raises(RuntimeError, match="forgotten: entailment, sample_token_logprobs"):
        derived({"sample_token_logprobs", "entailment"}, without, said)
