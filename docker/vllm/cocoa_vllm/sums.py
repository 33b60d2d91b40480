"""What probes read of an answer, as running sums of its request.

They are kept by request id, so that a request that vLLM preempts and computes anew goes on where it
was. Nothing here waits for the device.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

_FIRST_SLOTS = 16
_LOST = -1


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers of r requests so far.

    Attributes:
        means: (r, L, d) states of L layers, averaged over the steps whose input is y_1 … y_{T-1};
            for T = 1 the prompt's last state.
        sp: (r,) summed negative log-likelihood, nats.
        mte: (r,) mean token entropy, nats.
        length: (r,) T.

    Means, mte and length are no numbers for a request that was lost track of.
    """

    means: Tensor
    sp: Tensor
    mte: Tensor
    length: Tensor


class Sums:
    """Running sums of every request that wants readings.

    Args:
        num_layers: L.
        dimension: d.
    """

    def __init__(self, num_layers: int, dimension: int, device: torch.device) -> None:
        self._states = torch.zeros(_FIRST_SLOTS, num_layers, dimension, device=device)
        self._tokens = torch.zeros(_FIRST_SLOTS, 2, device=device)  # sp, entropy
        self._free = list(range(_FIRST_SLOTS))
        self._slots: dict[str, int] = {}
        self._lengths: dict[str, int] = {}

    def __len__(self) -> int:
        """How many requests are kept."""
        return len(self._slots)

    def forget(self, requests: Iterable[str]) -> None:
        """Free what ended requests held."""
        for request in requests:
            if (slot := self._slots.pop(request, None)) is not None:
                self._free.append(slot)
                del self._lengths[request]

    def add(
        self,
        requests: Sequence[str],
        steps: Sequence[int],
        states: Tensor,
        logprobs: Tensor,
        entropies: Tensor,
    ) -> Answers:
        """Count one token of each request.

        Args:
            requests: r ids.
            steps: tokens that each answer had before this one.
            states: (r, L, d) float32 at the last position of this step's input.
            logprobs: (r,) of the token drawn.
            entropies: (r,) of what it was drawn from.
        """
        slots = [self._slot(request) for request in requests]
        # A freed slot may hold anything, infinity too, so the first token replaces what is there.
        # The prompt's last state counts for T = 1 only, so the second token replaces it.
        self._clear(self._tokens, slots, steps, last=0)
        self._clear(self._states, slots, steps, last=1)
        lengths = [self._length(*pair) for pair in zip(requests, steps, strict=True)]
        counts = [length - 1 or 1.0 for length in lengths]
        numbers = sent([slots, lengths, counts], self._states.device)
        index, length, count = numbers[0].long(), numbers[1], numbers[2]
        kept = self._states.index_select(0, index).add_(states)
        tokens = self._tokens.index_select(0, index)
        tokens += torch.stack([-logprobs, entropies], dim=1)
        self._states.index_copy_(0, index, kept)
        self._tokens.index_copy_(0, index, tokens)
        return Answers(kept / count[:, None, None], tokens[:, 0], tokens[:, 1] / length, length)

    def _clear(
        self, sums: Tensor, slots: Sequence[int], steps: Sequence[int], *, last: int
    ) -> None:
        """Put 0 in place of the sums of requests that are not beyond this step."""
        cleared = [slot for slot, step in zip(slots, steps, strict=True) if step <= last]
        if cleared:
            sums.index_fill_(0, sent(cleared, sums.device), 0.0)

    def _length(self, request: str, step: int) -> float:
        """T; not a number where the token is not the next one, and behind such a token."""
        if step and self._lengths[request] != step:
            self._lengths[request] = _LOST
            return math.nan
        self._lengths[request] = step + 1
        return step + 1.0

    def _slot(self, request: str) -> int:
        if request not in self._slots:
            if not self._free:
                self._grow()
            self._slots[request] = self._free.pop()
            self._lengths[request] = _LOST
        return self._slots[request]

    def _grow(self) -> None:
        """Twice the room: how many requests wait preempted is bounded by nothing."""
        num_slots = len(self._states)
        self._free += range(num_slots, 2 * num_slots)
        self._states = torch.cat([self._states, torch.zeros_like(self._states)])
        self._tokens = torch.cat([self._tokens, torch.zeros_like(self._tokens)])


def sent(numbers: Sequence[Any], device: torch.device) -> Tensor:
    """A tensor of numbers on its way to the device."""
    return torch.tensor(numbers, pin_memory=device.type == "cuda").to(device, non_blocking=True)
