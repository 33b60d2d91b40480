"""Products of states with weights, on a processor by oneDNN where that is faster.

torch multiplies float32 matrices by MKL, which lays a weight out anew at each call. For the few
rows of a decoding step that takes longer than the arithmetic, so weights are laid out once, as
oneDNN wants them, and those of small models held both ways (ADR 26).
"""

import platform
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.checkpoints import multiplies_quickly
from models.pretrained import PreTrainedModel

# oneDNN keeps about half a megabyte for each weight's shape and number of rows that it meets, so it
# meets these numbers only: rows are cut into blocks, and a block is filled up to the next number.
_BLOCKS: tuple[int, ...] = (*range(1, 13), 16, 24, 32, 48, 64, 128, 256, 512)
# In bfloat16 oneDNN may sum a row alone in another order than one of several, and with AMX few rows
# in another one than many: there the rows of a step, and those of a text, have blocks of their own.
_OF_STEPS, _OF_TEXTS = (*range(2, 13), 16, 24, 32), (64,)
# So few rows of float32 MKL multiplies as quickly, by weights that are stored by columns.
_FEW = (1, 2)
# A larger model is not held both ways.
_BOTH_BYTES = 256 << 20


@dataclass(slots=True)
class Product:
    """states (…, in) times the transposed weight, plus the bias: (…, out)."""

    num_out: int  # numbers of a row of it
    weight: Tensor | None  # (out, in); None where it is held as oneDNN wants it only
    bias: Tensor | None  # (out,), or None
    _packed: Tensor | None = None

    def __call__(self, states: Tensor) -> Tensor:
        rows = states.shape[:-1].numel()
        is_for_mkl = rows in _FEW and states.dtype == torch.float32
        if self.weight is not None and (self._packed is None or is_for_mkl):
            return F.linear(states, self.weight, self.bias)
        sizes = _BLOCKS
        if states.dtype != torch.float32:
            sizes = _sizes_of_half(states)
        if rows in sizes:
            return self._multiplied(states)
        products = []
        for block in torch.split(states.reshape(-1, states.shape[-1]), sizes[-1]):
            num_filled = next(size for size in sizes if size >= len(block))
            filled = F.pad(block, (0, 0, 0, num_filled - len(block)))
            products.append(self._multiplied(filled)[: len(block)])
        return torch.cat(products).view(*states.shape[:-1], self.num_out)

    def _multiplied(self, states: Tensor) -> Tensor:
        product: Tensor = torch.ops.mkldnn._linear_pointwise(
            states, self._packed, self.bias, "none", [], ""
        )
        return product


def product_of(*linears: nn.Linear, packs: bool, keeps: bool = True) -> Product:
    """Products of one input as one; the linears' own weights become views of its.

    Args:
        linears: of one input.
        packs: whether the weight is laid out for oneDNN.
        keeps: whether it is held as it was, too; else the linears lose theirs.
    """
    biases = [linear.bias.detach() for linear in linears if linear.bias is not None]
    bias = torch.cat(biases) if biases else None
    weight, packed = linears[0].weight.detach(), None
    if len(linears) > 1:
        weight = torch.cat([linear.weight.detach() for linear in linears])
    if packs:
        packed = torch.ops.mkldnn._reorder_linear_weight(weight)
        weight = weight.T.contiguous().T if keeps else weight.new_empty(0)
    start, num_out = 0, sum(linear.out_features for linear in linears)
    for linear in linears:
        end = start + linear.out_features
        linear.weight = nn.Parameter(weight[start:end], requires_grad=False)
        start = end
    return Product(num_out, weight if keeps else None, bias, packed)


def copy_unpacked(model: PreTrainedModel) -> None:
    """Copy what no product lays out, as any view of a mapped file keeps all of it in memory."""
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            if name != "weight" or not isinstance(module, nn.Linear):
                parameter.data = parameter.data.clone()


def _sizes_of_half(states: Tensor) -> tuple[int, ...]:
    """Numbers of rows of the blocks that states (…, S, in) in half precision are cut into."""
    if not torch.cpu.get_capabilities().get("amx_tile"):
        return _BLOCKS[1:]
    if states.shape[-2] == 1:
        return _OF_STEPS
    return _OF_TEXTS


def may_pack(model: PreTrainedModel) -> bool:
    """True where a model's weights can be laid out for oneDNN, and its processor gains by it."""
    is_x86 = platform.machine() in ("x86_64", "AMD64")  # on others nobody has measured
    if not is_x86 or not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    can_multiply = model.dtype in (torch.float32, torch.bfloat16)
    can_multiply = can_multiply and multiplies_quickly(model.dtype, model.device)
    return model.device.type == "cpu" and can_multiply


def keeps_both(model: PreTrainedModel) -> bool:
    """True where the weights of a model are few enough to be held both ways."""
    return model.num_parameters() * model.dtype.itemsize <= _BOTH_BYTES
