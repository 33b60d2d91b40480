"""Products of states with a weight, on a processor by oneDNN where that is faster.

torch multiplies float32 matrices by MKL, which lays a weight out anew at each call. For the few
rows of a decoding step that takes longer than the arithmetic, so wide weights are laid out once, as
oneDNN wants them, and held twice (ADR 26).
"""

import platform
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from models.pretrained import PreTrainedModel

# Narrower weights gain too little for what each number of rows costs in memory.
_LEAST_WIDTH = 512
# oneDNN keeps about half a megabyte for each weight's shape and number of rows that it meets, so it
# meets these numbers only: rows are cut into blocks, and a block is filled up to the next number.
_BLOCKS = (1, 4, 8, 12, 16, 24, 32, 48, 64, 128, 256)
# A larger model is not held twice.
_MOST_BYTES = 2 << 30


@dataclass(slots=True)
class Product:
    """states (…, in) times the transposed weight, plus the bias: (…, out).

    Attributes:
        weight: (out, in).
        bias: (out,), or None.
    """

    weight: Tensor
    bias: Tensor | None
    _packed: Tensor | None = None

    def pack(self) -> None:
        """Lay the weight out for oneDNN, if it is wide enough to gain."""
        if min(self.weight.shape) >= _LEAST_WIDTH:
            self._packed = torch.ops.mkldnn._reorder_linear_weight(self.weight)

    def __call__(self, states: Tensor) -> Tensor:
        if self._packed is None:
            return F.linear(states, self.weight, self.bias)
        products = []
        for block in torch.split(states.reshape(-1, states.shape[-1]), _BLOCKS[-1]):
            rows = len(block)
            filled = F.pad(block, (0, 0, 0, block_size(rows) - rows))
            product = torch.ops.mkldnn._linear_pointwise(
                filled, self._packed, self.bias, "none", [], ""
            )
            products.append(product[:rows])
        return torch.cat(products).view(*states.shape[:-1], len(self.weight))


def block_size(rows: int) -> int:
    """Rows that a block of so many is filled up to.

    >>> [block_size(rows) for rows in (1, 11, 65)]
    [1, 12, 128]
    """
    return next(size for size in _BLOCKS if size >= rows)


def may_pack(model: PreTrainedModel) -> bool:
    """Whether a model's weights can be laid out for oneDNN and are few enough to be held twice."""
    is_x86 = platform.machine() in ("x86_64", "AMD64")  # on others nobody has measured
    if not is_x86 or not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    is_plain = model.device.type == "cpu" and model.dtype == torch.float32
    return is_plain and model.num_parameters() * 4 <= _MOST_BYTES
