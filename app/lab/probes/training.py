"""Training of probes: every candidate layer, its best validation epoch.

An interrupted training is resumed where it stopped.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from app.lab.probes.agreement import classification_metrics, regression_metrics
from app.lab.probes.checkpoint import Epoch, TrainingProgress, restore_checkpoint, save_checkpoint
from app.lab.probes.splits import Split, best_split, rows_by_split
from models.probes.card import Architecture, Target
from models.probes.distance import Distance
from models.probes.network import ProbeNetwork
from models.records import Array


@dataclass(frozen=True, slots=True)
class Hyperparameters:
    """Of one architecture; see docs/light.md.

    Attributes:
        patience: epochs without a better validation loss before training ends; 0 never ends it
            early.
        warmup_ratio: share of all steps over which the learning rate rises; it then falls linearly
            to 0. None keeps it.
        clip: largest norm of a gradient; None does not clip.
    """

    learning_rate: float
    weight_decay: float
    batch_size: int
    epochs: int
    patience: int = 0
    warmup_ratio: float | None = None
    clip: float | None = None


HYPERPARAMETERS: Mapping[Architecture, Hyperparameters] = {
    "small": Hyperparameters(
        learning_rate=3e-4, weight_decay=0.01, batch_size=64, epochs=50, patience=5
    ),
    "paper": Hyperparameters(
        learning_rate=1e-5, weight_decay=0.1, batch_size=28, epochs=20, warmup_ratio=0.05, clip=1.0
    ),
}


@dataclass(frozen=True, slots=True)
class Examples:
    """N answers with what samples showed of them.

    Attributes:
        ids: decide the split of each row.
        features: by layer (N, d) float32.
        targets: (N,) consistency in [0, 1], or semantic entropy in nats.
    """

    ids: Sequence[str]
    features: Mapping[int, Array]
    targets: Array


@dataclass(frozen=True, slots=True)
class Trained:
    """The probe of the best layer at its best epoch, and how it came about."""

    network: ProbeNetwork
    distance: Distance
    layer: int
    split: float | None
    epochs: Sequence[Epoch]
    sizes: Mapping[str, int]
    metrics: Mapping[str, Mapping[str, float | None]]
    predictions: tuple[Array, Array]  # of the third split: predicted and true


def train(
    examples: Examples,
    *,
    target: Target,
    architecture: Architecture,
    seed: int,
    hyperparameters: Hyperparameters | None = None,
    checkpoint: Path | None = None,
    on_epoch: Callable[[Epoch], None] = lambda epoch: None,
) -> Trained:
    """Train on every layer of the examples and keep the one with the lowest validation loss.

    Args:
        examples: at least `MIN_ROWS`.
        target: what `examples.targets` are.
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
    rows = rows_by_split(examples.ids)
    split = best_split(examples.targets[rows["training"]]) if target == "semantic_entropy" else None
    targets = examples.targets if split is None else (examples.targets > split).astype(np.float64)
    if np.ptp(targets[rows["training"]]) == 0 or np.ptp(targets[rows["validation"]]) == 0:
        raise ValueError("the targets do not vary: there is nothing to learn")
    fingerprint = _fingerprint(examples, target, architecture, seed, chosen)
    progress = restore_checkpoint(checkpoint, fingerprint)
    for epoch in progress.epochs:
        on_epoch(epoch)
    with torch.random.fork_rng(devices=[]):
        for layer, features in examples.features.items():
            if layer not in progress.finished:
                run = _LayerRun(layer, features, targets, rows, target, architecture, chosen, seed)
                run.train(
                    progress, lambda: save_checkpoint(checkpoint, fingerprint, progress), on_epoch
                )
        trained = _finished(progress, examples, targets, rows, target, architecture, split)
    if checkpoint is not None:
        checkpoint.unlink(missing_ok=True)
    return trained


class _LayerRun:
    """One layer's training."""

    def __init__(
        self,
        layer: int,
        features: Array,
        targets: Array,
        rows: Mapping[Split, NDArray[np.intp]],
        target: Target,
        architecture: Architecture,
        hyperparameters: Hyperparameters,
        seed: int,
    ) -> None:
        self._layer, self._seed, self._hyper = layer, seed, hyperparameters
        self._tensors = {
            split: (_tensor(features[index]), _tensor(targets[index]))
            for split, index in rows.items()
            if len(index)
        }
        torch.manual_seed(_derived(seed, layer, 0))
        self._network = ProbeNetwork(architecture, target, features.shape[1])
        self._network.standardise(self._tensors["training"][0])
        self._optimizer = torch.optim.AdamW(
            self._network.parameters(),
            lr=hyperparameters.learning_rate,
            weight_decay=hyperparameters.weight_decay,
        )

    def train(
        self,
        progress: TrainingProgress,
        save: Callable[[], None],
        on_epoch: Callable[[Epoch], None],
    ) -> None:
        first, best_loss, best = 1, float("inf"), self._state()
        best_epoch = 0
        if progress.running:
            self._network.load_state_dict(progress.running["network"])
            self._optimizer.load_state_dict(progress.running["optimizer"])
            first, best = progress.running["epoch"] + 1, progress.running["best"]
            best_loss, best_epoch = progress.running["best_loss"], progress.running["best_epoch"]
        for number in range(first, self._hyper.epochs + 1):
            if self._hyper.patience and number - best_epoch > self._hyper.patience and best_epoch:
                break
            epoch = Epoch(self._layer, number, self._epoch(number), self._loss("validation"))
            if epoch.validation_loss < best_loss:
                best_loss, best_epoch, best = epoch.validation_loss, number, self._state()
            progress.epochs.append(epoch)
            progress.running = {
                "network": self._state(),
                "optimizer": self._optimizer.state_dict(),
                "epoch": number,
                "best": best,
                "best_loss": best_loss,
                "best_epoch": best_epoch,
            }
            save()
            on_epoch(epoch)
        if best_loss < progress.best_loss:
            progress.best_loss, progress.best_layer, progress.best = best_loss, self._layer, best
        progress.finished.append(self._layer)
        progress.running = {}

    def _epoch(self, number: int) -> float:
        """Mean training loss of one pass.

        Order and dropout depend on the epoch alone, so that it can be resumed.
        """
        features, targets = self._tensors["training"]
        losses = 0.0
        self._network.train()
        torch.manual_seed(_derived(self._seed, self._layer, number))
        batches = torch.split(torch.randperm(len(targets)), self._hyper.batch_size)
        for i, batch in enumerate(batches):
            self._set_rate((number - 1) * len(batches) + i, self._hyper.epochs * len(batches))
            loss = self._network.loss(features[batch], targets[batch])
            self._optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            if self._hyper.clip is not None:
                torch.nn.utils.clip_grad_norm_(self._network.parameters(), self._hyper.clip)
            self._optimizer.step()
            losses += loss.item() * len(batch)
        return losses / len(targets)

    def _set_rate(self, step: int, num_steps: int) -> None:
        if (ratio := self._hyper.warmup_ratio) is None:
            return
        warmup = max(1, round(ratio * num_steps))
        scale = min((step + 1) / warmup, max(0.0, (num_steps - step) / max(1, num_steps - warmup)))
        for group in self._optimizer.param_groups:
            group["lr"] = self._hyper.learning_rate * scale

    @torch.no_grad()
    def _loss(self, split: Split) -> float:
        self._network.eval()
        return self._network.loss(*self._tensors[split]).item()

    def _state(self) -> dict[str, Tensor]:
        return {
            name: tensor.detach().clone() for name, tensor in self._network.state_dict().items()
        }


def _finished(
    progress: TrainingProgress,
    examples: Examples,
    targets: Array,
    rows: Mapping[Split, NDArray[np.intp]],
    target: Target,
    architecture: Architecture,
    split: float | None,
) -> Trained:
    features = examples.features[progress.best_layer]
    network = ProbeNetwork(architecture, target, features.shape[1])
    # Measured as it is stored.
    network.load_state_dict({name: tensor.half().float() for name, tensor in progress.best.items()})
    network.eval()
    measure = regression_metrics if target == "consistency" else classification_metrics
    measured: tuple[Split, ...] = ("validation", "test")
    predicted = {}
    with torch.inference_mode():
        for name in measured:
            predicted[name] = network.values(_tensor(features[rows[name]])).double().numpy()
    return Trained(
        network=network,
        distance=Distance.fit(features[rows["training"]], features[rows["validation"]]),
        layer=progress.best_layer,
        split=split,
        epochs=progress.epochs,
        sizes={name: len(index) for name, index in rows.items()},
        metrics={name: measure(values, targets[rows[name]]) for name, values in predicted.items()},
        predictions=(predicted["test"], targets[rows["test"]]),
    )


def _fingerprint(
    examples: Examples,
    target: Target,
    architecture: Architecture,
    seed: int,
    hyperparameters: Hyperparameters,
) -> str:
    digest = hashlib.sha256()
    settings = [
        target,
        architecture,
        seed,
        asdict(hyperparameters),
        list(examples.ids),
        list(examples.features),
    ]
    digest.update(json.dumps(settings).encode())
    digest.update(np.ascontiguousarray(examples.targets, np.float64).tobytes())
    for features in examples.features.values():
        digest.update(
            np.ascontiguousarray(features[:: max(1, len(features) // 64)], np.float32).tobytes()
        )
    return digest.hexdigest()


def _derived(seed: int, layer: int, epoch: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}/{layer}/{epoch}".encode()).digest()[:7])


def _tensor(values: Array) -> Tensor:
    return torch.from_numpy(
        np.array(values, np.float32)
    )  # a copy: a collection on disk cannot be written
