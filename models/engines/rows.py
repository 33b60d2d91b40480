"""The key-value cache of all rows that decode together.

Rows are right-aligned and padded on the left, so that a row's tokens are contiguous and sliding
windows, which count cache positions, stay correct. Joining, leaving and trimming are one operation,
`recompose`.
"""

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import Cache, DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer, get_layer_types_and_kwargs

from models.checkpoints import device_watched
from models.engines.hidden import HiddenTap
from models.engines.lean import LeanForward, SharedPrompts, is_llama_like
from models.engines.sampling import entropies

_MERGEABLE_LAYERS = {"full_attention", "sliding_attention"}
# Positions of a given answer scored at once: bounds the transient logits to (64, V) whatever its
# length.
_SCORE_CHUNK = 64
# Tokens from which a prompt is read where it lies, by all its rows at once. To copy a shorter one
# for each row takes less than a second product a layer.
_SHARED_FROM = 64


@dataclass(eq=False, slots=True)
class Prefix:
    """A prefilled prompt: one-row cache, length in tokens, and logits (V,) of the next token."""

    cache: Any
    length: int
    logits: Tensor


def is_mergeable(model: PreTrainedModel) -> bool:
    """Whether rows of different requests can share a step.

    They can where every layer caches plain keys and values.
    """
    config = model.config.get_text_config(decoder=True)
    layer_types, _ = get_layer_types_and_kwargs(config)
    return set(layer_types) <= _MERGEABLE_LAYERS and not getattr(config, "num_kv_shared_layers", 0)


class RowCache:
    """Keys, values and next-token logits of the running rows.

    Attributes:
        mergeable: False for recurrent and hybrid models; their rows join an empty batch only, one
            request at a time.
        logits: (rows, V) float32, of the next token of every row.
        tap: hidden states of the latest pass, a prefill's or a step's.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self.model = model
        self.mergeable = is_mergeable(model)
        self.tap = HiddenTap(model)
        self._lean = LeanForward(model, self.tap) if is_llama_like(model) else None
        self.clear()

    def clear(self) -> None:
        """Forget all rows."""
        self.cache: Any = None  # transformers' Cache, whose layers are typed too widely to read
        self.lengths: list[int] = []  # of each row, in `cache`
        self._prompts: list[Prefix | None] = []  # that each row reads beside it
        self._shared: SharedPrompts | None = None
        self.logits = torch.empty(0, 0, device=self.model.device)

    def prefill(self, prompts: Sequence[list[int]]) -> list[Prefix]:
        """One forward pass over the prompts, padded on the left.

        Several prompts are allowed only where the model is mergeable.
        """
        width = max(map(len, prompts))
        ids = self._tensor([[0] * (width - len(prompt)) + prompt for prompt in prompts])
        # Without a config every layer keeps the whole sequence, which sliding-window rows need to
        # join.
        cache = DynamicCache() if self.mergeable else DynamicCache(config=self.model.config)
        logits = self._forward(ids, cache, [len(prompt) for prompt in prompts])
        if len(prompts) == 1:
            return [Prefix(cache, width, logits[0, -1])]
        prefixes = []
        for row, prompt in enumerate(prompts):
            own = _one_row(cache, row, len(prompt))
            prefixes.append(Prefix(own, len(prompt), logits[row, -1]))
        return prefixes

    def score(
        self, prefix: Prefix, answer_ids: Sequence[int], *, with_entropies: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Log-probs (T,) and entropies (T,) of a given answer after its prompt.

        The prefix stays as it was.
        """
        cache, logits = copy.deepcopy(prefix.cache), prefix.logits[None].float()
        logprobs: list[Tensor] = []
        entropy: list[Tensor] = []
        for start in range(0, len(answer_ids), _SCORE_CHUNK):
            chunk = self._tensor(list(answer_ids[start : start + _SCORE_CHUNK]))
            length = prefix.length + start + len(chunk)
            following = self._forward(chunk[None], cache, [length], num_logits=len(chunk))[
                0
            ].float()
            logits = torch.cat(
                [logits, following[:-1]]
            )  # (chunk, V): each predicts one of the chunk's tokens
            log_normalizers = logits.logsumexp(-1)
            logprobs.append(logits.gather(1, chunk[:, None])[:, 0] - log_normalizers)
            if with_entropies:
                entropy.append(entropies(logits, log_normalizers))
            logits = following[-1:]
        empty = self.logits.new_empty(0)
        return torch.cat([empty, *logprobs]), torch.cat(
            [empty, *entropy]
        ) if with_entropies else None

    def keep(self, rows: Sequence[int]) -> None:
        """Go on with these rows, which may repeat."""
        if not _is_all(rows, len(self.lengths)):
            self.recompose(rows, ())

    def recompose(self, keep: Sequence[int], joins: Sequence[Prefix]) -> None:
        """Keep the rows at the indices `keep`, append one row a prefix, trim common padding.

        An index may repeat.
        """
        if not keep and not joins:
            return self.clear()
        index = self._tensor(list(keep))
        new_rows = [prefix.logits[None].float() for prefix in joins]
        kept_rows = [self.logits[index]] if keep else []
        if not self.mergeable:
            self._reorder(index, joins)
        else:
            self._assemble(index, joins)
        self.logits = torch.cat([*kept_rows, *new_rows])
        return None

    def forward(self, tokens: Sequence[int]) -> None:
        """Feed one token to every row; `logits` then predict the token after it."""
        if self.cache is None:
            raise ValueError("no rows to decode")
        self.lengths = [length + 1 for length in self.lengths]
        ids = self._tensor(list(tokens))[:, None]
        logits = self._forward(ids, self.cache, self.lengths, shared=self._shared)
        self.logits = logits[:, -1].float()

    def _assemble(self, index: Tensor, joins: Sequence[Prefix]) -> None:
        old_width = max(self.lengths, default=0)
        kept = index.tolist()
        shares = [self._lean is not None and prefix.length >= _SHARED_FROM for prefix in joins]
        self._prompts = [self._prompts[row] for row in kept]
        self._prompts += [
            prefix if shared else None for prefix, shared in zip(joins, shares, strict=True)
        ]
        self._shared = self._sharing()
        sources = [
            _without_tokens(prefix.cache) if shared else prefix.cache
            for prefix, shared in zip(joins, shares, strict=True)
        ]
        self.lengths = [self.lengths[row] for row in kept]
        self.lengths += [source.get_seq_length() for source in sources]
        width = max(self.lengths)
        trimmed = max(0, old_width - width)
        if self.cache is not None and len(index):
            sources = [self.cache, *sources]
        assembled = []
        for parts in zip(*(source.layers for source in sources), strict=True):
            keys, values = [part.keys for part in parts], [part.values for part in parts]
            shape = index, len(joins), trimmed, width
            assembled.append((_assemble_tensor(keys, *shape), _assemble_tensor(values, *shape)))
        self.cache = _cache_of(assembled)

    def _sharing(self) -> SharedPrompts | None:
        """Which rows read which prompt; None where nobody shares any."""
        members: dict[Prefix | None, list[int]] = {}
        for row, prompt in enumerate(self._prompts):
            members.setdefault(prompt, []).append(row)
        if set(members) <= {None}:
            return None
        groups = []
        for prompt, rows in members.items():
            groups.append((None if prompt is None else prompt.cache, self._tensor(rows)))
        lengths = [0 if prompt is None else prompt.length for prompt in self._prompts]
        return SharedPrompts(groups, self._tensor(lengths), max(lengths))

    def _reorder(self, index: Tensor, joins: Sequence[Prefix]) -> None:
        if joins:
            (prefix,) = joins
            self.cache = copy.deepcopy(prefix.cache)
            self.lengths = [prefix.length]
        elif self.cache is not None:
            self.cache.reorder_cache(index)
            self.lengths = [self.lengths[row] for row in index.tolist()]

    def _forward(
        self,
        ids: Tensor,
        cache: Cache,
        lengths: list[int],
        num_logits: int = 1,
        shared: SharedPrompts | None = None,
    ) -> Tensor:
        """Logits (rows, num_logits, V) of ids (rows, S).

        `lengths` counts each row's tokens after this pass.
        """
        arguments: dict[str, Tensor] = {}
        width = cache.get_seq_length() + ids.shape[1] if self.mergeable else 0
        # Without padding the model counts positions itself, and attention takes its fast path.
        is_padded = min(lengths) < width
        first = width - self._tensor(lengths) if is_padded else None  # where a row's tokens begin
        if self._lean is not None and (shared is not None or not _is_hooked(self.model)):
            with device_watched():
                return self._lean(ids, cache, first, num_logits=num_logits, shared=shared)
        if first is not None:
            columns = torch.arange(width, device=ids.device)
            arguments["position_ids"] = (columns[-ids.shape[1] :] - first[:, None]).clamp(min=0)
            arguments["attention_mask"] = (columns >= first[:, None]).long()
        with device_watched():
            output = self.model(
                input_ids=ids,
                past_key_values=cache,
                use_cache=True,
                logits_to_keep=num_logits,
                **arguments,
            )
        logits: Tensor = output.logits
        return logits

    def _tensor(self, values: list[int] | list[list[int]]) -> Tensor:
        return torch.tensor(values, dtype=torch.long, device=self.model.device)


def _cache_of(layers: Iterable[tuple[Tensor, ...]]) -> Any:
    """A cache that holds these (keys, values) themselves; `DynamicCache(data)` would copy them."""
    cache = DynamicCache()
    for keys, values in layers:
        layer: Any = DynamicLayer()  # type: ignore[no-untyped-call]
        layer.lazy_initialization(keys, values)
        layer.keys, layer.values = keys, values
        cache.layers.append(layer)
    return cache


def _one_row(cache: Any, row: int, length: int) -> Any:
    """The unpadded cache of one row of a prefill, as views."""
    own = slice(row, row + 1), slice(None), slice(-length, None)
    return _cache_of((layer.keys[own], layer.values[own]) for layer in cache.layers)


def _without_tokens(cache: Any) -> Any:
    """The beginning of what a row of a shared prompt keeps for itself."""
    return _cache_of((layer.keys[:, :, :0], layer.values[:, :, :0]) for layer in cache.layers)


def _is_hooked(model: PreTrainedModel) -> bool:
    """Whether somebody looks at the model's calls, who would see none of a lean pass."""
    return bool(model._forward_hooks or model._forward_pre_hooks)


def _is_all(rows: Sequence[int], count: int) -> bool:
    return list(rows) == list(range(count))


def _assemble_tensor(
    parts: list[Tensor], index: Tensor, num_joins: int, trimmed: int, width: int
) -> Tensor:
    """Rows (N, heads, width, dim), right-aligned: `index` of the old part, then the prefixes.

    parts: the old rows (rows, heads, old width, dim) where `index` is not empty, then prefixes (1,
    heads, length, dim).
    """
    if not num_joins:
        return parts[0][:, :, trimmed:].index_select(0, index)
    like, num_kept = parts[-1], len(index)
    # Padding must be finite: a masked NaN would still poison the weighted sum of values.
    rows = like.new_zeros(num_kept + num_joins, like.shape[1], width, like.shape[3])
    if num_kept:
        old = parts[0][:, :, trimmed:].index_select(0, index)
        rows[:num_kept, :, width - old.shape[2] :] = old
    for row, prefix in enumerate(parts[-num_joins:], start=num_kept):
        rows[row, :, width - prefix.shape[2] :] = prefix[0]
    return rows
