"""The forward pass of BERT-like classifiers, with little Python around it.

Of the last layer no more is computed than what is read of it: the state of the first token.
"""

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn
from transformers import (
    BertForSequenceClassification,
    PreTrainedModel,
    RobertaForSequenceClassification,
    XLMRobertaForSequenceClassification,
)

_KNOWN = (
    BertForSequenceClassification,
    RobertaForSequenceClassification,
    XLMRobertaForSequenceClassification,
)


class LeanEncoder:
    """Logits of a classifier, by its own modules.

    Args:
        model: one that `is_bert_like`.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        encoder: Any = model.base_model
        self._embed = encoder.embeddings
        self._layers = list(encoder.encoder.layer)
        self._pool = encoder.pooler or nn.Identity()
        self._classify: Any = model.classifier
        self._num_heads = int(model.config.num_attention_heads)

    def __call__(self, attention_mask: Tensor, **inputs: Tensor) -> Tensor:
        """Logits (rows, K) of padded rows.

        Args:
            attention_mask: (rows, width), 1 for tokens and 0 for padding.
            inputs: (rows, width) each, as the model's embeddings take them.
        """
        mask = None
        if not attention_mask.all():
            mask = attention_mask.bool()[:, None, None]
        states = self._embed(**inputs)
        for layer in self._layers[:-1]:
            states = self._after(layer, states, states.shape[1], mask)
        states = self._after(self._layers[-1], states, 1, mask)
        logits: Tensor = self._classify(self._pool(states))
        return logits

    def _after(self, layer: Any, states: Tensor, num_read: int, mask: Tensor | None) -> Tensor:
        """States (rows, num_read, d) of the first tokens behind a layer."""
        own, after = layer.attention.self, layer.attention.output
        keys, values = self._by_head(own.key(states)), self._by_head(own.value(states))
        states = states[:, :num_read]
        queries = self._by_head(own.query(states))
        attended = F.scaled_dot_product_attention(queries, keys, values, mask)
        attended = attended.transpose(1, 2).reshape(states.shape)
        states = after.LayerNorm(after.dense(attended) + states)
        inner = layer.intermediate.intermediate_act_fn(layer.intermediate.dense(states))
        behind: Tensor = layer.output.LayerNorm(layer.output.dense(inner) + states)
        return behind

    def _by_head(self, states: Tensor) -> Tensor:
        """(rows, heads, width, size of a head) of states (rows, width, d)."""
        rows, width, _ = states.shape
        return states.view(rows, width, self._num_heads, -1).transpose(1, 2)


def is_bert_like(model: Any) -> bool:
    """Whether `LeanEncoder` knows the model: its layers and its attention."""
    return (
        type(model) in _KNOWN
        and model.config._attn_implementation == "sdpa"
        and not model.config.is_decoder
    )
