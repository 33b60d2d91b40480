"""When an adaptive request has drawn enough samples."""

import math
from dataclasses import replace

import numpy as np
import pytest

from models.records import GenerationRequest, Reasoning, SamplingParams, Sequence
from models.waves import ends_by_agreement, num_taken
from tests.drawing import draw_samples
from tests.results import generation

STATISTICS = frozenset({"answer_token_logprobs", "sample_texts", "sample_token_logprobs"})


def sequence(text, probability=None):
    logprobs = None if probability is None else np.array([math.log(probability)])
    return Sequence(text, text.strip(), 1, "stop", token_logprobs=logprobs)


def reasoned(text, probability=0.1):
    return replace(sequence(text, probability), reasoning=Reasoning("hm", 3, True))


def asked(most=10, stop_mass=0.7, statistics=STATISTICS, num_drawn=0):
    sampling = SamplingParams(num_samples=most, stop_mass=stop_mass)
    return GenerationRequest("Hi", sampling=sampling, statistics=statistics, num_drawn=num_drawn)


def drawn(request, answer, texts):
    """Texts of the samples that a request draws where these come one after another."""
    return [one.text for one in draw_samples(request, answer, lambda i: texts[i])]


@pytest.mark.parametrize(
    ("answer", "num_samples"), [(0.7, 2), (0.6, 5), (0.45, 10)], ids=["at once", "later", "never"]
)
def test_the_mass_of_the_answer_and_the_distinct_samples_counts(answer, num_samples):
    samples = [sequence("Paris", answer), *[sequence(" Rome", 0.05)] * 3]
    samples += [sequence("Bonn", 0.05), *[sequence("Rome", 0.05)] * 5]
    whole = generation(answer=sequence("Paris", answer), samples=tuple(samples))

    assert num_taken(asked(), whole) == num_samples


def test_without_the_answers_log_probs_the_samples_alone_count():
    samples = [sequence("Rome", 0.3), sequence("Bonn", 0.3), *[sequence("Paris", 0.4)] * 8]
    assert len(drawn(asked(), sequence("Paris"), samples)) == 5
    assert len(drawn(asked(), sequence("Paris", 0.4), samples)) == 2


def test_all_are_drawn_where_the_mass_cannot_be_known():
    unknown = [sequence("Rome")] * 10
    assert len(drawn(asked(), sequence("Rome", 0.9), unknown)) == 10

    empty = Sequence("", "", 0, "given", token_logprobs=np.array([]))
    assert len(drawn(asked(), empty, [sequence("Rome", 0.9)] * 10)) == 10


def test_a_draw_that_is_too_short_serves_nobody_who_wants_more():
    samples = (sequence("Rome", 0.1), sequence("Bonn", 0.1))
    short = generation(answer=sequence("Paris", 0.3), samples=samples)

    assert num_taken(asked(), short) is None
    assert num_taken(asked(most=2), short) == 2
    assert num_taken(asked(most=1, stop_mass=None), short) == 1
    assert num_taken(asked(stop_mass=0.4), short) == 2


@pytest.mark.parametrize(("num_drawn", "texts"), [(2, "cde"), (5, "fghij"), (10, "kl"), (12, "")])
def test_a_wave_behind_others_ends_with_itself(num_drawn, texts):
    samples = [sequence(text, 0.9) for text in "abcdefghijkl"]
    request = asked(most=12, num_drawn=num_drawn)
    assert drawn(request, sequence("", 0.9), samples) == list(texts)


def test_only_what_counts_makes_the_waves_end_by_agreement():
    plain, thought = sequence("Paris", 0.1), reasoned("Paris")
    without = asked(statistics=frozenset({"sample_texts", "sample_token_logprobs"}))

    assert ends_by_agreement(asked(), thought, [plain])
    assert ends_by_agreement(asked(), plain, [plain, thought])
    assert not ends_by_agreement(asked(), plain, [plain])
    assert not ends_by_agreement(without, thought, [plain]), "a sample becomes the answer"
    assert not ends_by_agreement(asked(stop_mass=None), thought, [thought])


@pytest.mark.parametrize(
    ("agreeing", "num_samples"), [(10, 2), (1, 10), (0, 10)], ids=["all", "one", "none"]
)
def test_waves_behind_a_reasoning_are_retraced_by_who_agrees(agreeing, num_samples):
    whole = generation(reasoned("Paris"), tuple(reasoned(f"{i}") for i in range(10)))
    assert num_taken(asked(), whole, lambda end: end <= agreeing) == num_samples
    assert num_taken(asked(most=5), whole, lambda end: end <= agreeing) == min(5, num_samples)
    assert num_taken(asked(), whole) == 2, "as far as a generator goes"
    few = replace(whole, samples=whole.samples[:4])
    assert num_taken(asked(), few, lambda end: end <= agreeing) == (2 if agreeing > 2 else None)
