"""A trained probe: its network, its folder, and its predictions for answers."""

import hashlib
from pathlib import Path
from typing import Self

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from models.errors import InvalidLogits
from models.probes.card import Architecture, Card, ProbeMismatch, Target, read_card
from models.probes.domain import DOMAIN_PERCENTILE, Distance
from models.probes.protocol import Probe
from models.records import Array, ProbeReading

WEIGHTS, CARD = "probe.safetensors", "card.json"
# Prefixes of the tensors in that file.
NETWORK, DISTANCE = "network.", "distance."
_WIDTHS: dict[Architecture, tuple[int, ...]] = {"small": (2048,), "paper": (8192, 4096, 2048)}
_DROPOUT = 0.1


class ProbeNetwork(nn.Module):
    """Hidden layers of Linear, LayerNorm, GELU, dropout.

    `small` standardises its input by `mean` and `scale`, `paper` does not.

    Args:
        architecture: "small" is d → 2048 → 1, "paper" the released d → 8192 → 4096 → 2048 → 1.
        target: decides how the last number is read.
        dimension: d.
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, architecture: Architecture, target: Target, dimension: int) -> None:
        super().__init__()
        self.architecture, self.target = architecture, target
        self.register_buffer("mean", torch.zeros(dimension))
        self.register_buffer("scale", torch.ones(dimension))
        layers: list[nn.Module] = []
        for width in _WIDTHS[architecture]:
            layers += [nn.Linear(dimension, width), nn.LayerNorm(width), nn.GELU()]
            layers.append(nn.Dropout(_DROPOUT))
            dimension = width
        self.layers = nn.Sequential(*layers, nn.Linear(dimension, 1))

    def forward(self, features: Tensor) -> Tensor:
        """Raw outputs (N,)."""
        output: Tensor = self.layers((features - self.mean) / self.scale)[:, 0]
        return output

    def values(self, features: Tensor) -> Tensor:
        """Outputs (N,) in [0, 1]: a sigmoid.

        The paper's regression has no sigmoid, so its outputs are clamped.
        """
        raw = self(features)
        values: Tensor = raw.clamp(0, 1) if self.is_plain_regression else raw.sigmoid()
        return values

    @property
    def is_plain_regression(self) -> bool:
        """True where the output is the prediction itself, without a sigmoid."""
        return self.architecture == "paper" and self.target != "semantic_entropy"


class TrainedProbe:
    def __init__(self, card: Card, network: ProbeNetwork, distance: Distance) -> None:
        self.card = card
        self.network = network.eval()
        self.distance = distance

    @classmethod
    def open(cls, folder: Path) -> Self:
        """The probe of a folder, whatever model it is for.

        Raises:
            ProbeMismatch: card or weights are missing, or do not belong together.
        """
        card = read_card(folder / CARD)
        if not (folder / WEIGHTS).is_file() or sha256_of(folder / WEIGHTS) != card.sha256:
            raise ProbeMismatch(f"{folder.name}/{WEIGHTS} is not the file that its card describes")
        tensors = load_file(folder / WEIGHTS)
        num_features = card.dimension + len(card.token_features)
        network = ProbeNetwork(card.architecture, card.target, num_features)
        weights, arrays = {}, {}
        for name, tensor in tensors.items():
            if name.startswith(NETWORK):
                weights[name.removeprefix(NETWORK)] = tensor.float()
            elif name.startswith(DISTANCE):
                arrays[name.removeprefix(DISTANCE)] = tensor.numpy()
        network.load_state_dict(weights)
        return cls(card, network, Distance.from_arrays(arrays))

    def values(self, features: Array) -> Array:
        """Predictions (N,) in [0, 1] of rows (N, d + k)."""
        with torch.inference_mode():
            inputs = torch.from_numpy(np.array(features, np.float32))
            values: Array = self.network.values(inputs).numpy()
        return values

    def read(self, features: Array) -> list[ProbeReading]:
        if not np.isfinite(features).all():
            raise InvalidLogits("the model's hidden states are not finite numbers")
        values, percentiles = self.values(features), self.distance.percentile(features)
        readings = []
        for value, percentile in zip(values.tolist(), percentiles.tolist(), strict=True):
            readings.append(ProbeReading(value, percentile, percentile > DOMAIN_PERCENTILE))
        return readings


def sha256_of(path: Path) -> str:
    """Hash of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


_: type[Probe] = TrainedProbe  # mypy holds the class to its protocol
