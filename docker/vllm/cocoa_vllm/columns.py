"""Numbers among top log-probs: what a request may ask for, and how they get there. Pure."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

FORMAT = 2
# The key in `vllm_xargs`.
ARGUMENT = "cocoa"
Mode = Literal["entropy", "identity", "light"]
# Columns that any reply of the mode may have; fewer `logprobs` would cut some of them off.
_LEAST_COLUMNS: Mapping[Mode, int] = {"entropy": 2, "identity": 6, "light": 4}
MODES = tuple(_LEAST_COLUMNS)
# Column j travels as the log-prob of token FIRST_ID + j, which no vocabulary has.
FIRST_ID = 2_000_000_000
# In place of a number that is not finite, which JSON cannot carry; vLLM raises all below to it.
MISSING = -9999.0
# Why there is no Light.
READY, NO_PROBE, NO_SUPPORT, SPECULATIVE, PARALLEL, OTHER_LOGPROBS = range(6)
# Hexadecimal digits that are told of a revision or a probe, and in one column: integers below 2**24
# are exact in float32.
DIGITS, _A_COLUMN = 12, 6


def mode_of(extra_args: Mapping[str, Any] | None) -> Mode | None:
    """The mode that a request opted into; None for nearly everybody."""
    wanted = extra_args.get(ARGUMENT) if extra_args else None
    return wanted if wanted in MODES else None


def complaint(extra_args: Mapping[str, Any] | None, logprobs: int | None) -> str | None:
    """What is wrong with a request, in words for its sender; None for a sound one.

    Args:
        extra_args: the request's `vllm_xargs`.
        logprobs: top log-probs that it asks for; None without any, -1 for the whole vocabulary.
    """
    if not extra_args or ARGUMENT not in extra_args:
        return None
    mode = mode_of(extra_args)
    if mode is None:
        return f"vllm_xargs.{ARGUMENT} must be one of {', '.join(MODES)}"
    least = _LEAST_COLUMNS[mode]
    if logprobs == -1 or (logprobs or 0) < least:
        return f"vllm_xargs.{ARGUMENT}={mode} needs logprobs of at least {least}"
    return None


def mark_of(*parts: object) -> int:
    """An integer below 2**24 that changes with any of the parts."""
    return int(hashlib.sha256(repr((FORMAT, *parts)).encode()).hexdigest()[:_A_COLUMN], 16)


def identity_columns(mark: int, light: int, revision: str, probes: Sequence[str]) -> list[float]:
    """The columns of an `identity` reply.

    Args:
        mark: of `mark_of`.
        light: READY, or why not.
        revision: hexadecimal, or "".
        probes: SHA-256 of each, hexadecimal.

    >>> identity_columns(7, 0, "57da5ac5a9c1", [])
    [7.0, 2.0, 0.0, 0.0, 5757530.0, 12954049.0]
    """
    columns = [float(mark), float(FORMAT), float(light), float(len(probes))]
    for digits in (revision, *probes):
        told = digits[:DIGITS].ljust(DIGITS, "0")
        columns += [float(int(told[i : i + _A_COLUMN], 16)) for i in range(0, DIGITS, _A_COLUMN)]
    return columns


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


def insert(logprobs_tensors: Any, rows: Tensor, values: Tensor) -> None:
    """Put values behind the sampled token of these rows, in place, MISSING for what is not finite.

    As many as the step's width holds; what stood there moves right, and the last leave.

    Args:
        logprobs_tensors: vLLM's `LogprobsTensors`, ids and log-probs (rows, 1 + K).
        rows: (r,) indices.
        values: (r, c).
    """
    ids, logprobs = logprobs_tensors.logprob_token_ids, logprobs_tensors.logprobs
    if ids.dim() != 2:  # a request for the whole vocabulary is in the batch
        return
    values = torch.nan_to_num(values, nan=MISSING, posinf=MISSING, neginf=MISSING)
    numbers = torch.arange(FIRST_ID, FIRST_ID + values.shape[1], device=ids.device)
    for old, new in ((ids, numbers.expand_as(values)), (logprobs, values)):
        kept = old.index_select(0, rows)
        longer = torch.cat([kept[:, :1], new.to(old.dtype), kept[:, 1:]], dim=1)
        old.index_copy_(0, rows, longer[:, : old.shape[1]])
