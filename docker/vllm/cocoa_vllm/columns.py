"""Columns of numbers among a step's top log-probs; pure functions on tensors."""

from typing import Any

import torch
from torch import Tensor

# Column j travels as the log-prob of token FIRST_ID + j, which no vocabulary has.
FIRST_ID = 2_000_000_000
# In place of a number that is not finite, which JSON cannot carry; vLLM raises all below to it.
MISSING = -9999.0


def entropies(logits: Tensor, rows: Tensor, *, block: int = 32_768) -> Tensor:
    """Entropies (r,) in nats over the whole vocabulary.

    The sum that normalises and the mean of the logits come from the same pass over blocks of the
    vocabulary, each below its own highest logit, so that a block is copied once and no second copy
    of the logits is made.

    Args:
        logits: (rows, V) of any precision; -inf is a probability of 0.
        rows: (r,) indices of the rows wanted.
        block: columns of the vocabulary that are float32 at a time.
    """
    parts = []
    for part in torch.split(logits, block, dim=-1):
        below = part.index_select(0, rows).float()
        # Of a block without any probability -inf, which less itself would be no number.
        top = below.amax(dim=-1, keepdim=True).clamp_(min=torch.finfo(below.dtype).min)
        # exp(-1e4) is 0, as it is of -inf, which times 0 would be no number.
        below.sub_(top).clamp_(min=-1e4)
        likelihood = below.exp()
        weighted = torch.linalg.vecdot(likelihood, below)
        parts.append(torch.stack([top[:, 0], likelihood.sum(dim=-1), weighted]))
    top, total, weighted = torch.stack(parts, dim=1).unbind()
    below = top - top.amax(dim=0)
    weighted += total * below
    sums = (torch.stack([total, weighted]) * below.exp()).sum(dim=1)
    total, weighted = sums.unbind()
    return total.log() - weighted / total


def finite(values: Tensor) -> Tensor:
    """The same with MISSING for what is not finite."""
    return torch.nan_to_num(values, nan=MISSING, posinf=MISSING, neginf=MISSING)


def insert(logprobs_tensors: Any, rows: Tensor, values: Tensor) -> None:
    """Put values behind the sampled token of these rows, in place.

    As many as the step's width holds; what stood there moves right, and the last leave.

    Args:
        logprobs_tensors: vLLM's `LogprobsTensors`, ids and log-probs (rows, 1 + K).
        rows: (r,) indices.
        values: (r, c).
    """
    ids, logprobs = logprobs_tensors.logprob_token_ids, logprobs_tensors.logprobs
    if ids.dim() != 2:  # a request for the whole vocabulary is in the batch
        return
    num_kept = ids.shape[1] - 1
    values = values[:, :num_kept]
    count = values.shape[1]
    numbers = torch.arange(FIRST_ID, FIRST_ID + count, dtype=ids.dtype, device=ids.device)
    behind = slice(1, 1 + num_kept - count)
    old_ids, old = ids.index_select(0, rows), logprobs.index_select(0, rows)
    new_ids = numbers.expand(len(rows), count)
    ids.index_copy_(0, rows, torch.cat([old_ids[:, :1], new_ids, old_ids[:, behind]], dim=1))
    new = torch.cat([old[:, :1], values.to(old.dtype), old[:, behind]], dim=1)
    logprobs.index_copy_(0, rows, new)
