"""How far a training has come, and the checkpoint from which it goes on to the same end."""

import os
from dataclasses import astuple, dataclass, field
from itertools import starmap
from pathlib import Path
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Epoch:
    """One epoch of one layer, losses averaged over rows."""

    layer: int
    number: int
    training_loss: float
    validation_loss: float


@dataclass(slots=True)
class TrainingProgress:
    """What a checkpoint holds.

    Attributes:
        epochs: of all layers so far.
        finished: layers that are trained.
        best_loss, best_layer, best: validation loss, layer and weights of the best epoch of the
            finished layers.
        running: of the layer under way: network, optimizer, and its own best.
    """

    epochs: list[Epoch] = field(default_factory=list)
    finished: list[int] = field(default_factory=list)
    best_loss: float = float("inf")
    best_layer: int = 0
    best: dict[str, Tensor] = field(default_factory=dict)
    running: dict[str, Any] = field(default_factory=dict)


def save_checkpoint(path: Path | None, fingerprint: str, progress: TrainingProgress) -> None:
    """Write a checkpoint, where there is a path for it.

    A kill in the middle leaves the previous one whole.
    """
    if path is None:
        return
    partial = path.with_suffix(".partial")
    state = {name: getattr(progress, name) for name in TrainingProgress.__slots__}
    state["epochs"] = list(map(astuple, progress.epochs))
    torch.save({"fingerprint": fingerprint, **state}, partial)
    os.replace(partial, path)


def restore_checkpoint(path: Path | None, fingerprint: str) -> TrainingProgress:
    """What a checkpoint holds; nothing where there is none.

    Raises:
        ValueError: it is of other data or settings.
    """
    if path is None or not path.exists():
        return TrainingProgress()
    state = torch.load(path, weights_only=True)
    if state.pop("fingerprint") != fingerprint:
        raise ValueError(
            f"{path.name} is the checkpoint of other data or settings: delete it to start anew"
        )
    epochs = list(starmap(Epoch, state.pop("epochs")))
    return TrainingProgress(epochs=epochs, **state)
