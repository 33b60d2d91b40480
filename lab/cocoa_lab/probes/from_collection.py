"""From a collection to a probe and its card.

The probe is trained on the answers that have the target, and the card says so.
"""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

from cocoa_lab.distances import arrays_of
from cocoa_lab.log import AnotherRun
from cocoa_lab.probes.checkpoint import Epoch
from cocoa_lab.probes.collection import Collection, features_of
from cocoa_lab.probes.layer_training import HYPERPARAMETERS
from cocoa_lab.probes.training import Trained, TrainingData, fingerprint, train
from models.probes.card import TOKEN_FEATURES, Architecture, Card, Target, TokenFeature
from models.probes.probe import CARD, DISTANCE, NETWORK, WEIGHTS, TrainedProbe, sha256_of
from models.records import Array

# Beside a probe, the fingerprint of the training that made it.
_MARK = "training.sha256"

# What the networks read beside the hidden state; the paper's read nothing else.
READ_BESIDE: Mapping[Architecture, tuple[TokenFeature, ...]] = {
    "small": TOKEN_FEATURES,
    "paper": (),
}


@dataclass(frozen=True, slots=True)
class TrainingSpec:
    """What is to be trained.

    Attributes:
        layers: candidates; None for all that the collection holds.
    """

    target: Target
    architecture: Architecture
    layers: tuple[int, ...] | None = None
    seed: int = 0


def train_probe(
    collection: Collection,
    spec: TrainingSpec,
    checkpoint: Path | None,
    on_epoch: Callable[[Epoch], None],
) -> tuple[TrainedProbe, Trained]:
    """The probe, not yet saved, and how it came about.

    Raises:
        ValueError: see `training_data` and `cocoa_lab.probes.training.train`.
    """
    trained = train(
        training_data(collection, spec.target, spec.architecture, spec.layers),
        target=spec.target,
        architecture=spec.architecture,
        seed=spec.seed,
        checkpoint=checkpoint,
        on_epoch=on_epoch,
    )
    card = _card(collection, spec, trained)
    return TrainedProbe(card, trained.network, trained.distance), trained


def claim(folder: Path, collection: Collection, spec: TrainingSpec, *, force: bool) -> str:
    """The fingerprint of a training whose probe may go to this folder.

    Raises:
        AnotherRun: the probe of another training lies there, and `force` does not say that it may
            go.
        ValueError: see `training_data`.
    """
    own = fingerprint(
        training_data(collection, spec.target, spec.architecture, spec.layers),
        spec.target,
        spec.architecture,
        spec.seed,
        HYPERPARAMETERS[spec.architecture],
    )
    mark = folder / _MARK
    is_own = mark.exists() and mark.read_text(encoding="utf-8").strip() == own
    if (folder / CARD).exists() and not is_own and not force:
        raise AnotherRun(
            f"{folder} holds the probe of another training: "
            "choose another folder, or --force overwrites it"
        )
    return own


def save_marked(probe: TrainedProbe, folder: Path, own: str) -> None:
    """Write the probe, and which training made it."""
    (folder / _MARK).write_text(f"{own}\n", encoding="utf-8")
    save(probe, folder)


def save(probe: TrainedProbe, folder: Path) -> Card:
    """Write weights, in float16, and card.

    Returns the card with the weights' hash, which the probe takes on.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {}
    for name, tensor in probe.network.state_dict().items():
        tensors[NETWORK + name] = tensor.half()
    for name, array in arrays_of(probe.distance).items():
        tensors[DISTANCE + name] = torch.from_numpy(array)
    partial = folder / (WEIGHTS + ".partial")
    save_file(tensors, partial, metadata={"format": "pt"})
    partial.chmod(0o644)  # others than the one who trained it serve it
    os.replace(partial, folder / WEIGHTS)
    probe.card = replace(probe.card, sha256=sha256_of(folder / WEIGHTS))
    text = json.dumps(asdict(probe.card), indent=2, ensure_ascii=False) + "\n"
    (folder / CARD).write_text(text, encoding="utf-8")
    return probe.card


def training_data(
    collection: Collection,
    target: Target,
    architecture: Architecture,
    layers: tuple[int, ...] | None = None,
) -> TrainingData:
    """The answers that have the target, with the features of these layers, or of all.

    Raises:
        ValueError: a layer that the collection does not hold, or no answer has the target.
    """
    header, answers = collection.header, collection.answers
    if missing := set(layers or ()) - set(header.layers):
        raise ValueError(f"the collection holds layers {list(header.layers)}, not {min(missing)}")
    ids, targets, kept = [], [], []
    for i, answer in enumerate(answers):
        if (value := answer.scores.get(target)) is not None:
            ids.append(answer.id)
            targets.append(value)
            kept.append(i)
    if not kept:
        raise ValueError(f"no answer of the collection has a {target}")
    names = READ_BESIDE[architecture]
    features: dict[int, Array] = {}
    for i, layer in enumerate(header.layers):
        if layers is None or layer in layers:
            features[layer] = features_of(collection, kept, i, names)
    return TrainingData(
        ids=ids,
        features=features,
        targets=np.array(targets, dtype=np.float64),
    )


def _card(collection: Collection, spec: TrainingSpec, trained: Trained) -> Card:
    header = collection.header
    return Card(
        target=spec.target,
        model_id=header.model,
        revision=header.revision,
        dtype=header.dtype,
        layer=trained.layer,
        dimension=header.dimension,
        token_features=READ_BESIDE[spec.architecture],
        architecture=spec.architecture,
        training_set=header.prompts,
        sizes=trained.sizes,
        tasks=tuple(sorted({answer.task for answer in collection.answers})),
        sampling=header.sampling,
        compared_by=header.compared_by,
        split=trained.split,
        hyperparameters=asdict(HYPERPARAMETERS[spec.architecture]),
        seed=spec.seed,
        metrics=trained.metrics,
        pooling=header.pooling,
    )
