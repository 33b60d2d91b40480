"""Which calibrator a deployment serves, and whether its models and its answers are still those."""

import logging
import math
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np

from models.calibration import Calibration, Calibrator
from models.embedded import CALIBRATOR_PATH
from models.records import Array
from workers.protocol import ComparerInfo, GeneratorInfo, Workers

logger = logging.getLogger(__name__)

WINDOW = 200  # latest scores that are compared
# Two-sided error of the comparison: it is made again and again.
_SIGNIFICANCE = 1e-6


def load_calibrator(setting: str, workers: Workers) -> Calibrator | None:
    """The calibrator that a deployment serves.

    Args:
        setting: a path; "auto" for the embedded one beside the embedded models; "" for none.
        workers: loaded ones.

    Raises:
        OSError: there is no such file.
        ValueError: it is no calibrator, or another deployment's; names what differs.
    """
    if not setting:
        return None
    path = Path(setting)
    if setting == "auto":
        path = CALIBRATOR_PATH
    calibrator = Calibrator.load(path)
    try:
        check_deployment(calibrator, workers)
    except ValueError as error:
        if setting != "auto":
            raise
        logger.info("the embedded calibrator is not served: %s", error)
        return None
    return calibrator


def calibrated_models(
    calibrator: Calibrator | None, workers: Workers
) -> tuple[GeneratorInfo, ComparerInfo | None, ComparerInfo | None]:
    """The language model, the calibrated similarity function and the NLI model, as they serve."""
    comparer: ComparerInfo | None = None
    if calibrator is not None and calibrator.binding.similarity in workers.comparers:
        comparer = workers.comparers[calibrator.binding.similarity].info
    nli: ComparerInfo | None = None
    if workers.nli is not None:
        nli = workers.nli.info
    return workers.generator.info, comparer, nli


def check_deployment(calibrator: Calibrator, workers: Workers) -> None:
    """Refuse a calibrator of other models than these.

    Raises:
        ValueError: names what differs.
    """
    binding = calibrator.binding
    generator, comparer, nli = calibrated_models(calibrator, workers)
    found: dict[str, tuple[Any, Any]] = {
        "the language model": (binding.model_id, generator.model_id),
        "its revision": (binding.revision, generator.revision),
        "its tokenizer, template or precision": (binding.generator, generator.identity),
        f"the similarity function {binding.similarity}": (
            binding.comparer,
            comparer and comparer.identity,
        ),
    }
    if nli is not None:  # without one, nothing that reads it is scored
        found["the NLI model"] = binding.nli, nli.identity
    for statistic in binding.probes.keys() & generator.probes.keys():  # as with NLI
        served = generator.probes[statistic].sha256
        found[f"the probe of {statistic}"] = (binding.probes[statistic], served)
    for what, (bound, served) in found.items():
        if bound != served:
            raise ValueError(
                f"the calibrator is another deployment's: {what} was {bound}, and is {served}"
            )


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
