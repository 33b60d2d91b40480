"""The forward pass of BERT-like classifiers, with little Python around it.

Without padding the tokens of all rows go through the products together, and attention takes rows
of one length at a time. Of the last layer no more is computed than what is read of it: the state
of the first token.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.pretrained import PreTrainedModel, is_one_of

_KNOWN = (
    "BertForSequenceClassification",
    "RobertaForSequenceClassification",
    "XLMRobertaForSequenceClassification",
)


class LeanEncoder:
    """Logits of a classifier, by its own modules.

    Args:
        model: one that `is_bert_like`; queries, keys and values of a layer become views of one
            weight.
        by_length: whether no padding is computed, which is faster on a processor; on an accelerator
            short rows cost little, and many small calls much.
    """

    def __init__(self, model: PreTrainedModel, *, by_length: bool) -> None:
        encoder: Any = model.base_model
        self._embed = encoder.embeddings
        *layers, self._last = list(encoder.encoder.layer)
        self._layers = [(layer, *_joined(layer.attention.self)) for layer in layers]
        self._pool = encoder.pooler or nn.Identity()
        self._classify: Any = model.classifier
        self._num_heads = int(model.config.num_attention_heads)
        self._by_length = by_length

    def __call__(self, attention_mask: Tensor, **inputs: Tensor) -> Tensor:
        """Logits (rows, K) of padded rows.

        Args:
            attention_mask: (rows, width), 1 for tokens and 0 for padding; the first is a token.
            inputs: (rows, width) each, as the model's embeddings take them.
        """
        states, is_token = self._embed(**inputs), attention_mask.bool()
        mask: Tensor | None = None
        if self._by_length:
            states = states[is_token]
            shapes = _shapes(attention_mask.sum(dim=1).tolist())
        else:
            shapes, states, mask = [states.shape[:2]], states.flatten(0, 1), is_token[:, None, None]
        sizes = [rows * width for rows, width in shapes]
        for layer, weight, bias in self._layers:
            attended = []
            made = F.linear(states, weight, bias).split_with_sizes(sizes)
            for shape, group in zip(shapes, made, strict=True):
                by_head = group.view(*shape, 3, self._num_heads, -1).permute(2, 0, 3, 1, 4)
                queries, keys, values = by_head
                read = F.scaled_dot_product_attention(queries, keys, values, mask)
                attended.append(read.transpose(1, 2).reshape(len(group), -1))
            states = _behind(layer, states, torch.cat(attended))
        by_row = []
        for shape, group in zip(shapes, states.split_with_sizes(sizes), strict=True):
            by_row.append(group.view(*shape, -1))
        logits: Tensor = self._classify(self._pool(self._firsts(by_row, mask)[:, None]))
        return logits

    def _firsts(self, groups: Sequence[Tensor], mask: Tensor | None) -> Tensor:
        """States (all rows, d) of first tokens behind the last layer; of groups (rows, width, d).

        Of the others no keys and values are made. q (K x) = (q K) x, so the queries take the keys'
        weight; and the mean of values is the value of the mean. What the keys' bias adds is the
        same for all tokens, which attention does not see.
        """
        attention = self._last.attention.self
        firsts = torch.cat([states[:, 0] for states in groups])
        rows, width = firsts.shape
        by_head = self._num_heads, width // self._num_heads, width
        queries = attention.query(firsts).view(rows, *by_head[:2]).transpose(0, 1)
        key_queries = torch.bmm(queries, attention.key.weight.view(by_head)).transpose(0, 1)
        means, scale = [], by_head[1] ** -0.5
        by_group = key_queries.split_with_sizes(list(map(len, groups)))
        for states, query in zip(groups, by_group, strict=True):
            every = states[:, None]
            means.append(
                F.scaled_dot_product_attention(query[:, None], every, every, mask, scale=scale)
            )
        mean = torch.cat(means)[:, 0].transpose(0, 1)
        values = torch.bmm(mean, attention.value.weight.view(by_head).mT)
        attended = values.transpose(0, 1).reshape(firsts.shape) + attention.value.bias
        return _behind(self._last, firsts, attended)


def _joined(attention: Any) -> tuple[Tensor, Tensor]:
    """Weight (3d, d) and bias (3d,) of queries, keys and values, whose own become parts of them."""
    products = attention.query, attention.key, attention.value
    weight = torch.cat([product.weight.detach() for product in products])
    bias = torch.cat([product.bias.detach() for product in products])
    parts = zip(products, weight.chunk(3), bias.chunk(3), strict=True)
    for product, part_weight, part_bias in parts:
        product.weight = nn.Parameter(part_weight, False)
        product.bias = nn.Parameter(part_bias, False)
    return weight, bias


def _shapes(lengths: Sequence[int]) -> list[tuple[int, int]]:
    """Rows and length of the groups of equal length, of rows one after another.

    >>> _shapes([5, 5, 7])
    [(2, 5), (1, 7)]
    """
    return [(len(list(rows)), length) for length, rows in groupby(lengths)]


def _behind(layer: Any, states: Tensor, attended: Tensor) -> Tensor:
    """States behind a layer, of those before it and what they attended to."""
    after = layer.attention.output
    states = after.LayerNorm(after.dense(attended) + states)
    inner = layer.intermediate.intermediate_act_fn(layer.intermediate.dense(states))
    behind: Tensor = layer.output.LayerNorm(layer.output.dense(inner) + states)
    return behind


def is_bert_like(model: Any) -> bool:
    """True where `LeanEncoder` knows the model: its layers and its attention."""
    return (
        is_one_of(model, _KNOWN)
        and model.config._attn_implementation == "sdpa"
        and not model.config.is_decoder
    )
