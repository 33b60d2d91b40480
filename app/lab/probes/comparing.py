"""Light against full on one collection with known quality.

The probe is compared as it is, and so is one that never saw the task.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from app.lab.comparison import MEAN, Column, Table, difference, table
from app.lab.probes.agreement import classification_metrics, regression_metrics
from app.lab.probes.checkpoint import Epoch
from app.lab.probes.collection import Collection
from app.lab.probes.from_collection import Training, train_probe
from models.metrics import Interval, prr
from models.probes.card import Card, Target
from models.probes.probe import CARD, TrainedProbe
from models.records import Array

Rows = NDArray[np.intp]

# Full scores that a probe has a light one for, with the base that multiplies the prediction.
COUNTERPARTS: Mapping[Target, Mapping[str, str | None]] = {
    "consistency": {"consistency": None, "cocoa_sp": "sp", "cocoa_ppl": "ppl", "cocoa_mte": "mte"},
    "semantic_entropy": {"semantic_entropy": None},
}
SEEN, UNSEEN = "trained on the task's other prompts", "trained on the other tasks only"
# What light mode has to stay within, of full mode's PRR.
MAX_LOSS_PER_TASK, MAX_LOSS_ON_AVERAGE = 0.05, 0.03


@dataclass(frozen=True, slots=True)
class Predicted:
    """A probe's predictions for every answer of a collection.

    Attributes:
        values: (N,) predicted consistency, or probability of high semantic entropy.
        out_of_domain: (N,).
    """

    values: Array
    out_of_domain: Array


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


def predictions(probe: TrainedProbe, collection: Collection) -> Predicted:
    """What a probe says of the answers of a collection that holds its layer."""
    features = np.asarray(collection.features[:, collection.header.layers.index(probe.layer)])
    readings = probe.read(features)
    return Predicted(
        np.array([reading.value for reading in readings]),
        np.array([reading.out_of_domain for reading in readings]),
    )


def leave_one_out(
    training: Collection,
    how: Training,
    measured: Collection,
    folder: Path,
    on_epoch: Callable[[Epoch], None],
) -> Predicted:
    """For each task's answers the predictions of a probe trained on the other tasks only.

    The probes are kept in the folder, so that an interrupted evaluation does not train them again.
    """
    tasks = [row.task for row in measured.rows]
    values, outside = np.full(len(tasks), np.nan), np.zeros(len(tasks), dtype=bool)
    for task in dict.fromkeys(tasks):
        others = _without(training, task)
        predicted = predictions(_kept_probe(others, how, folder, on_epoch), measured)
        rows = _rows_of(measured, task)
        values[rows], outside[rows] = predicted.values[rows], predicted.out_of_domain[rows]
    return Predicted(values, outside)


def _kept_probe(
    training: Collection, how: Training, folder: Path, on_epoch: Callable[[Epoch], None]
) -> TrainedProbe:
    """The probe of this training, from the folder where it is there."""
    parts = [asdict(training.header), asdict(how), [row.id for row in training.rows]]
    own = folder / hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
    if not (own / CARD).exists():
        own.mkdir(parents=True, exist_ok=True)
        probe, _ = train_probe(training, how, own / "training.checkpoint.pt", on_epoch)
        probe.save(own)
    return TrainedProbe.open(own)


def agreement(
    collection: Collection, card: Card, predicted: Predicted
) -> dict[str, dict[str, float | None]]:
    """How well predictions agree with what samples showed, by task and overall.

    The share of answers out of the domain is told too.
    """
    scores = _stored(collection, np.arange(len(collection.rows)), card.target)
    known = ~np.isnan(scores)
    true = scores if card.split is None else (scores > card.split).astype(np.float64)
    measure = regression_metrics if card.target == "consistency" else classification_metrics
    groups = {task: _rows_of(collection, task) for task in _tasks(collection)} | {
        "all": np.arange(len(true))
    }
    return {
        name: {
            **measure(predicted.values[rows[known[rows]]], true[rows[known[rows]]]),
            "out_of_domain": float(predicted.out_of_domain[rows].mean()),
        }
        for name, rows in groups.items()
    }


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

    The same resampled prompts serve both.

    quality: (N,) of the answers, higher better.
    """
    columns = [
        _column(collection, target, task, quality, is_binary, by_probe)
        for task in _tasks(collection)
    ]
    rows = table(prr, columns, num_resamples=num_resamples, seed=seed)
    return [
        Contrast(
            probe=probe,
            name=name,
            full=_intervals(rows, name),
            light=_intervals(rows, _light(name, probe)),
            differences={
                column: interval
                for column, row in rows.items()
                if name in row
                and (light := row.get(_light(name, probe))) is not None
                and (interval := difference(light, row[name])) is not None
            },
        )
        for probe in by_probe
        for name in COUNTERPARTS[target]
    ]


def within_bounds(contrast: Contrast) -> bool:
    """Whether light loses at most 0.05 PRR on each task and 0.03 on average."""
    return all(
        interval.value >= -(MAX_LOSS_ON_AVERAGE if column == MEAN else MAX_LOSS_PER_TASK)
        for column, interval in contrast.differences.items()
    )


def _column(
    collection: Collection,
    target: Target,
    task: str,
    quality: Array,
    is_binary: bool,
    by_probe: Mapping[str, Predicted],
) -> Column:
    rows = _rows_of(collection, task)
    stored = {
        name: _stored(collection, rows, name)
        for name in ("sp", "ppl", "mte", *COUNTERPARTS[target])
    }
    scores = dict(stored)
    for probe, predicted in by_probe.items():
        for name, base in COUNTERPARTS[target].items():
            values = predicted.values[rows]
            scores[_light(name, probe)] = values if base is None else stored[base] * values
    return Column(task, quality[rows], is_binary, scores)


def _stored(collection: Collection, rows: Rows, name: str) -> Array:
    values = [collection.rows[i].scores.get(name) for i in rows]
    return np.array([np.nan if value is None else value for value in values])


def _intervals(rows: Table, name: str) -> dict[str, Interval]:
    return {
        column: interval
        for column, row in rows.items()
        if name in row and (interval := row[name].interval)
    }


def light_name(name: str) -> str:
    """The light estimator beside a full one."""
    return f"high_{name}_light" if name == "semantic_entropy" else f"{name}_light"


def _light(name: str, probe: str) -> str:
    return f"{light_name(name)}, {probe}"


def _tasks(collection: Collection) -> Sequence[str]:
    return list(dict.fromkeys(row.task for row in collection.rows))


def _rows_of(collection: Collection, task: str) -> Rows:
    return np.flatnonzero([row.task == task for row in collection.rows])


def _without(collection: Collection, task: str) -> Collection:
    kept = [i for i, row in enumerate(collection.rows) if row.task != task]
    return Collection(
        collection.header, tuple(collection.rows[i] for i in kept), collection.features[kept]
    )
