"""Whether the uncertainties that are served still look like those that were calibrated."""

import math
from collections import deque

import numpy as np

from models.calibration import Calibration
from models.records import Array

WINDOW = 200  # latest scores that are compared
# Two-sided error of the comparison: it is made again and again.
_SIGNIFICANCE = 1e-6


def distance(quantiles: Array, uncertainties: Array) -> float:
    """Largest difference of the two distribution functions, in [0, 1]. Kolmogorov 1933.

    quantiles: (Q,) of the reference, ascending. uncertainties: (n,).
    """
    points = np.unique(np.concatenate([quantiles, uncertainties]))
    served = np.searchsorted(np.sort(uncertainties), points, "right") / len(uncertainties)
    reference = np.searchsorted(quantiles, points, "right") / len(quantiles)
    return float(np.abs(served - reference).max())


def critical_distance(num_reference: int, num_served: int) -> float:
    """Distance above which two samples of one distribution lie with probability 1e-6."""
    scale = math.sqrt(-math.log(_SIGNIFICANCE / 2) / 2)
    return scale * math.sqrt(1 / num_reference + 1 / num_served)


class ShiftMonitor:
    """The latest uncertainties of one calibrated estimator beside the reference's.

    Attributes:
        distance: of the full window; 0 before it is full.
        has_shifted: whether it is too large to be chance.
    """

    def __init__(self, calibration: Calibration) -> None:
        self._calibration = calibration
        self._window: deque[float] = deque(maxlen=WINDOW)
        self.distance = 0.0
        self.has_shifted = False

    def observe(self, uncertainty: float) -> None:
        """Take the uncertainty of one answer that was computed."""
        self._window.append(uncertainty)
        if len(self._window) < WINDOW:
            return
        reference = self._calibration
        self.distance = distance(reference.quantiles, np.array(self._window))
        self.has_shifted = self.distance > critical_distance(reference.num_labels, WINDOW)
