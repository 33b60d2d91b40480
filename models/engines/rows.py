"""The key-value cache of all rows that decode together.

Rows are right-aligned and padded on the left, so that a row's tokens are contiguous and sliding
windows, which count cache positions, stay correct. They leave by `keep` and come by `join`.
"""

import copy
import functools
import inspect
import sys
from collections.abc import Iterable, Sequence
from itertools import product
from operator import attrgetter
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from models.engines.fast.attention import SharedPrompts
from models.engines.fast.captured import CapturedSteps
from models.engines.fast.layers import is_llama_like
from models.engines.fast.lean import LeanForward
from models.engines.hidden import HiddenTap
from models.engines.jobs import Prefix, Row, RowJob, Scored
from models.engines.sampling import normed, norms_and_entropies, note_likeliest
from models.errors import ModelLost
from models.pretrained import (
    Cache,
    DynamicCache,
    DynamicLayer,
    PreTrainedModel,
    get_layer_types_and_kwargs,
)

_MERGEABLE_LAYERS = {"full_attention", "sliding_attention"}
# Bounds of a pass over prompts, between two tokens of the running rows: products with weights on a
# processor, about a second on two cores, and padded tokens in any case.
_PASS_PRODUCTS = 1 << 36
_PASS_TOKENS = (64, 2048)
# Tokens from which a prompt is read where it lies, by all its rows at once. To copy a shorter one
# for each row takes less than a second product a layer.
_SHARED_FROM = 64


def is_mergeable(model: PreTrainedModel) -> bool:
    """True where rows of different requests can share a step.

    They can where every layer caches plain keys and values.
    """
    config = model.config.get_text_config(decoder=True)
    layer_types, _ = get_layer_types_and_kwargs(config)
    return set(layer_types) <= _MERGEABLE_LAYERS and not getattr(config, "num_kv_shared_layers", 0)


def is_captured(model: PreTrainedModel) -> bool:
    """True where decoding steps are captured, for which each row holds its own prompt."""
    return model.device.type == "cuda"


class RowCache:
    """Keys, values and next-token logits of the running rows."""

    def __init__(self, model: PreTrainedModel) -> None:
        self.model = model
        # Rows of others join an empty batch only, one request at a time.
        self.mergeable = is_mergeable(model)
        self.tap = HiddenTap(model)  # of the latest pass, a prefill's or a step's
        self._tensor = functools.partial(torch.tensor, dtype=torch.long, device=model.device)
        self.pass_tokens = _pass_tokens(model)  # of prompts
        if not self.mergeable:
            self.pass_tokens = sys.maxsize
        # Of given answers that are read in one pass, which bounds its logits to (64, V); 1 where a
        # model forgets its past when several tokens follow it.
        self.answer_tokens = 64
        self.told_tokens = self.pass_tokens  # of prompts whose log-probs are told
        if not self.mergeable:
            self.told_tokens = self.answer_tokens
        taken = inspect.signature(model.forward).parameters
        cache_names = filter(taken.__contains__, ("past_key_values", "cache_params"))
        self._cache_name = next(cache_names, "cache")  # from transformers 5.24 on for all
        self._takes_positions = "position_ids" in taken and not self.mergeable
        self._lean = self._captured = None
        if is_llama_like(model):
            self._lean = LeanForward(model, self.tap.states)
        if self._lean is not None and is_captured(model):
            self._captured = CapturedSteps(self._lean)
        self.clear()

    def clear(self) -> None:
        self.cache: Any = None  # transformers' Cache, whose layers are typed too widely to read
        self.lengths: list[int] = []  # of each row, in `cache`
        self._prompts: list[Prefix | None] = []  # that each row reads beside it
        self._shared: SharedPrompts | None = None
        # (rows, V) in the model's own precision, of the next token of every row.
        self.logits = torch.empty(0, 0, device=self.model.device)

    def prefill(
        self,
        prompts: Sequence[list[int]],
        begun: Prefix | None = None,
        told: Sequence[Sequence[Row]] = (),
    ) -> list[Prefix]:
        """One forward pass over the prompts, padded on the left.

        Several prompts are allowed only where the model is mergeable.

        Args:
            prompts: or the next part of one.
            begun: the part of that one that was read before; it is used up.
            told: of each prompt, or of none, the rows that note what is known of its tokens.
        """
        lengths = list(map(len, prompts))
        width = max(lengths)
        padded = pad_sequence(list(map(torch.tensor, prompts)), True, padding_side="left")
        ids = padded.to(self.model.device)
        # Without a config every layer keeps the whole sequence, and sliding windows join, too.
        cache, before = DynamicCache(config=None if self.mergeable else self.model.config), 0
        if begun is not None:
            cache, before = begun.cache, begun.length
        num_logits = max(1, width * bool(told))
        logits = self._forward(ids, cache, list(map(before.__add__, lengths)), num_logits)
        for number, rows in enumerate(told):
            self._note(rows, before + 1, logits[number, -lengths[number] :])
        last = logits[:, -1].clone()
        if len(prompts) == 1:
            return [Prefix(cache, before + width, last[0])]
        return _prefixes_of(cache, lengths, last)

    def read_last(self, jobs: Sequence[RowJob]) -> None:
        """Read the last token of each prompt in one pass; all tokens before it were read."""
        caches: list[Any] = []
        ids: list[list[int]] = []
        lengths: list[int] = []
        for job in jobs:
            if job.prefix is not None:
                caches.append(job.prefix.cache)
                ids.append(job.prompt_ids[-1:])
                lengths.append(len(job.prompt_ids))
        cache = _together(None, caches)
        logits = self._forward(self._tensor(ids), cache, lengths)[:, -1]
        for job, prefix in zip(jobs, _prefixes_of(cache, lengths, logits), strict=True):
            job.prefix = prefix

    def read_on(self, before: Prefix, ids: Sequence[int]) -> tuple[Prefix, Tensor]:
        """What `before` becomes, which is used up, and the logits (len(ids), V) behind each id."""
        length = before.length + len(ids)
        chunk = self._tensor([list(ids)])
        logits = self._forward(chunk, before.cache, [length], num_logits=len(ids))[0]
        return Prefix(before.cache, length, logits[-1].clone()), logits

    def score(self, scored: Scored) -> None:
        """Read the next tokens of a given answer."""
        place, first = len(scored.row.logprobs), scored.read.logits[None]
        ids = scored.row.token_ids[place : place + self.answer_tokens]
        scored.read, following = self.read_on(scored.read, ids)
        self._note([scored.row], place, torch.cat([first, following[:-1]]))

    def _note(self, rows: Sequence[Row], place: int, logits: Tensor) -> None:
        """Note what logits (n, V) say of tokens from a place on, which they predict.

        The rows are alike but for their last token.
        """
        logits = logits[: len(rows[0].token_ids) - place]
        places = range(len(logits))
        wanting = set(places) if "token_entropies" in rows[0].fields else set[int]()
        norms, entropies = norms_and_entropies(logits, logits.amax(-1), wanting)
        for row in rows:
            for known in (row.logprobs, row.entropies, row.tops):
                del known[place:]  # by a pass that has failed
            ids = self._tensor(row.token_ids[place : place + len(logits)])
            row.logprobs += normed(logits.gather(1, ids[:, None])[:, 0], norms).tolist()
            if wanting:
                row.entropies += entropies.tolist()
        telling = list(filter(attrgetter("job.request.num_tops"), rows))
        note_likeliest(logits, norms, places, list(product(places, telling)))
        for row in telling:
            own = zip(row.token_ids[place:], row.logprobs[place:], strict=False)
            for tops, pair in zip(row.tops[place:], own, strict=True):
                if pair not in tops:
                    tops.append(pair)

    def keep(self, rows: Sequence[int]) -> None:
        """Keep these rows, maybe repeated, without common padding; `logits` need a pass."""
        if list(rows) == list(range(len(self.lengths))):
            return
        if not rows:
            self.clear()
            return
        index = self._tensor(list(rows))
        before = max(self.lengths)
        self.lengths = [self.lengths[row] for row in rows]
        if not self.mergeable:
            self.cache.reorder_cache(index)
            return
        trimmed = before - max(self.lengths)
        for layer in self.cache.layers:
            layer.keys = layer.keys[:, :, trimmed:].index_select(0, index)
            layer.values = layer.values[:, :, trimmed:].index_select(0, index)
        self._read_beside([self._prompts[row] for row in rows])

    def join(self, prefixes: Sequence[Prefix]) -> None:
        """Append one row a prefix; where rows cannot share a step it is the only one."""
        logits = [self.logits] if self.lengths else []
        for prefix in prefixes:
            logits.append(prefix.logits[None])
        self.logits = torch.cat(logits)
        if not self.mergeable:
            (prefix,) = prefixes
            self.cache, self.lengths = copy.deepcopy(prefix.cache), [prefix.length]
            return
        running = self.cache if self.lengths else None
        caches = []
        prompts = list(self._prompts)
        for prefix in prefixes:
            is_short = prefix.length < _SHARED_FROM
            if self._lean is None or self._captured is not None or is_short:
                prompts.append(None)
                caches.append(prefix.cache)
                self.lengths.append(prefix.length)
            else:
                prompts.append(prefix)
                caches.append(_part_of(prefix.cache, slice(None), slice(0, 0)))
                self.lengths.append(0)
        self.cache = _together(running, caches)
        self._read_beside(prompts)

    def forward(self, tokens: Sequence[int]) -> None:
        """Feed one token to every row; `logits` then predict the token after it."""
        for row in range(len(self.lengths)):
            self.lengths[row] += 1
        ids = self._tensor(list(tokens))[:, None]
        self.logits = self.logits[:0]  # never two of them
        logits = self._forward(ids, self.cache, self.lengths, shared=self._shared)
        self.logits = logits[:, -1]

    def _read_beside(self, prompts: list[Prefix | None]) -> None:
        """Note which prompt each row reads beside its own keys and values."""
        self._prompts, self._shared = prompts, None
        if not any(prompts):
            return
        members: dict[Prefix | None, list[int]] = {}
        for row, prompt in enumerate(prompts):
            members.setdefault(prompt, []).append(row)
        groups: list[tuple[Any | None, Tensor]] = []
        lengths, longest = self._tensor([0] * len(prompts)), 0
        for prompt, rows in members.items():
            index = self._tensor(rows)
            if prompt is None:
                groups.append((None, index))
                continue
            groups.append((prompt.cache, index))
            lengths[index] = prompt.length
            longest = max(longest, prompt.length)
        self._shared = SharedPrompts(groups, lengths, longest)

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
        arguments: dict[str, Any] = {self._cache_name: cache}
        width = cache.get_seq_length() + ids.shape[1] if self.mergeable else 0
        # Without padding the model counts positions itself, and attention takes its fast path.
        is_padded = min(lengths) < width
        first = width - self._tensor(lengths) if is_padded else None  # where a row's tokens begin
        # Whoever has put a hook on the model would see nothing of a lean pass.
        is_hooked = self.model._forward_hooks or self.model._forward_pre_hooks
        lean = self._lean
        captured = self._captured if cache is self.cache and not is_hooked else None
        try:
            if captured is not None and captured.has_room(cache):
                return captured(ids, cache, first)
            if lean is not None and (shared is not None or lean.is_alone or not is_hooked):
                return lean(ids, cache, first, num_logits=num_logits, shared=shared)
            if first is not None:
                columns = torch.arange(width, device=ids.device)
                arguments["position_ids"] = (columns[-ids.shape[1] :] - first[:, None]).clamp(min=0)
                arguments["attention_mask"] = (columns >= first[:, None]).long()
            elif self._takes_positions:  # whose own count may look into a layer that has none
                columns = torch.arange(lengths[0], device=ids.device)
                arguments["position_ids"] = columns[None, -ids.shape[1] :]
            output = self.model(
                input_ids=ids, use_cache=True, logits_to_keep=num_logits, **arguments
            )
        except torch.AcceleratorError as error:  # to run out of memory is none
            raise ModelLost(type(error).__name__) from error
        logits: Tensor = output.logits
        return logits


def _pass_tokens(model: PreTrainedModel) -> int:
    least, most = _PASS_TOKENS
    if model.device.type != "cpu":
        return most
    num_weights = model.num_parameters(exclude_embeddings=True)
    return min(max(least, _PASS_PRODUCTS // num_weights), most)


def _cache_of(layers: Iterable[tuple[Tensor, ...]]) -> Any:
    """A cache that holds these (keys, values) themselves; `DynamicCache(data)` would copy them."""
    cache = DynamicCache()
    for keys, values in layers:
        layer: Any = DynamicLayer()  # type: ignore[no-untyped-call]
        layer.lazy_initialization(keys, values)
        layer.keys, layer.values = keys, values
        cache.layers.append(layer)
    return cache


def _part_of(cache: Any, rows: slice, positions: slice) -> Any:
    """Some rows and positions of a cache, as views."""
    parts = []
    for layer in cache.layers:
        parts.append((layer.keys[rows, :, positions], layer.values[rows, :, positions]))
    return _cache_of(parts)


def _prefixes_of(cache: Any, lengths: Sequence[int], logits: Tensor) -> list[Prefix]:
    """A prefix of each row of a cache, of these lengths, as views."""
    prefixes = []
    for row, length in enumerate(lengths):
        part = _part_of(cache, slice(row, row + 1), slice(-length, None))
        prefixes.append(Prefix(part, length, logits[row]))
    return prefixes


def _together(running: Any | None, joining: Sequence[Any]) -> Any:
    """One cache of the rows of all, right-aligned; `running` is used up, a layer at a time.

    Padding is zero: a masked NaN would still poison the weighted sum of values.
    """
    caches = [running, *joining] if running is not None else joining
    width = max(cache.get_seq_length() for cache in caches)

    def aligned(part: Tensor) -> Tensor:
        missing = width - part.shape[2]
        return F.pad(part, (0, 0, missing, 0)) if missing else part

    layers = []
    for parts in zip(*(cache.layers for cache in caches), strict=True):
        keys = torch.cat([aligned(part.keys) for part in parts])
        layers.append((keys, torch.cat([aligned(part.values) for part in parts])))
        if running is not None:
            parts[0].keys = parts[0].values = keys[:0]
    return _cache_of(layers)
