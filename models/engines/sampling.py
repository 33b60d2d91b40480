"""One step's choice: the next token of every row, with the statistics that its request wants.

A log-probability is that of the `log_softmax` of all logits, in float64: raw, which means
temperature 1 and no truncation. Nothing as wide as the vocabulary is returned.
"""

import functools
import math
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from operator import attrgetter

import numpy as np
import torch
from torch import Tensor

from models.engines.jobs import Row
from models.records import MAX_TOPS, Array

# Bound of what is computed beside a step's logits at once, which is as wide as the vocabulary.
_BLOCK_BYTES = 32 << 20
# A processor sums rows in parts of a block, which its caches hold.
_CPU_PARTS = 32


@dataclass(frozen=True, slots=True)
class Law:
    """The truncated law that R drawn rows with one top_k follow."""

    temperature: Tensor  # (R,) float32
    top_p: Tensor  # (R,) float64
    top_k: int  # 0 keeps the whole vocabulary


@dataclass(frozen=True, slots=True)
class StepPlan:
    """The needs of each row. A plan holds until a row joins or leaves."""

    greedy: Tensor
    # For each top_k among the drawn rows, their law, their indices, and the rows themselves.
    laws: list[tuple[Law, Tensor, list[Row]]]
    has_statistics: bool  # whether any row's request wants log-probs or entropies
    entropies: Sequence[int]  # indices of the rows whose requests want them
    has_grammars: bool = False  # whether any row follows one
    # The rows of which the likeliest tokens are requested, each with its index.
    tops: Sequence[tuple[int, Row]] = ()


def plan_step(rows: Sequence[Row], device: torch.device) -> StepPlan:
    """Group the rows of a step by what they need."""
    indices = functools.partial(torch.tensor, dtype=torch.long, device=device)
    greedy: list[int] = []
    has_statistics = False
    entropies: list[int] = []
    tops: list[tuple[int, Row]] = []
    by_law: dict[int, list[int]] = {}  # indices of the drawn rows, by top_k
    for i, row in enumerate(rows):
        if row.job.temperatures[row.index > 0] == 0.0:
            greedy.append(i)
        else:
            by_law.setdefault(row.job.request.sampling.top_k, []).append(i)
        if row.job.request.num_tops_of(row.index):
            tops.append((i, row))
        has_statistics |= not row.fields.isdisjoint(("token_logprobs", "token_entropies"))
        if "token_entropies" in row.fields:
            entropies.append(i)
    laws = []
    for top_k, members in by_law.items():
        drawn = list(map(rows.__getitem__, members))
        temperatures = [row.job.temperatures[row.index > 0] for row in drawn]
        top_ps = list(map(attrgetter("job.request.sampling.top_p"), drawn))
        temperature = torch.tensor(temperatures, dtype=torch.float32, device=device)
        top_p = torch.tensor(top_ps, dtype=torch.float64, device=device)
        laws.append((Law(temperature, top_p, top_k), indices(members), drawn))
    return StepPlan(
        greedy=indices(greedy),
        laws=laws,
        has_statistics=has_statistics,
        entropies=entropies,
        has_grammars=any(row.following is not None for row in rows),
        tops=tops,
    )


def next_tokens(
    logits: Tensor, slots: Sequence[int], plan: StepPlan
) -> tuple[list[int], list[float], list[float], list[float]]:
    """The next token of each row, its log-prob, its entropy, and the best logit.

    Greedy rows take the best token, others draw theirs. The likeliest tokens are noted in rows that
    request them. NaN are an entropy that is not wanted, a log-prob where no request wants any, and
    the best logit where any of the row's logits is.

    Args:
        logits: (num_slots, V), in the model's own precision. Rows that share one share its largest
            logits and its log-probs, which are what takes long.
        slots: (rows,) of each row its row of `logits`.
        plan: of these rows.
    """
    device = logits.device
    slot = torch.tensor(slots, device=device)
    best, likeliest = logits.max(dim=-1)
    tokens = likeliest[slot]
    for law, members, rows in plan.laws:
        is_only = len(plan.laws) == 1
        tokens[members] = _drawn(logits, law, slot[members], rows, is_only=is_only)
    if plan.laws:
        tokens[plan.greedy] = likeliest[slot[plan.greedy]]
    columns = torch.full((4, len(slots)), math.nan, dtype=torch.float64, device=device)
    columns[0], columns[3] = tokens, best[slot]
    if plan.has_statistics or plan.tops:
        wanting = {slots[i] for i in plan.entropies}
        norms, entropy = norms_and_entropies(logits, best, wanting)
        columns[1] = normed(logits[slot, tokens], norms[slot])
        if plan.entropies:
            columns[2, plan.entropies] = entropy[slot[plan.entropies]]
        note_likeliest(logits, norms, slots, plan.tops)
    # One transfer a step: each .tolist() waits for the device. Token ids are exact in float64.
    token_ids, logprobs, entropies, best_logits = columns.tolist()
    return list(map(int, token_ids)), logprobs, entropies, best_logits


def _drawn(logits: Tensor, law: Law, slot: Tensor, rows: Sequence[Row], *, is_only: bool) -> Tensor:
    """Drawn tokens (R,) of the rows under one law, whose slots are `slot` (R,).

    is_only: whether the slots of no other law are among the logits.
    """
    uniforms = list(map(uniform_of, rows))
    drawn = torch.tensor(np.array(uniforms), device=logits.device)
    size = len(rows)
    if not (is_only and law.top_k):  # as wide as the vocabulary: order, law and its sums
        size = _rows_at_once((4 if law.top_k else 48) * logits.shape[-1])
    if is_only and len(rows) <= size:
        return draw(logits, law, slot, drawn)
    parts = []
    for start in range(0, len(rows), size):
        part = slice(start, start + size)
        distinct, sources = torch.unique(slot[part], return_inverse=True)
        of = replace(law, temperature=law.temperature[part], top_p=law.top_p[part])
        parts.append(draw(logits[distinct], of, sources, drawn[part]))
    return torch.cat(parts)


def norms_and_entropies(logits: Tensor, best: Tensor, wanting: Set[int]) -> tuple[Tensor, Tensor]:
    """Of each row of logits the log of the sum of its exponentials, and its entropy in nats.

    Both (R,) float64: `log_softmax` in float32 is off by up to 5e-5 over a large vocabulary. The
    entropy is log S - sum(e l) / S, where e are the exponentials of l and S is their sum.

    Args:
        logits: (R, V). Those of -inf have no mass.
        best: (R,) the largest of each row.
        wanting: the rows whose entropy is computed; that of others may be NaN.
    """
    norms = torch.empty(len(logits), dtype=torch.float64, device=logits.device)
    entropies = torch.full_like(norms, math.nan)
    size = _rows_at_once(8 * logits.shape[-1])
    if logits.device.type == "cpu":
        size = max(1, size // _CPU_PARTS)
    for start in range(0, len(logits), size):
        block = slice(start, start + size)
        most = best[block].float()
        below = logits[block].float() - most[:, None]
        exponentials = below.exp()
        sums = exponentials.sum(-1, dtype=torch.float64)
        norms[block] = sums.log() + most
        if wanting.isdisjoint(range(start, start + size)):
            continue
        exponentials *= below.clamp_(min=torch.finfo(below.dtype).min)
        weighted = exponentials.sum(-1, dtype=torch.float64)
        entropies[block] = sums.log() - weighted / sums
    return norms, entropies


def normed(logits: Tensor, norms: Tensor) -> Tensor:
    """Log-probs, float64, to seven digits: what decodes beside a row changes those behind them."""
    return (logits.double() - norms).round(decimals=7)


def _rows_at_once(num_bytes: int) -> int:
    return max(1, _BLOCK_BYTES // num_bytes)


def draw(logits: Tensor, law: Law, sources: Tensor, uniforms: Tensor) -> Tensor:
    """Drawn tokens (R,) by inverse transform.

    Temperature, top-k, top-p, then the token whose cumulative mass covers the row's uniform. One
    uniform a row and step keeps a row's tokens the same whatever decodes beside it.

    logits: (S, V).
    sources: (R,) the row of logits that each draw is from; several may share one.
    uniforms: (R,) float64 in [0, 1).
    """
    k = min(law.top_k or logits.shape[-1], logits.shape[-1])
    values, tokens = logits.topk(k, dim=-1)  # (S, k), descending
    values, tokens = values.float()[sources], tokens[sources]  # (R, k)
    mass = torch.softmax(values / law.temperature[:, None], dim=-1).double()
    before = mass.cumsum(-1) - mass
    mass = mass.masked_fill(before >= law.top_p[:, None], 0.0)
    cdf = mass.cumsum(-1)
    target = (uniforms * cdf[:, -1])[:, None]
    chosen = torch.searchsorted(cdf, target, right=True).clamp(max=k - 1)
    return tokens.gather(1, chosen)[:, 0]


def note_likeliest(
    logits: Tensor, norms: Tensor, slots: Sequence[int], tops: Sequence[tuple[int, Row]]
) -> None:
    """Note in rows the likeliest next tokens with their log-probs, the likeliest first.

    A log-prob is the number that the token has where it is chosen.
    """
    rows: dict[int, list[Row]] = {}
    for index, row in tops:
        rows.setdefault(slots[index], []).append(row)
    most, size = min(MAX_TOPS, logits.shape[-1]), _rows_at_once(8 * logits.shape[-1])
    for start in range(0, len(rows), size):
        part = list(rows)[start : start + size]
        values, tokens = logits[part].topk(most, dim=-1)
        values = normed(values, norms[part, None])
        for slot, *columns in zip(part, tokens.tolist(), values.tolist(), strict=True):
            finite = [pair for pair in zip(*columns, strict=True) if math.isfinite(pair[1])]
            for row in rows[slot]:
                row.tops.append(finite[: row.job.request.num_tops])


def uniform_of(row: Row) -> float:
    """The number that decides a drawn row's next token."""
    job, place = row.job, len(row.token_ids)
    while place >= (size := job.uniforms.shape[1]):
        more = row_uniforms(job.seed, len(job.uniforms), size)
        job.uniforms = np.concatenate((job.uniforms, more), axis=1)
    return float(job.uniforms[row.index, place])


def row_uniforms(seed: int, num_rows: int, first: int = 0) -> Array:
    """The numbers that decide draws: (num_rows, 256) float64 in [0, 1), the answer's first.

    They are of the tokens from the `first` on, a multiple of 256; most texts are short.

    Each row has a stream of its own, so that it is the same whatever runs beside it, however many
    samples are drawn and however long they may be.
    """
    key = np.random.SeedSequence(seed).generate_state(2, np.uint64)
    stream = np.random.Philox(key=key)
    generator, start = np.random.Generator(stream), stream.state
    start["state"]["counter"][0] = first // 4  # each count stands for four numbers
    uniforms = np.empty((num_rows, 256))
    for i, row in enumerate(uniforms):
        start["state"]["counter"][2] = np.uint64((i - 1) % 2**64)  # samples count from 0
        stream.state = start  # a third of the time of a new stream
        generator.random(out=row)
    return uniforms
