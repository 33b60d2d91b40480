"""Light against full on one collection with known quality, and predictions against samples."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from cocoa_lab.comparison import MEAN, Column, Table, difference, table, why_left_out
from cocoa_lab.metrics import Interval, prr
from cocoa_lab.probes.agreement import AGREEMENT, as_targets
from cocoa_lab.probes.collection import Collection
from cocoa_lab.probes.predicting import Predicted
from cocoa_lab.probes.splits import Indices
from models.probes.card import Card, Target
from models.records import Array

# Full scores that a probe has a light one for, with the base that multiplies the prediction.
COUNTERPARTS: Mapping[Target, Mapping[str, str | None]] = {
    "inconsistency": {
        "inconsistency": None,
        "cocoa_sp": "sp",
        "cocoa_ppl": "ppl",
        "cocoa_mte": "mte",
    },
    "semantic_entropy": {"semantic_entropy": None},
}
SEEN, UNSEEN = "trained on the task's other prompts", "trained on the other tasks only"
# What light mode has to stay within, of full mode's PRR.
MAX_LOSS_PER_TASK, MAX_LOSS_ON_AVERAGE = 0.05, 0.03
_BASES = ("sp", "ppl", "mte")

Kept = Literal["yes", "no", "cannot be judged"]


@dataclass(frozen=True, slots=True)
class Contrast:
    """One light score beside its full counterpart, PRR by task and on average.

    Attributes:
        columns: the tasks that the probe was measured on, and their mean where there is one.
        left_out: tasks among them that rank nothing, with the reasons.
        full, light: PRR with intervals by column; the difference light minus full is paired.
    """

    probe: str
    name: str
    columns: tuple[str, ...]
    left_out: Mapping[str, str]
    full: Mapping[str, Interval]
    light: Mapping[str, Interval]
    differences: Mapping[str, Interval]


def agreement(
    collection: Collection, card: Card, predicted: Predicted
) -> dict[str, dict[str, float | None]]:
    """How well predictions agree with what samples showed, by task and overall.

    The share of answers out of the domain is told too. Tasks without predictions are left out.
    """
    everything = np.flatnonzero(predicted.is_made)
    scores = _stored(collection, np.arange(len(collection.answers)), card.target)
    known = ~np.isnan(scores)
    true = as_targets(scores, card.split)
    groups = {task: _rows_of(collection, task) for task in _tasks(collection, predicted)}
    agreements: dict[str, dict[str, float | None]] = {}
    for name, rows in (groups | {"all": everything}).items():
        kept = rows[known[rows]]
        outside = float(predicted.out_of_domain[rows].mean())
        agreements[name] = AGREEMENT[card.target](predicted.values[kept], true[kept])
        agreements[name]["out_of_domain"] = outside
    return agreements


def contrasts(
    collection: Collection,
    target: Target,
    quality: Array,
    is_binary: bool,
    by_probe: Mapping[str, Predicted],
    num_resamples: int,
    seed: int,
) -> list[Contrast]:
    """Every light score of every probe against its full counterpart, on the same resamples.

    A probe is measured on the tasks that it has predictions for.

    quality: (N,) of the answers, higher better.
    """
    found = []
    for probe, predicted in by_probe.items():
        columns = []
        for task in _tasks(collection, predicted):
            rows = _rows_of(collection, task)
            scores = _scores(collection, target, rows, predicted)
            columns.append(Column(task, quality[rows], is_binary, scores))
        prrs = table(prr, columns, num_resamples=num_resamples, seed=seed)
        left_out = {}
        for column in columns:
            if (why := why_left_out(column)) is not None:
                left_out[column.task] = why
        for name in COUNTERPARTS[target]:
            contrast = Contrast(
                probe=probe,
                name=name,
                columns=tuple(prrs),
                left_out=left_out,
                full=_intervals(prrs, name),
                light=_intervals(prrs, light_name(name)),
                differences=_differences(prrs, light_name(name), name),
            )
            found.append(contrast)
    return found


def within_bounds(contrast: Contrast) -> Kept:
    """Whether light loses no more than it may, on each task and on average.

    "no" where the interval of any loss lies below its bound, "yes" where all lie at or above it;
    what ranks nothing or has no difference cannot be judged, nor what reaches over the bound.
    """
    lost, left_out = contrast.differences, contrast.left_out
    judged = {column: lost[column] for column in lost if column not in left_out}
    if any(interval.high < -max_loss(column) for column, interval in judged.items()):
        return "no"
    are_kept = all(interval.low >= -max_loss(column) for column, interval in judged.items())
    is_whole = bool(judged) and judged.keys() == set(contrast.columns)
    if are_kept and is_whole:
        return "yes"
    return "cannot be judged"


def max_loss(column: str) -> float:
    """Of full mode's PRR, how much light mode may lose."""
    if column == MEAN:
        return MAX_LOSS_ON_AVERAGE
    return MAX_LOSS_PER_TASK


def light_name(name: str) -> str:
    """The light estimator beside a full one."""
    if name == "semantic_entropy":
        return "high_semantic_entropy_light"
    return f"{name}_light"


def _scores(
    collection: Collection, target: Target, rows: Indices, predicted: Predicted
) -> dict[str, Array]:
    """Full scores as they were collected, and the light ones of a probe."""
    counterparts = COUNTERPARTS[target]
    names = [*_BASES, *counterparts]
    scores = {name: _stored(collection, rows, name) for name in names}
    values = predicted.values[rows]
    for name, base in counterparts.items():
        scores[light_name(name)] = values
        if base is not None:
            scores[light_name(name)] = scores[base] * values
    return scores


def _stored(collection: Collection, rows: Indices, name: str) -> Array:
    values = [collection.answers[i].scores.get(name) for i in rows]
    return np.array(values, dtype=np.float64)


def _intervals(prrs: Table, name: str) -> dict[str, Interval]:
    """One estimator's values by column, where it has one."""
    found: dict[str, Interval] = {}
    for column, values in prrs.items():
        if name in values and (interval := values[name].interval):
            found[column] = interval
    return found


def _differences(prrs: Table, light: str, full: str) -> dict[str, Interval]:
    """Light minus full by column, where both have a value."""
    found: dict[str, Interval] = {}
    for column, values in prrs.items():
        if light in values and full in values:
            interval = difference(values[light], values[full])
            if interval is not None:
                found[column] = interval
    return found


def _tasks(collection: Collection, predicted: Predicted) -> list[str]:
    """Tasks of the answers that have a prediction."""
    rows = np.flatnonzero(predicted.is_made)
    return list(dict.fromkeys(collection.answers[i].task for i in rows))


def _rows_of(collection: Collection, task: str) -> Indices:
    return np.flatnonzero([answer.task == task for answer in collection.answers])
