"""Draws that do not repeat: from the sampling law without the sequences that were found before.

A row that has written tokens w stands before the law q(t | w). Of a found sequence that begins with
w and t, the share left(w, t) = product of q over its later tokens is taken off: t keeps
q(t | w) (1 - sum of left(w, t)). So a whole draw y has probability q(y) / (1 - q(found)) where y
was not found, and 0 where it was. Shi et al. 2020 (UniqueRandomizer).
"""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from models.engines.jobs import Row

# Less of a token than this is left by rounding alone: one row's float32 law differs by as much
# from batch to batch.
_ROUNDING = 1e-5


def found_by(rows: Iterable[Row]) -> dict[tuple[int, ...], dict[int, float]]:
    """By the tokens so far and the next one: which share of what may follow them was found.

    Each sequence of the finished rows counts once, and a given answer, of which nobody knows the
    chances, not at all.

    >>> row = Row(None, 1, frozenset(), token_ids=[5, 7], chances=[0.5, 0.25])
    >>> found_by([row, row])
    {(5,): {7: 1.0}, (): {5: 0.25}}
    """
    found: dict[tuple[int, ...], dict[int, float]] = {}
    drawn = {tuple(row.token_ids): row.chances for row in rows if row.chances}
    for sequence, chances in drawn.items():
        left = 1.0
        for i in reversed(range(len(sequence))):
            after = found.setdefault(sequence[:i], {})
            after[sequence[i]] = after.get(sequence[i], 0.0) + left
            left *= chances[i]
    return found


def without_found(mass: Tensor, tokens: Tensor, rows: Sequence[Row]) -> Tensor:
    """The mass (R, k) that rows may still draw from.

    A row before which everything was found keeps what it had, and repeats.

    mass: (R, k) of the tokens under the sampling law.
    tokens: (R, k).
    rows: R, with what their job has found.
    """
    kept = mass.clone()
    for i, row in enumerate(rows):
        for token, share in row.job.found.get(tuple(row.token_ids), {}).items():
            left = 1.0 - share
            kept[i, tokens[i] == token] *= left if left > _ROUNDING else 0.0
    is_empty = kept.sum(-1, keepdim=True) <= _ROUNDING * mass.sum(-1, keepdim=True)
    return torch.where(is_empty, mass, kept)
