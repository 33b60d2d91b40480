"""What is served beside what was calibrated."""

import json
from pathlib import Path

import numpy as np
import pytest

from models.calibration import WINDOWS, ShiftMonitor, critical_distance, distance, shift
from tests.made_calibrators import calibration

TESTBED = json.loads((Path(__file__).parents[2] / "data" / "testbed_scores.json").read_text())
SCORES, TASKS = np.array(TESTBED["cocoa_sp"]), np.array(TESTBED["task"])


def of(reference):
    return calibration(
        quantiles=np.quantile(reference, np.linspace(0, 1, 201)), num_labels=len(reference)
    )


def test_the_distance_is_the_largest_gap_of_the_distribution_functions():
    quantiles = np.linspace(0, 1, 201)
    assert distance(quantiles, np.linspace(0, 1, 200)) < 0.01
    assert distance(quantiles, np.full(10, 0.5)) == pytest.approx(0.5, abs=0.01)
    assert distance(quantiles, np.full(10, 2.0)) == 1.0


def test_an_unchanged_stream_raises_no_alarm_in_ten_thousand_answers():
    monitor, rng = ShiftMonitor(of(SCORES)), np.random.default_rng(0)
    for one in rng.choice(SCORES, 10_000):
        monitor.observe(one)
        assert not monitor.has_shifted


@pytest.mark.parametrize("served", [SCORES * 3 + 0.5, SCORES[TASKS == "arithmetic"] / 4])
def test_a_changed_stream_raises_the_alarm_within_a_window_and_it_goes_with_the_change(served):
    monitor, rng = ShiftMonitor(of(SCORES)), np.random.default_rng(0)
    for one in rng.choice(served, WINDOWS[0] - 1):
        monitor.observe(one)
        assert monitor.shift == 0, "too few to say"
    monitor.observe(served[0])
    assert monitor.has_shifted
    for one in rng.choice(SCORES, WINDOWS[1]):
        monitor.observe(one)
    assert not monitor.has_shifted


def test_parts_that_are_alike_in_each_answer_count_as_their_answers():
    monitor, alone = ShiftMonitor(of(SCORES)), ShiftMonitor(of(SCORES))
    told = 0
    for one in np.random.default_rng(0).choice(SCORES, 600):
        monitor.observe(*[one] * 20)
        assert not monitor.has_shifted
        for part in [one] * 20:
            alone.observe(part)
        told += alone.has_shifted
    assert told > 60, "as if each part were drawn by itself"


def test_changed_parts_raise_the_alarm():
    monitor, rng = ShiftMonitor(of(SCORES)), np.random.default_rng(0)
    for number in range(WINDOWS[0] // 4 + 10):
        assert not (number < WINDOWS[0] // 4 and monitor.has_shifted)
        monitor.observe(*rng.choice(SCORES * 3 + 0.5, 4))
    assert monitor.has_shifted


def test_a_small_change_is_seen_by_the_long_window_alone():
    served = np.random.default_rng(0).choice(SCORES[TASKS == "facts"], WINDOWS[1])
    assert shift(of(SCORES), served, WINDOWS[:1]) < 1
    assert shift(of(SCORES), served) > 1


def test_the_error_is_that_of_two_samples_of_one_distribution():
    # P(sup |F - G| > D) of 200 and 1,000 uniform numbers, drawn 4,000 times.
    rng, limit, above = np.random.default_rng(0), critical_distance(1000, 200, 0.05), 0
    for _ in range(4000):
        above += distance(np.sort(rng.random(1000)), rng.random(200)) > limit
    assert 0.035 < above / 4000 < 0.055


def test_fewer_reference_answers_need_a_larger_distance():
    assert critical_distance(100, 200, 1e-6) > critical_distance(10_000, 200, 1e-6)
