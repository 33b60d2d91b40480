"""What is served beside what was calibrated."""

import json
from pathlib import Path

import numpy as np
import pytest

from models.calibration import WINDOW, ShiftMonitor, critical_distance, distance
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
    for one in rng.choice(served, WINDOW - 1):
        monitor.observe(one)
        assert not monitor.has_shifted, "too few to say"
    monitor.observe(served[0])
    assert monitor.has_shifted
    for one in rng.choice(SCORES, WINDOW):
        monitor.observe(one)
    assert not monitor.has_shifted


def test_fewer_reference_answers_need_a_larger_distance():
    assert critical_distance(100, 200) > critical_distance(10_000, 200)
