"""What a promise is worth over many calibrations, on answers whose law is known."""

import json

import numpy as np
import pytest

from cocoa_lab.calibration.promises import elsewhere, parts_of, promise, shifts
from cocoa_lab.overwriting import UNITS

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


def test_labels_of_one_answer_are_drawn_together_and_count_once():
    asked = {"num_labels": 300, "target": 0.1, "num_draws": 30}
    answers = np.repeat(np.arange(N), 5)
    copies = np.repeat(U, 5), np.repeat(CORRECT, 5)
    together = promise(*copies, answers=answers, **asked)
    single = promise(U, CORRECT, answers=np.arange(N), **asked)
    apart = promise(*copies, **(asked | {"num_labels": 1500}))

    assert (together.accepted, together.best) == (single.accepted, single.best)
    assert together.share_broken <= 0.1
    assert apart.share_promised > promise(U, CORRECT, **asked).share_promised


def test_labelled_parts_are_read_with_their_answers(tmp_path):
    lines = []
    for row in range(60):
        line = {"id": f"p{row // 2}", "task": "t", "correct": float(row % 3 > 0)}
        line["scores"] = {"sp": row % 3 + 0.1, "ppl": None}
        lines.append(json.dumps(line) + "\n")
    (tmp_path / UNITS).write_text("".join(lines))

    found = parts_of(tmp_path)

    assert (found.ids[:3], found.quality[:3].tolist()) == (["p0", "p0", "p1"], [0.0, 1.0, 1.0])
    assert np.isnan(found.scores["ppl"]).all()


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


def test_a_promise_made_of_another_form_is_broken_where_the_same_scores_mean_less():
    asked = {"num_labels": 300, "target": 0.1, "num_draws": 40}
    worse = (U, CORRECT * (RNG.random(N) > 0.3))
    at_home, abroad = (elsewhere((U, CORRECT), met, **asked) for met in ((U, CORRECT), worse))
    assert at_home.share_promised == abroad.share_promised > 0.5
    assert at_home.share_broken <= 0.2 < 0.9 < abroad.share_broken
    assert at_home.wrong < 0.1 < 0.3 < abroad.wrong
    assert at_home.accepted == abroad.accepted > 0.2


def test_a_form_whose_answers_all_score_higher_is_promised_nothing():
    found = elsewhere((U, CORRECT), (U + 1, CORRECT), num_labels=300, target=0.1, num_draws=20)
    assert (found.accepted, found.wrong, found.share_broken) == (0, 0, 0)
