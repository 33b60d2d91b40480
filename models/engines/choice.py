"""The next token of every row of a step, with the statistics that each row's request wants.

Rows that share a slot, a row of the cache and of its logits, share the largest of the logits and
their normaliser, which are what takes long.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from models.engines.jobs import Row
from models.engines.sampling import Law, draw, entropies, greedy


@dataclass(frozen=True, slots=True)
class StepPlan:
    """Which rows need what; it holds until a row joins or leaves.

    Attributes:
        greedy: indices of the answers.
        laws: for each top_k among the samples, their law, their indices, and the rows themselves.
        logprobs, entropies: indices of the rows whose requests want them.
    """

    greedy: Tensor
    laws: list[tuple[Law, Tensor, list[Row]]]
    logprobs: Tensor
    entropies: Tensor


@dataclass(frozen=True, slots=True)
class Choice:
    """One step's choice, as lists: what the rows record.

    A log-prob or entropy that is not wanted is NaN, as is the best logit of a row with a NaN among
    its logits.
    """

    token_ids: list[int]
    logprobs: list[float]
    entropies: list[float]
    best_logits: list[float]


def make_plan(rows: Sequence[Row], device: torch.device) -> StepPlan:
    """Group the rows of a step by what they need."""

    def where(chosen: Sequence[bool]) -> Tensor:
        return torch.tensor(
            [i for i, yes in enumerate(chosen) if yes], dtype=torch.long, device=device
        )

    laws = []
    for top_k in dict.fromkeys(row.job.request.sampling.top_k for row in rows if row.index):
        member = [row.index > 0 and row.job.request.sampling.top_k == top_k for row in rows]
        members = [row for row, yes in zip(rows, member, strict=True) if yes]
        sampling = [row.job.request.sampling for row in members]
        temperature = torch.tensor(
            [params.temperature for params in sampling], dtype=torch.float32, device=device
        )
        top_p = torch.tensor(
            [params.top_p for params in sampling], dtype=torch.float64, device=device
        )
        laws.append((Law(temperature, top_p, top_k), where(member), members))
    return StepPlan(
        greedy=where([row.index == 0 for row in rows]),
        laws=laws,
        logprobs=where([row.reads("logprobs") for row in rows]),
        entropies=where([row.reads("entropies") for row in rows]),
    )


def choose(logits: Tensor, slots: Sequence[int], plan: StepPlan) -> Choice:
    """Answers take the best token, samples draw theirs.

    logits: (num_slots, V) float32.
    slots: (rows,) of each row its slot.
    """
    device = logits.device
    slot = torch.tensor(slots, device=device)
    tokens = torch.zeros(len(slots), dtype=torch.long, device=device)
    columns = torch.full((4, len(slots)), math.nan, dtype=torch.float64, device=device)
    if len(plan.greedy):
        tokens[plan.greedy], best = greedy(logits[slot[plan.greedy]])
        columns[3, plan.greedy] = best.double()
    for law, members, rows in plan.laws:
        uniforms = [row.job.uniforms[row.index - 1, len(row.token_ids)] for row in rows]
        sources, shown = slot[members], logits
        if len(plan.laws) > 1:  # of the others' slots nothing is to be known
            distinct, sources = torch.unique(sources, return_inverse=True)
            shown = logits[distinct]
        tokens[members], best = draw(shown, law, sources, torch.tensor(uniforms, device=device))
        columns[3, members] = best.double()
    if len(plan.logprobs) or len(plan.entropies):
        log_normalizers = logits.logsumexp(-1)
        of = slot[plan.logprobs]
        columns[1, plan.logprobs] = (
            logits[of, tokens[plan.logprobs]] - log_normalizers[of]
        ).double()
    if len(plan.entropies):
        of = slot[plan.entropies]
        columns[2, plan.entropies] = entropies(logits[of], log_normalizers[of]).double()
    columns[0] = tokens.double()
    # One transfer a step: each .tolist() waits for the device. Token ids are exact in float64.
    token_ids, logprobs, entropy, best_logits = columns.tolist()
    return Choice([int(token) for token in token_ids], logprobs, entropy, best_logits)
