"""When an adaptive request has drawn enough samples."""

import math

import numpy as np
import pytest

from models.records import GenerationRequest, SamplingParams, Sequence
from models.waves import draw_samples, num_further, num_taken, wave_end
from tests.results import generation

STATISTICS = frozenset({"answer_token_logprobs", "sample_texts", "sample_token_logprobs"})


def sequence(text, probability=None):
    logprobs = None if probability is None else np.array([math.log(probability)])
    return Sequence(text, text.strip(), 1, "stop", token_logprobs=logprobs)


def asked(most=10, stop_mass=0.7, statistics=STATISTICS):
    sampling = SamplingParams(num_samples=most, stop_mass=stop_mass)
    return GenerationRequest("Hi", sampling=sampling, statistics=statistics)


def drawn(request, answer, texts):
    """Texts of the samples that a request draws where these come one after another."""
    return [one.text for one in draw_samples(request, answer, lambda i: texts[i])]


def test_waves_have_two_three_and_then_five_samples():
    ends, end = [], 0
    while end < 64:
        end = wave_end(end, most=64)
        ends.append(end)
    assert ends[:6] == [2, 5, 10, 15, 20, 25]
    assert ends[-2:] == [60, 64]


@pytest.mark.parametrize("most", [1, 2, 3, 4])
def test_no_wave_goes_beyond_the_most(most):
    texts = [sequence(f"text {i}", 1e-6) for i in range(most)]
    assert len(draw_samples(asked(most), sequence("other", 1e-6), lambda i: texts[i])) == most


def test_all_come_at_once_without_a_mass_to_stop_at():
    assert num_further(asked(10, stop_mass=None), None, ()) == 10


def test_no_samples_are_drawn_where_none_are_wanted():
    request = asked(statistics=frozenset({"answer_token_logprobs"}))
    assert draw_samples(request, sequence("Paris", 0.1), lambda i: pytest.fail("drawn")) == ()


@pytest.mark.parametrize(
    ("answer", "num_samples"), [(0.7, 2), (0.6, 5), (0.45, 10)], ids=["at once", "later", "never"]
)
def test_the_mass_of_the_answer_and_the_distinct_samples_counts(answer, num_samples):
    samples = [sequence("Paris", answer), *[sequence(" Rome", 0.05)] * 3]
    samples += [sequence("Bonn", 0.05), *[sequence("Rome", 0.05)] * 5]
    whole = generation(answer=sequence("Paris", answer), samples=tuple(samples))

    assert num_taken(asked(), whole) == num_samples


def test_samples_that_agree_on_an_improbable_text_are_no_reason_to_stop():
    samples = [sequence("Rome", 0.05)] * 10
    assert len(drawn(asked(), sequence("Rome", 0.05), samples)) == 10


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
