"""The layers of Llama-like models, as the lean forward pass computes them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.engines.fast.products import Product
from models.pretrained import PreTrainedModel, is_one_of

_KNOWN = (
    *("LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"),
    *("Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"),
)
# Those whose rotations depend on the position alone.
_FIXED_ROTATIONS = {"default", "linear", "llama3", "yarn"}
FULL, SLIDING = "full_attention", "sliding_attention"


@dataclass(frozen=True, slots=True)
class Norm:
    """Root mean square norm: w x / sqrt(mean(x^2) + eps)."""

    weight: Tensor
    eps: float
    scaled: Tensor  # w sqrt(d)
    floor: Tensor  # sqrt(eps d)

    def __call__(self, states: Tensor) -> Tensor:
        if states.is_cpu and states.dtype == torch.float32:
            # On a processor torch's own is a dozen operations.
            norms = torch.linalg.vector_norm(states, 2, -1, True)
            return (states * self.scaled).div_(norms.hypot_(self.floor))
        # As transformers does: normalised in float32, scaled in the precision of the weight.
        of_weight = self.weight.dtype  # on a GPU it is read as float32 anyway
        wide = states.to(of_weight) if states.is_cuda else states.float()
        normal = F.rms_norm(wide, states.shape[-1:], None, self.eps)
        return (self.weight * normal.to(of_weight)).to(states.dtype)


@dataclass(frozen=True, slots=True)
class Block:
    """One layer; `queries_keys_values` and `gate_up` are several of its products in one."""

    kind: str
    attention_norm: Callable[[Tensor], Tensor]
    queries_keys_values: Product
    heads_norm: Norm | None  # of queries and keys, each head by itself
    output: Product
    output_norm: Callable[[Tensor], Tensor]
    mlp_norm: Callable[[Tensor], Tensor]
    gate_up: Product
    down: Product
    down_norm: Callable[[Tensor], Tensor]
    activation: Any


def is_llama_like(model: PreTrainedModel) -> bool:
    """True where `LeanForward` knows the model: its layers, its rotations, its attention."""
    if not is_one_of(model, _KNOWN):
        return False
    decoder, head = parts_of(model)
    config = decoder.config
    for module in (*decoder.modules(), head):
        if hasattr(module, "in_features") and type(module) is not nn.Linear:
            return False
    rotations = config.rope_parameters
    of_kinds = [rotations] if "rope_type" in rotations else rotations.values()
    return (
        config._attn_implementation == "sdpa"
        and set(kinds_of(config)) <= {FULL, SLIDING}
        and {rotation["rope_type"] for rotation in of_kinds} <= _FIXED_ROTATIONS
        and getattr(config, "final_logit_softcapping", None) is None
        and not getattr(config, "use_bidirectional_attention", None)
        and len({(weight.device, weight.dtype) for weight in model.parameters()}) == 1
    )


def parts_of(model: PreTrainedModel) -> tuple[Any, Any]:
    """The decoder of a model, which may read images, too, and its last product."""
    return model.get_decoder(), model.get_output_embeddings()  # type: ignore[no-untyped-call]


def kinds_of(config: Any) -> list[str]:
    """The kind of attention of each layer; a config without kinds has one for all of them."""
    if (kinds := getattr(config, "layer_types", None)) is not None:
        return list(kinds)
    kind = FULL if getattr(config, "sliding_window", None) is None else SLIDING
    return [kind] * int(config.num_hidden_layers)


def block_of(made: Callable[..., Product], layer: Any, kind: str) -> Block:
    attention, mlp = layer.self_attn, layer.mlp
    norms: list[Any] = [nn.Identity(), layer.post_attention_layernorm, nn.Identity()]
    if hasattr(layer, "pre_feedforward_layernorm"):  # Gemma's, which norms what it adds, too
        norms = [norms[1], layer.pre_feedforward_layernorm, layer.post_feedforward_layernorm]
    output_norm, mlp_norm, down_norm = map(norm_of, norms)
    return Block(
        kind=kind,
        attention_norm=norm_of(layer.input_layernorm),
        queries_keys_values=made(attention.q_proj, attention.k_proj, attention.v_proj),
        heads_norm=_heads_norm_of(attention) if hasattr(attention, "q_norm") else None,
        output=made(attention.o_proj),
        output_norm=output_norm,
        mlp_norm=mlp_norm,
        gate_up=made(mlp.gate_proj, mlp.up_proj),
        down=made(mlp.down_proj),
        down_norm=down_norm,
        activation=mlp.act_fn,
    )


def _weight_of(norm: Any) -> tuple[Tensor, float]:
    """Weight of a norm, and what is added below the root. Gemma's holds w - 1, for float32."""
    if hasattr(norm, "variance_epsilon"):
        return norm.weight.detach(), float(norm.variance_epsilon)
    return 1 + norm.weight.detach().float(), float(norm.eps)


def norm_of(norm: Any) -> Norm | nn.Identity:
    return norm if isinstance(norm, nn.Identity) else _norm(*_weight_of(norm))


def _heads_norm_of(attention: Any) -> Norm:
    """Of all heads of queries, then of keys, at any number of positions.

    Queries are scaled for products that are divided by the root of the head size.
    """
    weights = []
    for norm, product, scale in (
        (attention.q_norm, attention.q_proj, attention.scaling * attention.head_dim**0.5),
        (attention.k_norm, attention.k_proj, 1),
    ):
        count = product.out_features // attention.head_dim
        weight, eps = _weight_of(norm)
        weights.append((weight * scale).expand(count, 1, -1))
    return _norm(torch.cat(weights), eps)


def _norm(weight: Tensor, eps: float) -> Norm:
    scale = weight.shape[-1] ** 0.5
    return Norm(weight, eps, weight * scale, weight.new_tensor(eps**0.5 * scale))
