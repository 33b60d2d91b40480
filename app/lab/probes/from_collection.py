"""From a collection to a probe and its card.

The probe is trained on the rows that have the target, and the card says so.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from app.lab.probes.checkpoint import Epoch
from app.lab.probes.collection import Collection
from app.lab.probes.training import HYPERPARAMETERS, Examples, Trained, train
from models.probes.card import Architecture, Card, Target
from models.probes.probe import TrainedProbe


@dataclass(frozen=True, slots=True)
class Training:
    """What is to be trained.

    Attributes:
        layers: candidates; None for all that the collection holds.
    """

    target: Target
    architecture: Architecture
    layers: tuple[int, ...] | None = None
    seed: int = 0


def examples_of(
    collection: Collection, target: Target, layers: tuple[int, ...] | None = None
) -> Examples:
    """The rows that have the target, with the features of these layers, or of all.

    Raises:
        ValueError: a layer that the collection does not hold, or no row has the target.
    """
    header = collection.header
    if missing := set(layers or ()) - set(header.layers):
        raise ValueError(f"the collection holds layers {list(header.layers)}, not {min(missing)}")
    kept = [i for i, row in enumerate(collection.rows) if row.scores.get(target) is not None]
    if not kept:
        raise ValueError(f"no answer of the collection has a {target}")
    return Examples(
        ids=[collection.rows[i].id for i in kept],
        features={
            layer: np.asarray(collection.features[kept, i])
            for i, layer in enumerate(header.layers)
            if layers is None or layer in layers
        },
        targets=np.array([collection.rows[i].scores[target] for i in kept], dtype=np.float64),
    )


def train_probe(
    collection: Collection,
    training: Training,
    checkpoint: Path | None,
    on_epoch: Callable[[Epoch], None],
) -> tuple[TrainedProbe, Trained]:
    """The probe, not yet saved, and how it came about.

    Raises:
        ValueError: see `examples_of` and `app.lab.probes.training.train`.
    """
    examples = examples_of(collection, training.target, training.layers)
    trained = train(
        examples,
        target=training.target,
        architecture=training.architecture,
        seed=training.seed,
        checkpoint=checkpoint,
        on_epoch=on_epoch,
    )
    return TrainedProbe(
        _card(collection, training, trained), trained.network, trained.distance
    ), trained


def _card(collection: Collection, training: Training, trained: Trained) -> Card:
    header = collection.header
    return Card(
        target=training.target,
        model_id=header.model,
        revision=header.revision,
        dtype=header.dtype,
        layer=trained.layer,
        dimension=header.dimension,
        architecture=training.architecture,
        training_set=header.prompts,
        sizes=trained.sizes,
        tasks=tuple(sorted({row.task for row in collection.rows})),
        sampling=header.sampling,
        compared_by=header.compared_by,
        split=trained.split,
        hyperparameters=asdict(HYPERPARAMETERS[training.architecture]),
        seed=training.seed,
        metrics=trained.metrics,
    )
