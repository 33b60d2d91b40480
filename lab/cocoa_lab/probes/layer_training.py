"""Training of one network on one layer's features, epoch by epoch."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from cocoa_lab.probes.checkpoint import Epoch, TrainingProgress
from cocoa_lab.probes.splits import Indices, Split
from models.probes.card import Architecture, Target
from models.probes.probe import ProbeNetwork
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


class LayerTraining:
    """One layer's training.

    Args:
        layer: its number.
        features: (N, d).
        targets: (N,) in [0, 1].
        rows: indices of each split.
        target: what the targets are.
        architecture: of the network.
        hyperparameters: of the training.
        seed: of initial weights, order and dropout.
    """

    def __init__(
        self,
        layer: int,
        features: Array,
        targets: Array,
        rows: Mapping[Split, Indices],
        target: Target,
        architecture: Architecture,
        hyperparameters: Hyperparameters,
        seed: int,
    ) -> None:
        self._layer, self._seed, self._hyper = layer, seed, hyperparameters
        self._tensors: dict[Split, tuple[Tensor, Tensor]] = {}
        for split, index in rows.items():
            self._tensors[split] = tensor_of(features[index]), tensor_of(targets[index])
        torch.manual_seed(_derived(seed, layer, 0))
        self._network = ProbeNetwork(architecture, target, features.shape[1])
        standardise(self._network, self._tensors["training"][0])
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
        """Train to the end, from where `progress` says that this layer was interrupted.

        Args:
            progress: told each epoch, and the best weights where they are the best of all layers.
            save: called after each epoch.
            on_epoch: told each epoch.
        """
        first, best_epoch = 1, 0
        best_loss, best = float("inf"), self._state()
        if running := progress.running:
            self._network.load_state_dict(running["network"])
            self._optimizer.load_state_dict(running["optimizer"])
            first, best_epoch = running["epoch"] + 1, running["best_epoch"]
            best_loss, best = running["best_loss"], running["best"]
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
            loss = loss_of(self._network, features[batch], targets[batch])
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
        return loss_of(self._network, *self._tensors[split]).item()

    def _state(self) -> dict[str, Tensor]:
        state = self._network.state_dict()
        return {name: tensor.detach().clone() for name, tensor in state.items()}


def standardise(network: ProbeNetwork, features: Tensor) -> None:
    """Take mean and scale of the network's input from training rows (N, d); only `small` does."""
    if network.architecture == "small":
        network.mean.copy_(features.mean(0))
        network.scale.copy_(features.std(0).clamp(min=1e-6))


def loss_of(network: ProbeNetwork, features: Tensor, targets: Tensor) -> Tensor:
    """Mean loss: squared error of the inconsistency, or binary cross-entropy of the class."""
    raw = network(features)
    if network.target == "semantic_entropy":
        return functional.binary_cross_entropy_with_logits(raw, targets)
    if not network.is_plain_regression:
        raw = raw.sigmoid()
    return functional.mse_loss(raw, targets)


def tensor_of(values: Array) -> Tensor:
    """A float32 copy, since a collection on disk cannot be written."""
    return torch.from_numpy(np.array(values, np.float32))


def _derived(seed: int, layer: int, epoch: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}/{layer}/{epoch}".encode()).digest()[:7])
