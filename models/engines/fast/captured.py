"""Decoding steps on a GPU, each launched as one CUDA graph.

A step is some thirty small operations a layer, which a GPU computes in less time than it takes to
launch them. A graph launches again what was launched before, over the same memory: so the keys and
values of the running rows move into buffers, whose rows and columns are filled up to the next of a
few sizes. A size that comes a second time is captured.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from models.engines.fast.lean import LeanForward

_MOST_ROWS = 512
# Share of the memory free beside the model, for buffers: moving rows into them takes as much.
_MOST_SHARE = 0.4
# Beyond so many graphs the one that was not used for longest is given up.
_MOST_GRAPHS = 64
_LEAST_COLUMNS = 64
# Rows times columns of the first buffers.
_FIRST_TOKENS = 8192


@dataclass(eq=False, slots=True)
class _Size:
    """Steps of so many rows and columns."""

    # Of each, buffers for keys and for values (rows, key-value heads, columns, head size).
    layers: list[tuple[Tensor, Tensor]]
    ids: Tensor  # (rows, 1) tokens that are read
    first: Tensor  # (rows,) column at which each row's tokens begin
    column: Tensor  # (1,) at which they end with what is read
    was_run: bool = False
    graph: Any = None  # once it is captured
    last: Tensor | None = None  # (rows, 1, d) states that it writes, of which the logits are made
    # (rows, d) of each watched layer, likewise.
    states: dict[int, Tensor] = field(default_factory=dict)
    # That it reads; for others a longer table may replace them.
    rotations: dict[str, tuple[Tensor, Tensor]] = field(default_factory=dict)


class CapturedSteps:
    """Decoding steps of a model on a GPU; on a processor the same operations, one by one."""

    def __init__(self, lean: LeanForward) -> None:
        self._lean = lean
        # Keys and values of each layer; every size reads their beginning.
        self._memory: list[tuple[Tensor, Tensor]] = []
        # By rows, columns and watched layers; the latest used is the last one.
        self._sizes: dict[tuple[int, int, tuple[int, ...]], _Size] = {}
        self._most_bytes = math.inf
        self._device = lean.device
        if self._device.type == "cuda":
            self._most_bytes = _MOST_SHARE * torch.cuda.mem_get_info(self._device)[0]
        # The place of the running rows, and their keys of the first layer as the cache has them.
        self._held: tuple[_Size | None, Tensor | None] = None, None

    def has_room(self, cache: Any) -> bool:
        """True where the next step of these rows can be taken here."""
        keys: Tensor = cache.layers[0].keys
        rows, heads, columns, width = keys.shape
        num_bytes = 2 * self._lean.num_layers * heads * width * keys.itemsize
        num_bytes *= max(next_size(rows) * next_size(columns + 1), _FIRST_TOKENS)
        return rows <= _MOST_ROWS and num_bytes <= self._most_bytes

    def __call__(self, ids: Tensor, cache: Any, first: Tensor | None) -> Tensor:
        """Logits (rows, 1, V) of ids (rows, 1), whose keys and values join the cache.

        Args:
            ids: one token a row.
            cache: of what the rows have read before; it becomes a view of the buffers, which have
                room.
            first: (rows,) column at which each row's tokens begin; None where there is no padding.
        """
        rows, column = len(ids), cache.get_seq_length()
        keys = cache.layers[0].keys
        size = self._size_of(rows, column + 1, keys)
        if self._held[0] is not size or self._held[1] is not keys:
            _load(size, cache, is_within=self._held[1] is keys)
        size.ids[:rows] = ids
        size.column.fill_(column)
        size.first.zero_()
        if first is not None:
            size.first[:rows] = first
        last = self._last_states(size)
        for layer, (keys, values) in zip(cache.layers, size.layers, strict=True):
            layer.keys = keys[:rows, :, : column + 1]
            layer.values = values[:rows, :, : column + 1]
        self._held = size, cache.layers[0].keys
        return self._lean.head(last[:rows])

    def _size_of(self, rows: int, columns: int, keys: Tensor) -> _Size:
        rows, columns = next_size(rows), max(next_size(columns), _LEAST_COLUMNS)
        name = rows, columns, tuple(self._lean.watched)
        if (size := self._sizes.pop(name, None)) is None:
            _, heads, _, width = keys.shape
            shape = rows, heads, columns, width
            self._reserve(rows * columns, heads * width, keys)
            layers = []
            for of_keys, of_values in self._memory:
                count = rows * heads * columns * width
                layers.append((of_keys[:count].view(shape), of_values[:count].view(shape)))
            zeros = torch.zeros(rows + rows + 1, dtype=torch.long, device=keys.device)
            size = _Size(layers, zeros[:rows, None], zeros[rows:-1], zeros[-1:])
        self._sizes[name] = size
        if len(self._sizes) > _MOST_GRAPHS:
            self._sizes.pop(next(iter(self._sizes)))
        return size

    def _reserve(self, num_tokens: int, width: int, like: Tensor) -> None:
        """Have room for so many tokens of `width` numbers; graphs of too little room go."""
        if self._memory and self._memory[0][0].numel() >= num_tokens * width:
            return
        count = max(num_tokens, _FIRST_TOKENS) * width
        self._sizes.clear()
        self._memory.clear()
        for _ in range(self._lean.num_layers):
            self._memory.append((like.new_zeros(count), like.new_zeros(count)))

    def _last_states(self, size: _Size) -> Tensor:
        """States (rows, 1, d) of a step over what stands in the buffers, until the next one."""
        if size.graph is None and size.was_run and self._device.type == "cuda":
            self._capture(size)
        if size.graph is None or size.last is None:
            size.was_run = True
            return self._step(size)
        size.graph.replay()
        self._lean.watched.update(size.states)
        return size.last

    def _step(self, size: _Size) -> Tensor:
        return self._lean.step(size.ids, size.layers, size.first, size.column)

    def _capture(self, size: _Size) -> None:
        graph: Any = torch.cuda.CUDAGraph()
        stream = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
        # All graphs share what they need for a while: no two are launched at once.
        pool = next((each.graph.pool() for each in self._sizes.values() if each.graph), None)
        # The threads of other models may use the GPU meanwhile.
        how: Any = {"pool": pool, "stream": stream, "capture_error_mode": "thread_local"}
        with torch.cuda.device(self._device), torch.cuda.graph(graph, **how):
            size.last = self._step(size)
        size.graph, size.rotations = graph, dict(self._lean.rotations)
        size.states = dict(self._lean.watched)


def _load(size: _Size, cache: Any, *, is_within: bool) -> None:
    """Move a cache into the buffers; is_within: it lies in their memory."""
    for layer, buffers in zip(cache.layers, size.layers, strict=True):
        for held, buffer in zip((layer.keys, layer.values), buffers, strict=True):
            moved = held.clone() if is_within else held
            # A NaN that somebody left would poison what is masked, too.
            buffer.zero_()
            buffer[: len(moved), :, : moved.shape[2]] = moved


def next_size(count: int) -> int:
    """The next power of two, or three quarters of it.

    >>> [next_size(count) for count in (1, 3, 11, 13, 65)]
    [1, 3, 12, 16, 96]
    """
    power: int = 1 << (count - 1).bit_length()
    three_quarters = power * 3 // 4
    return three_quarters if three_quarters >= count else power
