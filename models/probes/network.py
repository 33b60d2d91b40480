"""The two networks from features (N, d) to one number a row, and how their output is read."""

import torch
from torch import Tensor, nn

from models.probes.card import Architecture, Target

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
            layers += [
                nn.Linear(dimension, width),
                nn.LayerNorm(width),
                nn.GELU(),
                nn.Dropout(_DROPOUT),
            ]
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
