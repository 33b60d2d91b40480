"""What a probe says of the answers of a collection, as it is and where it never saw their task."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from cocoa_lab.probes.checkpoint import Epoch
from cocoa_lab.probes.collection import Collection, features_of, without_task
from cocoa_lab.probes.from_collection import TrainingSpec, save, train_probe
from models.probes.probe import CARD, TrainedProbe
from models.records import Array


@dataclass(frozen=True, slots=True)
class Predicted:
    """A probe's predictions for the answers of a collection.

    Attributes:
        values: (N,) predicted inconsistency, or probability of high semantic entropy; NaN where
            there is no prediction.
        out_of_domain: (N,).
    """

    values: Array
    out_of_domain: Array

    @property
    def is_made(self) -> Array:
        """(N,) whether there is a prediction."""
        return ~np.isnan(self.values)


def predictions(probe: TrainedProbe, collection: Collection) -> Predicted:
    """What a probe says of the answers of a collection that holds its layer."""
    layer = collection.header.layers.index(probe.card.layer)
    features = features_of(
        collection, range(len(collection.answers)), layer, probe.card.token_features
    )
    readings = probe.read(features)
    values = np.array([reading.value for reading in readings])
    return Predicted(values, np.array([reading.out_of_domain for reading in readings]))


def leave_one_out(
    training: Collection,
    spec: TrainingSpec,
    measured: Collection,
    folder: Path,
    on_epoch: Callable[[Epoch], None],
) -> Predicted:
    """For each task's answers the predictions of a probe trained on the other tasks only.

    There are none for a task that is not in the training collection: the probe as it is never saw
    that one.

    The probes are kept in the folder, so that an interrupted evaluation does not train them again.
    """
    tasks = np.array([answer.task for answer in measured.answers])
    values, outside = np.full(len(tasks), np.nan), np.zeros(len(tasks), dtype=bool)
    trained_on = {answer.task for answer in training.answers}
    for task in dict.fromkeys(tasks.tolist()):
        if task not in trained_on:
            continue
        probe = _kept_probe(without_task(training, task), spec, folder, on_epoch)
        predicted = predictions(probe, measured)
        rows = np.flatnonzero(tasks == task)
        values[rows], outside[rows] = predicted.values[rows], predicted.out_of_domain[rows]
    return Predicted(values, outside)


def _kept_probe(
    training: Collection, spec: TrainingSpec, folder: Path, on_epoch: Callable[[Epoch], None]
) -> TrainedProbe:
    """The probe of this training, from the folder where it is there."""
    parts = [asdict(training.header), asdict(spec), [answer.id for answer in training.answers]]
    own = folder / hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
    if not (own / CARD).exists():
        own.mkdir(parents=True, exist_ok=True)
        probe, _ = train_probe(training, spec, own / "training.checkpoint.pt", on_epoch)
        save(probe, own)
    return TrainedProbe.open(own)
