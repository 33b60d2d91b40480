"""Light against full on one collection with known quality, and predictions against samples."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from app.lab.comparison import MEAN, Column, Table, difference, table
from app.lab.probes.agreement import classification_metrics, regression_metrics
from app.lab.probes.collection import Collection
from app.lab.probes.predicting import Predicted
from app.lab.probes.splits import Indices
from models.metrics import Interval, prr
from models.probes.card import Card, Target
from models.records import Array

# Full scores that a probe has a light one for, with the base that multiplies the prediction.
COUNTERPARTS: Mapping[Target, Mapping[str, str | None]] = {
    "consistency": {"consistency": None, "cocoa_sp": "sp", "cocoa_ppl": "ppl", "cocoa_mte": "mte"},
    "semantic_entropy": {"semantic_entropy": None},
}
SEEN, UNSEEN = "trained on the task's other prompts", "trained on the other tasks only"
# What light mode has to stay within, of full mode's PRR.
MAX_LOSS_PER_TASK, MAX_LOSS_ON_AVERAGE = 0.05, 0.03
_BASES = ("sp", "ppl", "mte")


@dataclass(frozen=True, slots=True)
class Contrast:
    """One light score beside its full counterpart, PRR by task and on average.

    Attributes:
        full, light: PRR with intervals by column; the difference light minus full is paired.
    """

    probe: str
    name: str
    full: Mapping[str, Interval]
    light: Mapping[str, Interval]
    differences: Mapping[str, Interval]


def agreement(
    collection: Collection, card: Card, predicted: Predicted
) -> dict[str, dict[str, float | None]]:
    """How well predictions agree with what samples showed, by task and overall.

    The share of answers out of the domain is told too.
    """
    everything = np.arange(len(collection.answers))
    scores = _stored(collection, everything, card.target)
    known = ~np.isnan(scores)
    true = scores if card.split is None else (scores > card.split).astype(np.float64)
    measure = regression_metrics if card.target == "consistency" else classification_metrics
    groups = {task: _rows_of(collection, task) for task in _tasks(collection)}
    agreements: dict[str, dict[str, float | None]] = {}
    for name, rows in (groups | {"all": everything}).items():
        kept = rows[known[rows]]
        outside = float(predicted.out_of_domain[rows].mean())
        agreements[name] = measure(predicted.values[kept], true[kept]) | {"out_of_domain": outside}
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

    quality: (N,) of the answers, higher better.
    """
    columns = []
    for task in _tasks(collection):
        rows = _rows_of(collection, task)
        scores = _scores(collection, target, rows, by_probe)
        columns.append(Column(task, quality[rows], is_binary, scores))
    prrs = table(prr, columns, num_resamples=num_resamples, seed=seed)
    found = []
    for probe in by_probe:
        for name in COUNTERPARTS[target]:
            light = _light(name, probe)
            differences = _differences(prrs, light, name)
            full = _intervals(prrs, name)
            found.append(Contrast(probe, name, full, _intervals(prrs, light), differences))
    return found


def within_bounds(contrast: Contrast) -> bool:
    """Whether light loses no more than it may, on each task and on average."""
    lost = contrast.differences.items()
    return all(interval.value >= -max_loss(column) for column, interval in lost)


def max_loss(column: str) -> float:
    """Of full mode's PRR, how much light mode may lose."""
    return MAX_LOSS_ON_AVERAGE if column == MEAN else MAX_LOSS_PER_TASK


def light_name(name: str) -> str:
    """The light estimator beside a full one."""
    return f"high_{name}_light" if name == "semantic_entropy" else f"{name}_light"


def _scores(
    collection: Collection, target: Target, rows: Indices, by_probe: Mapping[str, Predicted]
) -> dict[str, Array]:
    """Full scores as they were collected, and the light ones of each probe."""
    counterparts = COUNTERPARTS[target]
    names = [*_BASES, *counterparts]
    scores = {name: _stored(collection, rows, name) for name in names}
    for probe, predicted in by_probe.items():
        values = predicted.values[rows]
        for name, base in counterparts.items():
            scores[_light(name, probe)] = values if base is None else scores[base] * values
    return scores


def _stored(collection: Collection, rows: Indices, name: str) -> Array:
    values = [collection.answers[i].scores.get(name) for i in rows]
    return np.array([np.nan if value is None else value for value in values])


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


def _light(name: str, probe: str) -> str:
    return f"{light_name(name)}, {probe}"


def _tasks(collection: Collection) -> Sequence[str]:
    return list(dict.fromkeys(answer.task for answer in collection.answers))


def _rows_of(collection: Collection, task: str) -> Indices:
    return np.flatnonzero([answer.task == task for answer in collection.answers])
