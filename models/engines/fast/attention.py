"""Attention of the lean forward pass: what positions may read, and prompts that rows share."""

from dataclasses import dataclass
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor

# Where numbers are to be the same bits beside any others: kernels sum so many columns in one order,
# which more change, and multiply fewer rows in orders of their own.
_COLUMNS, _ROWS = 64, 16
# Scores of attention that are held at once: in bfloat16 and float32 some 100 MB.
_MOST_SCORES = 1 << 24


@dataclass(frozen=True, slots=True)
class SharedPrompts:
    """Prompts that rows read beside keys and values of their own, each held once."""

    # Of each prompt its cache, of one row, and the rows (R,) that read it; None in place of a
    # cache for the rows that read no prompt.
    groups: list[tuple[Any | None, Tensor]]
    lengths: Tensor  # (rows,) tokens of each row's prompt
    longest: int  # of them

    def within(self, window: int | None, positions: Tensor, longest: int) -> Tensor | None:
        """The number (rows,) of its prompt's last tokens that each row reads; None for all of it.

        Args:
            window: positions that one reads, itself included; None for any number.
            positions: (rows, 1) of the rows' tokens behind their prompts.
            longest: tokens of a row, its prompt included.
        """
        if window is None or longest <= window:
            return None
        return (window - 1 - positions[:, 0]).clamp(min=0)


@dataclass(frozen=True, slots=True)
class Whole:
    """Attention to what the cache holds."""

    mask: Tensor | None
    is_causal: bool

    def __call__(self, queries: Tensor, keys: Tensor, values: Tensor, layer: int) -> Tensor:
        return F.scaled_dot_product_attention(
            queries,
            keys,
            values,
            attn_mask=self.mask,
            is_causal=self.is_causal,
            enable_gqa=queries.shape[1] != keys.shape[1],
        )


@dataclass(frozen=True, slots=True)
class Aligned:
    """Columns of a padded cache, moved so that each row's tokens begin at the first of them.

    Sums over a row's tokens then run in one order, whatever pads them (ADR 32).
    """

    index: Tensor  # (rows x heads x num_columns,) of the cache's (rows x heads x width)
    num_columns: int

    @classmethod
    def of(cls, first: Tensor, width: int, num_heads: int) -> Self:
        """Of a cache of so many columns, in which rows begin at `first` (rows,).

        Behind a row's tokens its last one is repeated, which its mask hides.
        """
        lengths = width - first
        num_columns = -(-int(lengths.max()) // _COLUMNS) * _COLUMNS
        columns = torch.arange(num_columns).minimum(lengths[:, None] - 1) + first[:, None]
        starts = torch.arange(len(first) * num_heads).view(-1, num_heads, 1) * width
        return cls((starts + columns[:, None]).flatten(), num_columns)

    def __call__(self, held: Tensor) -> Tensor:
        """Keys or values (rows, heads, width, head size), moved."""
        rows, heads, _, size = held.shape
        moved = held.reshape(-1, size).index_select(0, self.index)
        return moved.view(rows, heads, self.num_columns, size)


@dataclass(frozen=True, slots=True)
class Beside:
    """Attention of each row to its prompt, which it may share with others, and to its own rest.

    The rows of a prompt are so many queries of one product with it: its keys and values are read
    once, and neither copied for a row nor moved as the row grows.
    """

    shared: SharedPrompts
    mask: Tensor | None  # (rows or 1, 1, S, columns)
    within: Tensor | None  # of `SharedPrompts`
    aligned: Aligned | None = None

    @classmethod
    def of_rows(
        cls,
        positions: Tensor,
        width: int,
        first: Tensor,
        window: int | None,
        num_heads: int,
        shared: SharedPrompts | None,
        within: Tensor | None,
    ) -> Self:
        """That of new positions (rows, S) whose numbers are the same bits whatever is beside them.

        They count from behind their prompts. Of a cache of `width` columns, for so many heads of
        keys and values, in which rows begin at `first` (rows,). A position reads `window` ones,
        itself included; None for all.
        """
        aligned = Aligned.of(first, width, num_heads)
        columns, last = torch.arange(aligned.num_columns), positions[:, None, :, None]
        mask = columns <= last
        if window is not None:
            mask &= columns > last - window
        return cls(shared or SharedPrompts([(None, first)], first, 0), mask, within, aligned)

    def __call__(self, queries: Tensor, keys: Tensor, values: Tensor, layer: int) -> Tensor:
        if self.aligned is not None:
            keys, values = self.aligned(keys), self.aligned(values)
        rows, num_heads, num_new, _ = queries.shape
        if self.mask is None or num_new == 1:
            return self._attended(queries, keys, values, layer, self.mask)
        # Scores of a long prompt are held in parts.
        most = max(1, _MOST_SCORES // (rows * num_heads * keys.shape[2]))
        masks = torch.split(self.mask, most, dim=2)
        parts = []
        for some, mask in zip(torch.split(queries, most, dim=2), masks, strict=True):
            parts.append(self._attended(some, keys, values, layer, mask))
        return torch.cat(parts, dim=2)

    def _attended(
        self, queries: Tensor, keys: Tensor, values: Tensor, layer: int, mask: Tensor | None
    ) -> Tensor:
        rows, num_heads, num_new, size = queries.shape
        num_kv_heads = keys.shape[1]
        # In float32, since half precision would round large scores by whole numbers.
        queries = (queries.float() * size**-0.5).reshape(rows, num_kv_heads, -1, size)
        scores = self._times(queries, keys.transpose(2, 3))  # (rows, heads, queries, columns)
        if mask is not None:
            by_position = scores.view(rows, num_kv_heads, -1, num_new, keys.shape[2])
            scores = by_position.masked_fill(~mask[:, :, None], -torch.inf).view_as(scores)
        within = self.within
        if len(self.shared.groups) == 1:
            prompt, _ = self.shared.groups[0]
            attended = self._with_prompt(prompt, layer, queries, scores, values, within)
        else:
            attended = torch.empty_like(queries, dtype=values.dtype)
            for prompt, members in self.shared.groups:
                near = None if within is None else within[members]
                attended[members] = self._with_prompt(
                    prompt, layer, queries[members], scores[members], values[members], near
                )
        return attended.reshape(rows, num_heads, num_new, size)

    def _with_prompt(
        self,
        prompt: Any | None,
        layer: int,
        queries: Tensor,
        scores: Tensor,
        values: Tensor,
        within: Tensor | None,
    ) -> Tensor:
        """The output of attention, (rows, key-value heads, queries of each, head size).

        prompt: cache of one row; None where the rows read none.
        scores: (rows, key-value heads, queries of each, width) of `values`.
        """
        if prompt is None:
            weights = torch.softmax(scores, dim=-1, dtype=torch.float32).to(values.dtype)
            return self._times(weights, values)
        rows, heads, count, size = queries.shape
        keys_before, values_before = prompt.layers[layer].keys[0], prompt.layers[layer].values[0]
        together = queries.transpose(0, 1).reshape(heads, rows * count, size)
        before = self._times(together, keys_before.transpose(1, 2))
        before = before.view(heads, rows, count, -1).transpose(0, 1)
        length = keys_before.shape[1]
        if within is not None:
            is_far = torch.arange(length, device=before.device) < length - within[:, None]
            before = before.masked_fill(is_far[:, None, None], -torch.inf)
        all_scores = torch.cat([before, scores], dim=-1)
        weights = torch.softmax(all_scores, dim=-1, dtype=torch.float32).to(values.dtype)
        of_prompt = weights[..., :length].transpose(0, 1).reshape(heads, rows * count, length)
        read = self._times(of_prompt, values_before).view(heads, rows, count, size)
        return read.transpose(0, 1) + self._times(weights[..., length:], values)

    def _times(self, left: Tensor, right: Tensor) -> Tensor:
        """`left @ right` in the precision of `left`.

        Of aligned rows its sums have an order that neither more rows nor columns of 0 change.
        """
        if self.aligned is None:
            return left @ right.to(left.dtype)
        rows = left.shape[-2]
        if rows < _ROWS:
            left = F.pad(left, (0, 0, 0, _ROWS - rows))
        few, more = left.flatten(0, -3), right.flatten(0, -3)
        product = torch.zeros(*few.shape[:-1], more.shape[-1])
        for start in range(0, left.shape[-1], _COLUMNS):
            part = slice(start, start + _COLUMNS)
            product.baddbmm_(few[..., part].float(), more[:, part].float())
        return product.view(*left.shape[:-1], -1)[..., :rows, :].to(left.dtype)


Attend = Whole | Beside


def mask_of(columns: Tensor, width: int, first: Tensor | None, window: int | None) -> Tensor | None:
    """Mask of what each new position reads, (rows or 1, 1, S, width); None where a rule says it.

    One token may read all that there is, and several with nothing before them are causal.

    columns: (S,) of the new positions.
    window: columns that one reads, its own included; None for all before it.
    """
    num_new = len(columns)
    window = width if window is None else window
    if first is None and num_new in (1, width) and width <= window:
        return None
    every = torch.arange(width, device=columns.device)
    mask = every <= columns[:, None]
    if width > window:
        mask &= every > columns[:, None] - window
    mask = mask[None, None]  # (1, 1, S, width)
    if first is None:
        return mask
    # Padding reads itself: a row that may read nothing at all would be NaN.
    is_token = (every >= first[:, None])[:, None, None]
    return mask & is_token | (every == columns[:, None])
