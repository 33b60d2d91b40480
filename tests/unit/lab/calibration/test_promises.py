"""What a promise is worth over many calibrations, on answers whose law is known."""

import numpy as np
import pytest

from cocoa_lab.calibration.promises import promise, shifts

RNG = np.random.default_rng(0)
N = 2000
U = RNG.random(N)
CORRECT = (RNG.random(N) > U**2).astype(float)  # up to u the share u² / 3 is wrong


def test_a_promise_is_kept_but_for_one_in_ten_and_passes_less_than_the_best():
    found = promise(U, CORRECT, num_labels=300, target=0.1, num_draws=100)
    assert found.num_draws == 100
    assert found.share_broken <= 0.1
    assert 0 < found.accepted < found.best == pytest.approx(0.3**0.5, abs=0.04)
    assert found.expected < found.ece < 0.1


def test_what_cannot_be_promised_is_not_broken():
    found = promise(U, CORRECT, num_labels=60, target=0.01, num_draws=20)
    assert (found.share_promised, found.share_broken, found.accepted) == (0.0, 0.0, 0.0)


def test_a_kind_whose_scores_are_others_is_told_and_what_passed_until_then():
    few = 200
    u, correct = np.concatenate([U, 0.3 * U[:few]]), np.concatenate([CORRECT, np.zeros(few)])
    kinds = ["first"] * (N // 2) + ["second"] * (N // 2) + ["wrong"] * few
    first, _, wrong = shifts(u, correct, kinds, num_labels=300, target=0.1, num_streams=20)
    assert (wrong.kind, wrong.share_told, wrong.until) == ("wrong", 1.0, 200)
    assert wrong.accepted > 0.5
    assert wrong.wrong == 1.0
    # The calibration's own answers hold some of the wrong ones, and theirs do not: told, but late.
    assert first.kind == "first"
    assert first.until is None or first.until > 2 * wrong.until
