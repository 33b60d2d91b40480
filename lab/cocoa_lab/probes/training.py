"""Training of probes: every candidate layer, of which the best is kept at its best epoch.

An interrupted training is resumed where it stopped.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch

from cocoa_lab.distances import fit_distance
from cocoa_lab.probes.agreement import AGREEMENT, as_targets
from cocoa_lab.probes.checkpoint import Epoch, TrainingProgress, restore_checkpoint, save_checkpoint
from cocoa_lab.probes.layer_training import (
    HYPERPARAMETERS,
    Hyperparameters,
    LayerTraining,
    tensor_of,
)
from cocoa_lab.probes.splits import Indices, Split, best_split, rows_by_split
from models.probes.card import Architecture, Target
from models.probes.domain import Distance
from models.probes.probe import ProbeNetwork
from models.records import Array

# Rows of each layer's features that tell one set of data from another.
_FINGERPRINT_ROWS = 64


@dataclass(frozen=True, slots=True)
class TrainingData:
    """N answers with what samples showed of them.

    Attributes:
        ids: decide the split of each row.
        features: by layer (N, d) float32.
        targets: (N,) inconsistency in [0, 1], or semantic entropy in nats.
    """

    ids: Sequence[str]
    features: Mapping[int, Array]
    targets: Array


@dataclass(frozen=True, slots=True)
class Trained:
    """The probe of the best layer at its best epoch, and how it came about.

    Attributes:
        split: entropy in nats above which an answer counts as high; None for the inconsistency.
        epochs: of all layers.
        sizes: rows of each split.
        metrics: of the splits that did not train.
        predictions: (N,) predicted and true, of the split that nothing chose by.
    """

    network: ProbeNetwork
    distance: Distance
    layer: int
    split: float | None
    epochs: Sequence[Epoch]
    sizes: Mapping[str, int]
    metrics: Mapping[str, Mapping[str, float | None]]
    predictions: tuple[Array, Array]


def train(
    data: TrainingData,
    *,
    target: Target,
    architecture: Architecture,
    seed: int,
    hyperparameters: Hyperparameters | None = None,
    checkpoint: Path | None = None,
    on_epoch: Callable[[Epoch], None] = lambda epoch: None,
) -> Trained:
    """Train on every layer of the data and keep the one with the lowest validation loss.

    Args:
        data: at least `MIN_ROWS`.
        target: what `data.targets` are.
        architecture: of the network.
        seed: of initial weights, order and dropout.
        hyperparameters: those of the architecture by default.
        checkpoint: written after each epoch, continued where it exists, removed at the end.
        on_epoch: told each epoch, also those that a checkpoint held.

    Raises:
        ValueError: too few rows, targets that do not vary, or a checkpoint of other data or
            settings.
    """
    chosen = hyperparameters or HYPERPARAMETERS[architecture]
    rows = rows_by_split(data.ids)
    split = None
    if target == "semantic_entropy":
        split = best_split(data.targets[rows["training"]])
    targets = as_targets(data.targets, split)
    if np.ptp(targets[rows["training"]]) == 0 or np.ptp(targets[rows["validation"]]) == 0:
        raise ValueError("the targets do not vary: there is nothing to learn")
    own = fingerprint(data, target, architecture, seed, chosen)
    progress = restore_checkpoint(checkpoint, own)
    for epoch in progress.epochs:
        on_epoch(epoch)
    with torch.random.fork_rng(devices=[]):
        for layer, features in data.features.items():
            if layer not in progress.finished:
                run = LayerTraining(
                    layer, features, targets, rows, target, architecture, chosen, seed
                )
                run.train(progress, lambda: save_checkpoint(checkpoint, own, progress), on_epoch)
        trained = _finished(progress, data, targets, rows, target, architecture, split)
    if checkpoint is not None:
        checkpoint.unlink(missing_ok=True)
    return trained


def _finished(
    progress: TrainingProgress,
    data: TrainingData,
    targets: Array,
    rows: Mapping[Split, Indices],
    target: Target,
    architecture: Architecture,
    split: float | None,
) -> Trained:
    features = data.features[progress.best_layer]
    network = ProbeNetwork(architecture, target, features.shape[1])
    # Measured as it is stored.
    network.load_state_dict({name: tensor.half().float() for name, tensor in progress.best.items()})
    network.eval()
    measured: tuple[Split, ...] = ("validation", "test")
    predicted: dict[Split, Array] = {}
    metrics: dict[str, dict[str, float | None]] = {}
    with torch.inference_mode():
        for name in measured:
            predicted[name] = network.values(tensor_of(features[rows[name]])).double().numpy()
            metrics[name] = AGREEMENT[target](predicted[name], targets[rows[name]])
    return Trained(
        network=network,
        distance=fit_distance(features[rows["training"]], features[rows["validation"]]),
        layer=progress.best_layer,
        split=split,
        epochs=progress.epochs,
        sizes=dict(zip(rows, map(len, rows.values()), strict=True)),
        metrics=metrics,
        predictions=(predicted["test"], targets[rows["test"]]),
    )


def fingerprint(
    data: TrainingData,
    target: Target,
    architecture: Architecture,
    seed: int,
    hyperparameters: Hyperparameters,
) -> str:
    """Tells one training from another, by its settings and data."""
    settings = [
        target,
        architecture,
        seed,
        asdict(hyperparameters),
        list(data.ids),
        list(data.features),
    ]
    digest = hashlib.sha256(json.dumps(settings).encode())
    digest.update(np.ascontiguousarray(data.targets, np.float64).tobytes())
    for features in data.features.values():
        some = features[:: max(1, len(features) // _FINGERPRINT_ROWS)]
        digest.update(np.ascontiguousarray(some, np.float32).tobytes())
    return digest.hexdigest()
