"""Products of states with fixed weights, on a processor by oneDNN where that is faster.

torch multiplies float32 matrices by MKL, which lays the weights out anew at each call, and on
processors of others than Intel leaves half of the width of their vectors unused. oneDNN takes
weights that were laid out once: two to four times as fast from some hundred thousand
multiplications on (docs/adr/0019-packed-weights.md). Below that its own call costs more.
"""

import platform
from dataclasses import dataclass
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# Multiplications from which oneDNN's call is worth what it costs, some 9 µs.
_LEAST_MULTIPLICATIONS = 1 << 19
# A model of more bytes is not held twice, once as it is and once laid out anew.
_MOST_BYTES = 2 << 30


@dataclass(frozen=True, slots=True)
class Product:
    """states (…, in) times the transposed weight, plus the bias: (…, out).

    Attributes:
        weight: (out, in).
        bias: (out,), or None.
        packed: `weight` as oneDNN wants it; None where MKL, or another device, takes all products.
    """

    weight: Tensor
    bias: Tensor | None
    packed: Tensor | None

    @classmethod
    def of(cls, weight: Tensor, bias: Tensor | None, *, packs: bool) -> Self:
        """The product with a weight, which is held twice where `packs`."""
        packed = torch.ops.mkldnn._reorder_linear_weight(weight.detach()) if packs else None
        return cls(weight.detach(), None if bias is None else bias.detach(), packed)

    def __call__(self, states: Tensor) -> Tensor:
        multiplications = states.numel() * len(self.weight)
        if self.packed is None or multiplications < _LEAST_MULTIPLICATIONS:
            return F.linear(states, self.weight, self.bias)
        product: Tensor = torch.ops.mkldnn._linear_pointwise(
            states, self.packed, self.bias, "none", [], ""
        )
        return product


class PackedLinear(nn.Module):
    """A linear layer by its `Product`; its parameters keep their names. It has no gradients."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.weight, self.bias = linear.weight, linear.bias
        self._product = Product.of(linear.weight, linear.bias, packs=True)

    def forward(self, states: Tensor) -> Tensor:
        """See `Product`."""
        return self._product(states)


def is_packable(model: nn.Module) -> bool:
    """Whether the products of a model should be oneDNN's."""
    weights = list(model.parameters())
    return (
        platform.machine() in ("x86_64", "AMD64")  # on others nobody has measured
        and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
        and all(one.device.type == "cpu" and one.dtype == torch.float32 for one in weights)
        and sum(one.nbytes for one in weights) <= _MOST_BYTES
    )


def pack_linears(model: nn.Module) -> None:
    """Have the plain linear layers of a model multiply by oneDNN, where it `is_packable`.

    One that somebody has put a hook on stays as it is.
    """
    if not is_packable(model):
        return
    for module in list(model.modules()):
        for name, child in module.named_children():
            is_watched = child._forward_hooks or child._forward_pre_hooks
            if type(child) is nn.Linear and not is_watched:
                setattr(module, name, PackedLinear(child))
