"""Muon (Jordan et al. 2024): momentum with an orthogonalised update, for matrices of the blocks."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

# Coefficients of the quintic that pushes all singular values towards 1 when iterated.
_A, _B, _C = 3.4445, -4.7750, 2.0315
_ITERATIONS = 5


def orthogonalised(matrix: Tensor) -> Tensor:
    """The nearest semi-orthogonal matrix, roughly: singular values end between 0.7 and 1.2.

    (n, m) → (n, m).
    """
    wide = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    x = wide / (wide.norm() + 1e-7)
    for _ in range(_ITERATIONS):
        gram = x @ x.T
        x = _A * x + (_B * gram + _C * gram @ gram) @ x
    upright: Tensor = x if matrix.shape[0] <= matrix.shape[1] else x.T
    return upright


class Muon(torch.optim.Optimizer):
    """torch.optim.Muon in float32.

    PyTorch's own computes in bfloat16, which is very slow on a CPU without such instructions.
    """

    def __init__(
        self, params: Iterable[nn.Parameter], lr: float, weight_decay: float, momentum: float = 0.95
    ) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for param in group["params"]:
                if param.grad is not None:
                    _update(param, self.state[param], group)


def _update(param: Tensor, state: dict[str, Tensor], group: dict[str, Any]) -> None:
    if "momentum" not in state:
        state["momentum"] = torch.zeros_like(param)
    assert param.grad is not None  # noqa: S101, the caller checked
    momentum = state["momentum"].lerp_(param.grad, 1 - group["momentum"])
    update = orthogonalised(param.grad.lerp(momentum, group["momentum"]))
    # 0.2 · sqrt(longest side) gives the update the root mean square of an update by AdamW.
    step_size = group["lr"] * 0.2 * max(param.shape) ** 0.5
    param.mul_(1 - group["lr"] * group["weight_decay"]).add_(update, alpha=-step_size)
