"""How far states lie from those that were seen, on the worker's device."""

from collections.abc import Mapping

import torch
from torch import Tensor


class DeviceDistance:
    """Percentiles of distances from a Gaussian with a low-rank precision.

    Args:
        tensors: mean (d,), components (k, d), variances (k,), residual_variance () and percentiles
            (101,) of held-out distances.
    """

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        # In float64: a residual is the difference of two large numbers.
        self._known = {name: tensor.double() for name, tensor in tensors.items()}
        self._precisions = 1 / self._known["variances"]

    def percentile(self, features: Tensor) -> Tensor:
        """Percentiles (r,) in [0, 100] of features (r, d), float32."""
        known = self._known
        centred = features.double() - known["mean"]
        along = (centred @ known["components"].T).square_()
        residual = torch.linalg.vecdot(centred, centred) - along.sum(1)
        squared = along @ self._precisions
        squared += residual.clamp_(min=0) / known["residual_variance"]
        return interpolated(squared.sqrt(), known["percentiles"]).float()


def interpolated(values: Tensor, points: Tensor) -> Tensor:
    """`numpy.interp(values, points, 0 … N-1)` of values (r,) and rising points (N,)."""
    left = torch.searchsorted(points, values, right=True).sub(1).clamp(0, len(points) - 2)
    low, high = points[left], points[left + 1]
    inside = left + (values - low) / (high - low)
    position = torch.where(values < points[0], 0.0, inside)
    return torch.where(values >= points[-1], len(points) - 1.0, position)
