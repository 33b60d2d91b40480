"""Pure: how far chance in the samples moves the confidence in an answer."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from app.scoring.derive import Evidence
from app.scoring.plan import Plan
from models.estimators import ESTIMATORS, needs, score
from models.statistics import STATISTICS, reads_samples

_NUM_RESAMPLES = 100
_ENDS = 0.95, 0.05  # of the uncertainty; the confidence falls where it rises


def confidence_interval(plan: Plan, evidence: Evidence) -> tuple[float, float] | None:
    """Between which confidences 90 % of other draws of as many samples lie, each in [0, 1].

    By the percentile bootstrap (Efron 1979): the samples are drawn anew from themselves. The answer
    and the calibrator stay, so that it says nothing of what these get wrong.

    None where nothing is calibrated, the answer is one of the samples, or the score reads none or
    is a plugin's, which may take long.
    """
    calibrated, read, known = plan.calibrated, needs([plan.primary]), evidence.statistics
    num_samples, answer_sample = len(evidence.subject.samples), evidence.subject.answer_sample
    if isinstance(calibrated, str) or answer_sample is not None or not num_samples:
        return None
    if not reads_samples(read) or plan.primary not in ESTIMATORS:
        return None
    uncertainties = []
    draws = np.random.default_rng(0).integers(num_samples, size=(_NUM_RESAMPLES, num_samples))
    for rows in draws.tolist():
        statistics = {}
        for name in read & known.keys():
            statistics[name] = _of_samples(name, known[name], rows)
        scores, _ = score([plan.primary], statistics)
        if (uncertainty := scores[plan.primary]) is not None:
            uncertainties.append(uncertainty)
    if not uncertainties:
        return None
    low, high = map(calibrated.calibration.confidence, np.quantile(uncertainties, _ENDS))
    return low, high


def _of_samples(name: str, value: Any, rows: Sequence[int]) -> Any:
    """A statistic as it is of these samples."""
    for axis, dimension in enumerate(STATISTICS[name].shape):
        if dimension == "M" and isinstance(value, np.ndarray):
            value = value.take(rows, axis)
        elif dimension == "M":
            value = list(map(value.__getitem__, rows))
    return value
