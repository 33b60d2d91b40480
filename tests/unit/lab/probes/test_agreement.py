"""Figures of agreement, checked by hand."""

import numpy as np
import pytest

from cocoa_lab.probes.agreement import classification_metrics, regression_metrics, spearman


def test_rank_correlation_shares_the_rank_of_ties():
    assert spearman(
        np.array([1.0, 2.0, 2.0, 4.0]), np.array([1.0, 3.0, 3.0, 9.0])
    ) == pytest.approx(1.0)
    assert spearman(np.array([1.0, 2.0, 3.0]), np.array([3.0, 2.0, 1.0])) == pytest.approx(-1.0)
    assert spearman(np.array([1.0, 1.0]), np.array([0.0, 1.0])) is None


def test_metrics_by_hand():
    assert regression_metrics(np.array([0.0, 1.0]), np.array([0.0, 0.5])) == {
        "mse": 0.125,
        "r2": -1.0,
        "spearman": pytest.approx(1.0),
    }
    measured = classification_metrics(np.array([0.9, 0.2, 0.6]), np.array([1.0, 0.0, 0.0]))
    assert measured["bce"] == pytest.approx(-(np.log(0.9) + np.log(0.8) + np.log(0.4)) / 3)
    assert (measured["auroc"], measured["accuracy"]) == (1.0, pytest.approx(2 / 3))
