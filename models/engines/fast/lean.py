"""The forward pass of Llama-like models over their own weights, with little Python around it.

transformers' own pass calls thirty modules a layer and builds its masks anew at each step, which
for a small model costs more than the arithmetic. Here a layer is a dozen operations: query, key and
value are one product, gate and up another one, and rotations are looked up. Models that it does not
know, and those that somebody has put a hook on, go through transformers.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from models.engines.fast.attention import Attend, Beside, SharedPrompts, Whole, mask_of
from models.engines.fast.layers import SLIDING, Block, block_of, kinds_of, norm_of, parts_of
from models.engines.fast.products import copy_unpacked, keeps_both, may_pack, product_of
from models.pretrained import PreTrainedModel

# Of positions: cosines and signed sines (rows, 1, S, head size), and what they attend to.
_View = tuple[Tensor, Tensor, Attend]


class LeanForward:
    """Logits of a model, as `RowCache` requests them.

    Args:
        model: one that `is_llama_like`; its weights move into larger tensors, of which its own
            parameters become views.
        watched: by layer, whose states (rows, d) at the last position are put there by each pass.
    """

    def __init__(self, model: PreTrainedModel, watched: dict[int, Tensor]) -> None:
        decoder, head = parts_of(model)
        config = decoder.config
        self.watched = watched
        self._embed = decoder.embed_tokens
        packs = may_pack(model)
        # Then the model has lost its weights to this pass, and computes nothing by itself.
        self.is_alone = packs and not keeps_both(model)
        if self.is_alone:
            copy_unpacked(model)
        made = partial(product_of, packs=packs, keeps=not self.is_alone)
        kinds = kinds_of(config)
        self._blocks = list(map(partial(block_of, made), decoder.layers, kinds))
        self._windows = {kind: config.sliding_window if kind == SLIDING else None for kind in kinds}
        self._norm = norm_of(decoder.norm)
        self.head = made(head)  # of the last layer's states, which are normalised
        self._rotary = decoder.rotary_emb
        self._heads = int(config.num_attention_heads), int(config.num_key_value_heads)
        self._head_size = int(decoder.layers[0].self_attn.head_dim)
        # In bfloat16 a sum in another order is another number, and soon another text.
        self._is_batch_invariant = packs and model.dtype == torch.bfloat16
        nothing = self._embed.weight.new_empty(0, self._head_size)
        # Cosines and signed sines (positions, head size) by kind, as far as they were needed.
        self.rotations = dict.fromkeys(self._windows, (nothing, nothing))
        self.num_layers, self.device = len(self._blocks), nothing.device

    def __call__(
        self,
        ids: Tensor,
        cache: Any,
        first: Tensor | None,
        *,
        num_logits: int = 1,
        shared: SharedPrompts | None = None,
    ) -> Tensor:
        """Logits (rows, num_logits, V) of ids (rows, S), whose keys and values join the cache.

        Args:
            ids: tokens that the rows read now; one each where prompts are shared.
            cache: of what they have read before.
            first: (rows,) column at which each row's tokens begin, after padding; None where there
                is no padding.
            num_logits: of the last positions.
            shared: prompts that come before what is in the cache.
        """
        num_past, num_new = cache.get_seq_length(), ids.shape[1]
        width = num_past + num_new
        columns = torch.arange(num_past, width, device=ids.device)
        positions = columns.expand(len(ids), -1)
        if first is not None:
            positions = (columns - first[:, None]).clamp(min=0)
        behind, longest = positions, width
        if shared is not None:
            behind, longest = positions + shared.lengths[:, None], width + shared.longest
        views: dict[str, _View] = {}
        for kind in self._windows:
            attend = self._attention(kind, positions, width, first, shared)
            views[kind] = *self._rotated(kind, behind, longest), attend
        wanted = num_new
        states = self._embed(ids)
        for number, block in enumerate(self._blocks, start=1):
            cos, sin, attend = views[block.kind]
            if number == len(self._blocks) and num_logits < num_new:  # of the last layer's states
                last = positions[:, -num_logits:]
                attend = self._attention(block.kind, last, width, first, shared)
                wanted = num_logits
            states = self._layer(block, states, cache, number - 1, (cos, sin, attend), wanted)
            if number in self.watched:
                # a view would keep a whole prefill alive
                self.watched[number] = states[:, -1].clone()
        return self.head(self._norm(states))

    def step(
        self, ids: Tensor, layers: Sequence[tuple[Tensor, Tensor]], first: Tensor, column: Tensor
    ) -> Tensor:
        """States (rows, 1, d) that `head` takes, of ids (rows, 1); keys and values go into buffers.

        What is launched depends on shapes alone, so that a CUDA graph can launch it again.

        Args:
            ids: tokens that the rows read now.
            layers: of each, keys and values (rows, key-value heads, columns, head size).
            first: (rows,) column at which each row's tokens begin.
            column: (1,) that is written.
        """
        size = layers[0][0].shape[2]
        columns = torch.arange(size, device=ids.device)
        is_read = (columns >= first[:, None]) & (columns <= column)  # (rows, columns)
        without_prompts = SharedPrompts([(None, first)], first, 0)
        views: dict[str, _View] = {}
        for kind, window in self._windows.items():
            is_near = is_read if window is None else is_read & (columns > column - window)
            rotated = self._rotated(kind, (column - first)[:, None], size)
            views[kind] = *rotated, Beside(without_prompts, is_near[:, None, None], None)
        states = self._embed(ids)
        for number, (block, (keys, values)) in enumerate(zip(self._blocks, layers, strict=True), 1):
            cos, sin, attend = views[block.kind]
            queries, *new = _to_attend(block, states, cos, sin, self._heads)
            keys.index_copy_(2, column, new[0])
            values.index_copy_(2, column, new[1])
            attended = attend(queries, keys, values, number - 1).reshape(len(ids), 1, -1)
            states = _after_attention(block, states, attended)
            if number in self.watched:
                self.watched[number] = states[:, -1].clone()
        return self._norm(states)

    def _attention(
        self,
        kind: str,
        positions: Tensor,
        width: int,
        first: Tensor | None,
        shared: SharedPrompts | None,
    ) -> Attend:
        """What new positions (rows, S) attend to in layers of a kind, behind what prompts hold."""
        window, within = self._windows[kind], None
        if shared is not None:
            within = shared.within(window, positions, width + shared.longest)
        if self._is_batch_invariant:
            if first is None:
                first = torch.zeros(len(positions), dtype=torch.long)
            return Beside.of_rows(positions, width, first, window, self._heads[1], shared, within)
        columns = torch.arange(width - positions.shape[1], width, device=positions.device)
        mask = mask_of(columns, width, first, window)
        if shared is not None:
            return Beside(shared, mask, within)
        return Whole(mask, is_causal=mask is None and len(columns) > 1)

    def _layer(
        self, block: Block, states: Tensor, cache: Any, index: int, view: _View, wanted: int
    ) -> Tensor:
        """States (rows, wanted, d) after a layer, of the last positions among (rows, S, d)."""
        rows, num_new, _ = states.shape
        cos, sin, attend = view
        queries, keys, values = _to_attend(block, states, cos, sin, self._heads)
        if index < len(cache.layers):  # quicker than the cache's own `update`
            layer = cache.layers[index]
            layer.keys = keys = torch.cat([layer.keys, keys], dim=2)
            layer.values = values = torch.cat([layer.values, values], dim=2)
        else:
            keys, values = cache.update(keys, values, index)
        if wanted < num_new:
            queries, states = queries[:, :, -wanted:], states[:, -wanted:]
        attended = attend(queries, keys, values, index)
        return _after_attention(block, states, attended.transpose(1, 2).reshape(rows, wanted, -1))

    def _rotated(self, kind: str, positions: Tensor, length: int) -> tuple[Tensor, Tensor]:
        """Cosines and signed sines (rows, 1, S, head size) of positions (rows, S) in such layers.

        length: they are below it.
        """
        if length > len(self.rotations[kind][0]):
            size = 1 << (length - 1).bit_length()
            columns = torch.arange(size, device=positions.device)[None]
            of_kind = [kind] if hasattr(self._rotary, "layer_types") else []
            cos, sin = self._rotary(self._embed.weight, columns, *of_kind)
            half = self._head_size // 2
            signed = torch.cat([-sin[0, :, :half], sin[0, :, half:]], dim=-1)
            self.rotations[kind] = cos[0].clone(), signed
        cos, sin = self.rotations[kind]
        positions = positions[:, None]
        return cos[positions], sin[positions]


def _to_attend(
    block: Block, states: Tensor, cos: Tensor, sin: Tensor, heads: tuple[int, int]
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values (rows, heads of each, S, head size) of states (rows, S, d)."""
    rows, num_new, _ = states.shape
    num_heads, num_kv_heads = heads
    size = cos.shape[-1]
    together = block.queries_keys_values(block.attention_norm(states))
    together = together.view(rows, num_new, -1, size).transpose(1, 2)
    to_rotate, values = together.split_with_sizes([num_heads + num_kv_heads, num_kv_heads], 1)
    if block.heads_norm is not None:
        to_rotate = block.heads_norm(to_rotate)
    # `sin` has its sign: rolled by half, the first half of what comes is to be subtracted.
    rotated = to_rotate.roll(size // 2, -1).mul_(sin).addcmul_(to_rotate, cos)
    queries, keys = rotated.split_with_sizes([num_heads, num_kv_heads], 1)
    return queries, keys, values


def _after_attention(block: Block, states: Tensor, attended: Tensor) -> Tensor:
    """States (rows, S, d) after a layer, of those before it and what they attended to."""
    states = states + block.output_norm(block.output(attended))
    gate, up = block.gate_up(block.mlp_norm(states)).chunk(2, dim=-1)
    return states + block.down_norm(block.down(block.activation(gate) * up))
