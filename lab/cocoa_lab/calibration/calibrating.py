"""Pure: from labels to a calibrator, with what could not be calibrated and why."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from cocoa_lab.calibration.fitting import DELTA, CannotCalibrate, fit
from cocoa_lab.calibration.labels import Labels
from models.calibration import ALL, FORMAT, Binding, Calibration, Calibrator


@dataclass(frozen=True, slots=True)
class Fitted:
    """A calibrator, which has no id before it is a file.

    Attributes:
        left_out: group and estimator to the reason why there is no calibration.
    """

    calibrator: Calibrator
    left_out: Mapping[tuple[str, str], str]


def calibrate(labels: Labels, binding: Binding, source: str, *, by_task: bool = False) -> Fitted:
    """Fit every estimator on all labels and, where that is wanted, on those of each task.

    An answer without a score says nothing of its estimator and is left out of it.

    Raises:
        CannotCalibrate: no estimator can be calibrated.
    """
    parts = {ALL: labels}
    if by_task:
        for task in dict.fromkeys(labels.tasks):
            if task and task != ALL:  # a task that is called as the group of all is no group
                parts[task] = labels.of_task(task)
    groups: dict[str, dict[str, Calibration]] = {}
    left_out: dict[tuple[str, str], str] = {}
    for group, part in parts.items():
        groups[group] = {}
        for name, u in part.scores.items():
            known = ~np.isnan(u)
            try:
                groups[group][name] = fit(u[known], part.correct[known])
            except CannotCalibrate as reason:
                left_out[group, name] = str(reason)
    if not groups[ALL]:
        reasons = sorted({reason for (group, _), reason in left_out.items() if group == ALL})
        raise CannotCalibrate("; ".join(reasons))
    calibrator = Calibrator("", binding, source, DELTA, groups)
    return Fitted(calibrator, left_out)


def to_json(calibrator: Calibrator) -> str:
    """The content of a calibrator's file, all but its id."""
    groups: dict[str, Any] = {}
    for group, by_estimator in calibrator.groups.items():
        groups[group] = {}
        for name, one in by_estimator.items():
            groups[group][name] = _calibration_to_json(one)
    value = {
        "format": FORMAT,
        "source": calibrator.source,
        "binding": asdict(calibrator.binding),
        "delta": calibrator.delta,
        "groups": groups,
    }
    return json.dumps(value, allow_nan=False) + "\n"


def _calibration_to_json(one: Calibration) -> dict[str, Any]:
    return asdict(one) | {
        "knots": one.knots.tolist(),
        "confidences": one.confidences.tolist(),
        "quantiles": one.quantiles.tolist(),
    }
