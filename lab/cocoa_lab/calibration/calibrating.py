"""Pure: from labels to a calibrator, with what could not be calibrated and why."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from cocoa_lab.calibration.fitting import CannotCalibrate, fit
from cocoa_lab.calibration.labels import Labelled, Labels
from cocoa_lab.calibration.pooling import pooled
from cocoa_lab.calibration.thresholds import DELTA
from models.calibration import ALL, FORMAT, Binding, Calibration, Calibrator, Part
from models.estimators import ESTIMATORS
from models.records import SamplingParams

# Where two ways of asking are one thing to the model, scores of the same prompts are the same up to
# rounding, which may decide otherwise now and then, of a token or of a class by NLI.
_CLOSE = 1e-3
_SHARE_CLOSE = 0.99
_MIN_COMMON = 100  # prompts that both were asked
_OF_LAB = "a service need not have it"

Groups = dict[str, dict[str, Calibration]]


@dataclass(frozen=True, slots=True)
class Fitted:
    """A calibrator, which has no id before it is a file.

    Attributes:
        labels: of each of its parts.
        notes: what could not be calibrated, and why.
    """

    calibrator: Calibrator
    labels: Sequence[Labels]
    notes: Sequence[str]


def calibrate(sources: Mapping[str, Sequence[Labelled]], *, by_task: bool = False) -> Fitted:
    """Fit every estimator of every way of asking: on all labels and, where wanted, by task.

    Labels of one way of asking count together, whatever source they are of.
    Ways of asking that are one thing to the model, as the same prompts show, share their
    calibrations: those with the most labels. An answer without a score says nothing of its
    estimator and is left out of it. What documents say calibrates `ungrounded` alone, and what is
    right all others.

    Args:
        sources: labels for each way of asking, by what they are; a source whose ways all share the
            calibrations of another is not named.
        by_task: whether each task has a group of its own.

    Raises:
        CannotCalibrate: no estimator can be calibrated.
    """
    fitted: list[tuple[Labels, Groups, list[Binding]]] = []
    notes: dict[str, None] = {}
    named: set[str] = set()
    parts = pooled(sources)
    parts.sort(key=lambda one: (one.bindings[0].unit != "answer", -len(one.labels.correct)))
    for part in parts:
        same = next((one for one in fitted if _are_same(one[0], part.labels)), None)
        if same is not None:
            same[2].extend(part.bindings)
            continue
        groups, left_out = _fit_groups(part.labels, by_task=by_task)
        way = way_of(part.bindings[0])
        if part.labels.axis == "grounded":
            way += ", by what documents say"
        if part.num_repeats:
            what = f"{part.num_repeats} labels repeat a prompt of others, and do not count"
            notes[f"{what} ({way})"] = None
        if groups[ALL]:
            fitted.append((part.labels, groups, list(part.bindings)))
            named.update(part.sources)
            notes |= dict.fromkeys(f"{what} ({way})" for what in left_out)
        else:
            whys = {what.partition(": ")[2] for what in left_out}
            reasons = ", ".join(sorted(whys - {_OF_LAB} or whys))
            notes[f"{way} cannot be calibrated: {reasons}"] = None
    if not fitted:
        raise CannotCalibrate("; ".join(notes))
    made, labels = [], []
    for of_part, groups, bindings in fitted:
        made += [Part(binding, groups) for binding in bindings]
        labels += [of_part] * len(bindings)
    source = " and ".join(filter(named.__contains__, sources))
    return Fitted(Calibrator("", source, DELTA, tuple(made)), labels, list(notes))


def way_of(binding: Binding) -> str:
    """A way of asking, in words."""
    strategy = binding.strategy
    if binding.answer_temperature:
        strategy += f" at {binding.answer_temperature:g}"
    way = f"{binding.input}, {strategy}, {binding.similarity}"
    way += f", num_samples {binding.num_samples}"
    if binding.temperature != SamplingParams().temperature:
        way += f", temperature {binding.temperature:g}"
    if binding.unit != "answer":
        way = f"{binding.unit}s, {way}"
    if binding.probes:
        way += ", with probes"
    return way


def _fit_groups(labels: Labels, *, by_task: bool) -> tuple[Groups, list[str]]:
    """Group to estimator to calibration, and what is left out, and why."""
    by_group = {ALL: labels}
    if by_task:
        for task in dict.fromkeys(labels.tasks):
            if task and task != ALL:  # a task that is called as the group of all is no group
                by_group[task] = labels.of_task(task)
    groups: Groups = {}
    left_out: list[str] = []
    for group, part in by_group.items():
        groups[group] = {}
        if not any(map(labels.calibrates, part.scores)):
            left_out.append(f"{group} is left out: it has no score that {labels.axis} labels fit")
        for name in filter(labels.calibrates, part.scores):
            if name not in ESTIMATORS:
                left_out.append(f"{name} is left out: {_OF_LAB}")
                continue
            try:
                groups[group][name] = fit(*part.known(name))
            except CannotCalibrate as reason:
                left_out.append(f"{name} of {group} is left out: {reason}")
    return groups, left_out


def _are_same(one: Labels, other: Labels) -> bool:
    """Whether all that the other was asked, the one was asked too, with the same scores."""
    row_of = {example_id: row for row, example_id in enumerate(one.ids)}
    rows = [row_of[example_id] for example_id in other.ids if example_id in row_of]
    are_enough = len(rows) >= max(_MIN_COMMON, len(other.correct))
    if not are_enough or not other.scores.keys() <= one.scores.keys():
        return False
    shares = [float(np.mean(one.correct[rows] == other.correct))]
    for name, u in other.scores.items():
        close = np.isclose(one.scores[name][rows], u, rtol=_CLOSE, atol=_CLOSE, equal_nan=True)
        shares.append(float(close.mean()))
    return min(shares) >= _SHARE_CLOSE


def to_json(calibrator: Calibrator) -> str:
    """The content of a calibrator's file, all but its id; calibrations that are shared stand once.

    Parts that share theirs follow each other.
    """
    parts: list[dict[str, Any]] = []
    written: object = None
    for part in calibrator.parts:
        if part.groups is not written:
            parts.append({"bindings": [], "groups": _groups_to_json(part)})
            written = part.groups
        parts[-1]["bindings"].append(asdict(part.binding))
    value = {
        "format": FORMAT,
        "source": calibrator.source,
        "delta": calibrator.delta,
        "prompts": calibrator.prompts,
        "parts": parts,
    }
    return json.dumps(value, allow_nan=False, separators=(",", ":")) + "\n"


def _groups_to_json(part: Part) -> dict[str, Any]:
    groups: dict[str, Any] = {}
    for group, by_estimator in part.groups.items():
        groups[group] = {}
        for name, one in by_estimator.items():
            groups[group][name] = _calibration_to_json(one)
    return groups


def _calibration_to_json(one: Calibration) -> dict[str, Any]:
    thresholds: list[dict[str, Any]] = []
    for threshold in one.thresholds:
        known = {name: value for name, value in asdict(threshold).items() if value is not None}
        thresholds.append({"uncertainty": None, **known})
    return asdict(one) | {
        "knots": one.knots.tolist(),
        "confidences": one.confidences.tolist(),
        "quantiles": one.quantiles.tolist(),
        "thresholds": thresholds,
    }
