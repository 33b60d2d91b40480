"""Grammars of rows as masks on their logits.

A mask is put on the logits before anything reads them, so that log-probs and entropies are those
among the tokens that the grammar allows. Rows with the same tokens so far share one `Following`,
and with it one mask, until they choose different tokens.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

from models.engines.jobs import Row, RowJob
from models.grammar.following import Following


def mask(logits: Tensor, rows: Sequence[Row], slots: Sequence[int]) -> list[RowJob]:
    """Set logits to -inf that the rows' grammars do not allow; the jobs whose masks take too long.

    Logits (num_slots, V) are changed in place; `slots` (rows,) has each row's among them.
    """
    masked: set[Following] = set()
    failed: list[RowJob] = []
    for row, slot in zip(rows, slots, strict=True):
        following = row.following
        if following is None or following in masked:
            continue
        if (words := following.allowed()) is None:
            failed.append(row.job)
            continue
        masked.add(following)
        bits = np.unpackbits(~words.view(np.uint8), count=logits.shape[1], bitorder="little")
        is_barred = torch.from_numpy(bits).view(torch.bool).to(logits.device)
        logits[slot].masked_fill_(is_barred, -math.inf)
    return failed


def follow(rows: Iterable[Row]) -> list[RowJob]:
    """Let grammars follow the latest tokens of their rows; the jobs of which that takes too long.

    Rows that shared a `Following` and chose different tokens have one each from now on.
    """
    shared: dict[tuple[Following, int], Following] = {}
    branched: set[Following] = set()
    failed: list[RowJob] = []
    pending: list[tuple[Row, Following]] = []
    for row in rows:
        if row.following is None or row.finish_reason is not None or row.job.cancelled:
            continue
        key = row.following, row.token_ids[-1]
        if key not in shared:
            shared[key] = row.following
            if row.following in branched:
                shared[key] = row.following.copy()
            branched.add(row.following)
            pending.append((row, shared[key]))
        row.following = shared[key]
    # Copies are made before anything moves on.
    for row, following in pending:
        lead = row.lead if row.stage == "answer" and row.first_of_answer else None
        if not following.take(row.token_ids[-1], lead):
            failed.append(row.job)
    return failed
