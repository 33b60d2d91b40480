"""Hidden states after single blocks, at the last position only, by one forward hook each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from models.pretrained import PreTrainedModel
from models.records import Array, Span

# The number of first tokens of an answer whose states are kept until it ends, for its sentences: a
# state of 4,096 numbers takes 16 kB.
MAX_KEPT = 2048


class HiddenTap:
    """The last position's state after each watched block, of the latest forward pass.

    Layers count as in Hugging Face's `hidden_states[k]`: k is the output of the k-th block, 0 < k <
    L. The embeddings (0) are no block's, and the last (L) is normalised there, which a hook on the
    block would not see.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self._blocks = decoder_blocks(model)
        self.num_layers = len(self._blocks)  # 0 where they stand in no list
        # (rows, d) of each watched layer. Whoever runs blocks without their hooks puts them there.
        self.states: dict[int, Tensor] = {}

    def watch(self, layers: Sequence[int]) -> None:
        """Hook the blocks that are not hooked yet.

        From then on each pass costs one copy of (rows, d) a layer.
        """
        for layer in layers:
            if layer not in self.states:
                self.states[layer] = torch.empty(0)
                self._blocks[layer - 1].register_forward_hook(partial(self._keep, layer))

    def state(self, layers: Sequence[int], row: int) -> Tensor:
        """States (len(layers), d) float32 of one row of the latest pass."""
        return torch.stack([self.states[layer][row] for layer in layers]).float()

    def _keep(self, layer: int, block: nn.Module, inputs: object, output: Any) -> None:
        states = output[0] if isinstance(output, tuple) else output  # (rows, S, d)
        self.states[layer] = states[:, -1].clone()  # a view would keep a whole prefill alive


@dataclass(slots=True)
class HiddenMean:
    """Running mean over the steps whose input is y_1 … y_{T-1}.

    For T = 1, which has no such step, it is the prefill's last state.
    """

    layers: tuple[int, ...]  # the blocks averaged over
    prefill: Tensor  # (layers, d) at the prompt's last position
    max_kept: int = 0  # first steps whose states are kept one by one, for `over`
    num_steps: int = 0
    total: Tensor = field(init=False)  # (layers, d), summed over `num_steps` steps
    kept: list[Tensor] = field(default_factory=list)  # (layers, d) of each of these steps

    def __post_init__(self) -> None:
        self.total = torch.zeros_like(self.prefill)

    def add(self, state: Tensor) -> None:
        """Count one step's state (layers, d)."""
        self.total += state
        self.num_steps += 1
        if len(self.kept) < self.max_kept:
            self.kept.append(state)

    def value(self) -> Tensor:
        """(layers, d) float32."""
        if self.num_steps == 0:
            return self.prefill
        return self.total / self.num_steps

    def over(self, stretches: Mapping[Span, NDArray[np.intp]]) -> dict[Span, Array]:
        """Means (layers, d) over the steps whose input is one of a stretch's tokens.

        Tokens count from y_1 as 0. A stretch of which no state is kept is left out.
        """
        if not self.kept:
            return {}
        states = torch.stack(self.kept).numpy(force=True)  # (steps, layers, d)
        means = {}
        for name, tokens in stretches.items():
            read = tokens[tokens < len(states)]
            if len(read):
                means[name] = states[read].mean(axis=0)
        return means


def decoder_blocks(model: PreTrainedModel) -> Sequence[nn.Module]:
    """The model's blocks in order: the module list with as many entries as there are layers.

    None where there is no such list.
    """
    count = model.config.get_text_config(decoder=True).num_hidden_layers
    decoder: nn.Module = model.get_decoder()  # type: ignore[no-untyped-call]
    for module in decoder.modules():
        if isinstance(module, nn.ModuleList) and len(module) == count:
            return list(module)
    return []
