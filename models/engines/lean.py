"""The forward pass of Llama-like models over their own weights, with little Python around it.

transformers' own pass calls thirty modules a layer and builds its masks anew at each step, which
for a small model costs more than the arithmetic. Here a layer is a dozen operations: query, key and
value are one product, gate and up another one, and rotations are looked up. Models that it does not
know, and those that somebody has put a hook on, go through transformers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.engines.attention import Attend, Beside, SharedPrompts, Whole, mask_of
from models.engines.products import Product, keeps_both, may_pack, product_of
from models.pretrained import PreTrainedModel, is_one_of

_KNOWN = ("LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM")
# Those whose rotations depend on the position alone.
_FIXED_ROTATIONS = {"default", "linear", "llama3", "yarn"}


@dataclass(frozen=True, slots=True)
class _Norm:
    """Root mean square norm: w x / sqrt(mean(x^2) + eps).

    Attributes:
        scaled: w sqrt(d).
        floor: sqrt(eps d).
    """

    weight: Tensor
    eps: float
    scaled: Tensor
    floor: Tensor

    def __call__(self, states: Tensor) -> Tensor:
        if states.is_cpu and states.dtype == torch.float32:
            # On a processor torch's own is a dozen operations.
            norms = torch.linalg.vector_norm(states, 2, -1, True)
            return (states * self.scaled).div_(norms.hypot_(self.floor))
        # As transformers does: normalised in float32, scaled in the model's own precision.
        wide = states if states.is_cuda else states.float()  # there it is read as float32 anyway
        normal = F.rms_norm(wide, states.shape[-1:], None, self.eps)
        return self.weight * normal.to(states.dtype)


@dataclass(frozen=True, slots=True)
class _Block:
    """One layer; `queries_keys_values` and `gate_up` are several of its products in one."""

    attention_norm: _Norm
    queries_keys_values: Product
    heads_norm: _Norm | None  # of queries and keys, each head by itself
    output: Product
    mlp_norm: _Norm
    gate_up: Product
    down: Product
    activation: Any


class LeanForward:
    """Logits of a model, as `RowCache` requests them.

    Attributes:
        is_alone: the model has lost its weights to this pass, and computes nothing by itself.
        watched: by layer, whose states (rows, d) at the last position are put there by each pass.
        head: logits of the last layer's states, which are normalised.
        rotations: cosines and signed sines (positions, head size) by position, as far as they were
            needed.

    Args:
        model: one that `is_llama_like`; its weights move into larger tensors, of which its own
            parameters become views.
        watched: becomes the attribute.
    """

    def __init__(self, model: PreTrainedModel, watched: dict[int, Tensor]) -> None:
        decoder: Any = model.model
        config = model.config
        self.watched = watched
        self._embedding = decoder.embed_tokens.weight
        packs = may_pack(model)
        self.is_alone = packs and not keeps_both(model)
        made = partial(product_of, packs=packs, keeps=not self.is_alone)
        self._blocks = [_block_of(layer, made) for layer in decoder.layers]
        self._norm = _norm_of(decoder.norm)
        self.head = made(model.lm_head)
        self._rotary = decoder.rotary_emb
        self._heads = int(config.num_attention_heads), int(config.num_key_value_heads)
        self._head_size = int(decoder.layers[0].self_attn.head_dim)
        nothing = self._embedding.new_empty(0, self._head_size)
        self.rotations = nothing, nothing
        self.num_layers = len(self._blocks)

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
        mask = mask_of(columns, width, first)
        positions = columns.expand(len(ids), -1)
        if first is not None:
            positions = (columns - first[:, None]).clamp(min=0)
        if shared is not None:
            positions = positions + shared.lengths[:, None]
        cos, sin = self._rotated(positions, width + (shared.longest if shared else 0))
        if shared is not None:
            attend: Attend = Beside(shared, mask)
        else:
            attend = Whole(mask, is_causal=mask is None and num_new > 1)
        wanted = num_new
        states = F.embedding(ids, self._embedding)
        for number, block in enumerate(self._blocks, start=1):
            if number == len(self._blocks) and num_logits < num_new:  # of the last layer's states
                attend = Whole(mask_of(columns[-num_logits:], width, first), is_causal=False)
                wanted = num_logits
            states = self._layer(block, states, cache, number - 1, cos, sin, attend, wanted)
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
        attend = Beside(without_prompts, is_read[:, None, None])
        cos, sin = self._rotated((column - first)[:, None], size)
        states = F.embedding(ids, self._embedding)
        for number, (block, (keys, values)) in enumerate(zip(self._blocks, layers, strict=True), 1):
            queries, *new = _to_attend(block, states, cos, sin, self._heads)
            keys.index_copy_(2, column, new[0])
            values.index_copy_(2, column, new[1])
            attended = attend(queries, keys, values, number - 1).reshape(len(ids), 1, -1)
            states = _after_attention(block, states, attended)
            if number in self.watched:
                # a view would keep a whole prefill alive
                self.watched[number] = states[:, -1].clone()
        return self._norm(states)

    def _layer(
        self,
        block: _Block,
        states: Tensor,
        cache: Any,
        index: int,
        cos: Tensor,
        sin: Tensor,
        attend: Attend,
        wanted: int,
    ) -> Tensor:
        """States (rows, wanted, d) after a layer, of the last positions among (rows, S, d)."""
        rows, num_new, _ = states.shape
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

    def _rotated(self, positions: Tensor, length: int) -> tuple[Tensor, Tensor]:
        """Cosines and signed sines (rows, 1, S, head size) of positions (rows, S).

        length: they are below it.
        """
        if length > len(self.rotations[0]):
            size = 1 << (length - 1).bit_length()
            columns = torch.arange(size, device=positions.device)[None]
            cos, sin = self._rotary(self._embedding, columns)
            half = self._head_size // 2
            signed = torch.cat([-sin[0, :, :half], sin[0, :, half:]], dim=-1)
            self.rotations = cos[0].clone(), signed
        positions = positions[:, None]
        return self.rotations[0][positions], self.rotations[1][positions]


def _to_attend(
    block: _Block, states: Tensor, cos: Tensor, sin: Tensor, heads: tuple[int, int]
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


def _after_attention(block: _Block, states: Tensor, attended: Tensor) -> Tensor:
    """States (rows, S, d) after a layer, of those before it and what they attended to."""
    states = states + block.output(attended)
    gate, up = block.gate_up(block.mlp_norm(states)).chunk(2, dim=-1)
    return states + block.down(block.activation(gate) * up)


def is_llama_like(model: PreTrainedModel) -> bool:
    """True where `LeanForward` knows the model: its layers, its rotations, its attention."""
    config = model.config
    if not is_one_of(model, _KNOWN):
        return False
    layer_types = getattr(config, "layer_types", None) or ["full_attention"]
    for module in model.modules():
        if hasattr(module, "in_features") and type(module) is not nn.Linear:
            return False
    return (
        config._attn_implementation == "sdpa"
        and set(layer_types) == {"full_attention"}
        and getattr(config, "sliding_window", None) is None
        and config.rope_parameters["rope_type"] in _FIXED_ROTATIONS
        and len({(weight.device, weight.dtype) for weight in model.parameters()}) == 1
    )


def _block_of(layer: Any, made: Callable[..., Product]) -> _Block:
    attention, mlp = layer.self_attn, layer.mlp
    return _Block(
        attention_norm=_norm_of(layer.input_layernorm),
        queries_keys_values=made(attention.q_proj, attention.k_proj, attention.v_proj),
        heads_norm=_heads_norm_of(attention) if hasattr(attention, "q_norm") else None,
        output=made(attention.o_proj),
        mlp_norm=_norm_of(layer.post_attention_layernorm),
        gate_up=made(mlp.gate_proj, mlp.up_proj),
        down=made(mlp.down_proj),
        activation=mlp.act_fn,
    )


def _norm_of(norm: Any) -> _Norm:
    return _norm(norm.weight.detach(), float(norm.variance_epsilon))


def _heads_norm_of(attention: Any) -> _Norm:
    """Of all heads of queries, then of keys, at any number of positions."""
    weights = []
    for norm, product in (
        (attention.q_norm, attention.q_proj),
        (attention.k_norm, attention.k_proj),
    ):
        count = product.out_features // attention.head_dim
        weights.append(norm.weight.detach().expand(count, 1, -1))
    return _norm(torch.cat(weights), float(attention.q_norm.variance_epsilon))


def _norm(weight: Tensor, eps: float) -> _Norm:
    scale = weight.shape[-1] ** 0.5
    return _Norm(weight, eps, weight * scale, weight.new_tensor(eps**0.5 * scale))
