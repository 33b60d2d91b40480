"""Running sums of an answer, which survive preemption, reuse and crowds."""

import math

import pytest
import torch
from cocoa_vllm.probe import Sums

L, D = 2, 3


@pytest.fixture
def sums():
    return Sums(L, D, torch.device("cpu"))


def add(sums, request, step, value, *, logprob=-1.0, entropy=2.0):
    """One token of one request whose states are all `value`."""
    states = torch.full((1, L, D), float(value))
    return sums.add([request], [step], states, torch.tensor([logprob]), torch.tensor([entropy]))


def mean_of(answers):
    assert answers.means.shape == (1, L, D)
    assert (answers.means == answers.means[0, 0, 0]).all()
    return answers.means[0, 0, 0].item()


def test_one_token_has_the_prompts_last_state_and_later_ones_do_without_it(sums):
    assert mean_of(add(sums, "a", 0, 100)) == 100
    assert mean_of(add(sums, "a", 1, 1)) == 1
    assert mean_of(add(sums, "a", 2, 3)) == 2
    assert mean_of(add(sums, "a", 3, 5)) == 3


def test_token_statistics_count_every_token(sums):
    add(sums, "a", 0, 0, logprob=-1.0, entropy=4.0)
    answers = add(sums, "a", 1, 0, logprob=-0.5, entropy=1.0)
    assert (answers.sp.item(), answers.mte.item(), answers.length.item()) == (1.5, 2.5, 2.0)


def test_requests_of_one_step_are_kept_apart(sums):
    states = torch.arange(2.0)[:, None, None].expand(2, L, D)
    for step in range(3):
        answers = sums.add(["a", "b"], [step] * 2, states, -torch.arange(2.0), torch.arange(2.0))
    assert answers.means[:, 0, 0].tolist() == [0.0, 1.0]
    assert answers.sp.tolist() == [0.0, 3.0]


def test_a_request_that_is_computed_anew_goes_on_where_it_was(sums):
    add(sums, "a", 0, 9)
    add(sums, "a", 1, 1)
    add(sums, "b", 0, 7)  # runs while "a" waits
    assert mean_of(add(sums, "a", 2, 3)) == 2


def test_a_token_missed_or_drawn_twice_is_noticed_for_good(sums):
    add(sums, "a", 0, 1)
    assert math.isnan(add(sums, "a", 2, 1).sp.item())
    assert math.isnan(add(sums, "a", 3, 1).sp.item())
    add(sums, "b", 0, 1)
    add(sums, "b", 1, 1)
    assert math.isnan(add(sums, "b", 1, 1).sp.item())
    assert math.isnan(add(sums, "never seen", 4, 1).sp.item())


def test_a_request_that_begins_again_begins_anew(sums):
    add(sums, "a", 0, 1)
    add(sums, "a", 1, 1)
    answers = add(sums, "a", 0, 5)
    assert mean_of(answers) == 5
    assert (answers.sp.item(), answers.length.item()) == (1.0, 1.0)


def test_what_a_place_held_before_does_not_show(sums):
    for request in map(str, range(100)):
        add(sums, request, 0, math.inf, logprob=-math.inf, entropy=math.nan)
        sums.forget([request, "unknown"])
    answers = add(sums, "new", 0, 4)
    assert mean_of(answers) == 4
    assert (answers.sp.item(), answers.mte.item()) == (1.0, 2.0)
    assert len(sums.kept) == 1


def test_there_is_room_for_every_request_that_waits(sums):
    for step in range(3):
        for request in range(500):
            answers = add(sums, str(request), step, request)
    assert mean_of(answers) == 499
    assert mean_of(add(sums, "0", 3, 3)) == 1
    assert len(sums.kept) == 500
    sums.forget(map(str, range(500)))
    assert len(sums.kept) == 0
