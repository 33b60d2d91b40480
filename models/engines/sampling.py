"""One step's choice: the next token of every row, with the statistics that its request wants.

A log-probability is a token's logit less the log-normaliser of its row, the `logsumexp` of the
logits: raw, which means temperature 1 and no truncation. Nothing as wide as the vocabulary is
returned.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from models.engines.jobs import Row
from models.records import Array


@dataclass(frozen=True, slots=True)
class Law:
    """The truncated law that R sampled rows with one top_k draw from.

    Attributes:
        temperature: (R,) float32.
        top_p: (R,) float64.
        top_k: 0 keeps the whole vocabulary.
    """

    temperature: Tensor
    top_p: Tensor
    top_k: int


@dataclass(frozen=True, slots=True)
class StepPlan:
    """Which rows need what. A plan holds until a row joins or leaves.

    Attributes:
        greedy: indices of the answers.
        laws: for each top_k among the samples, their law, their indices, and the rows themselves.
        logprobs, entropies: indices of the rows whose requests want them.
    """

    greedy: Tensor
    laws: list[tuple[Law, Tensor, list[Row]]]
    logprobs: Tensor
    entropies: Tensor


def plan_step(rows: Sequence[Row], device: torch.device) -> StepPlan:
    """Group the rows of a step by what they need."""
    indices = functools.partial(torch.tensor, dtype=torch.long, device=device)
    answers: list[int] = []
    logprobs: list[int] = []
    entropies: list[int] = []
    # By top_k: indices of the samples, their rows, temperatures and top_p.
    by_top_k: dict[int, tuple[list[int], list[Row], list[float], list[float]]] = {}
    for i, row in enumerate(rows):
        if row.index == 0:
            answers.append(i)
        else:
            sampling = row.job.request.sampling
            group = by_top_k.setdefault(sampling.top_k, ([], [], [], []))
            members, drawn, temperatures, top_ps = group
            members.append(i)
            drawn.append(row)
            temperatures.append(sampling.temperature)
            top_ps.append(sampling.top_p)
        if "token_logprobs" in row.fields:
            logprobs.append(i)
        if "token_entropies" in row.fields:
            entropies.append(i)
    laws = []
    for top_k, (members, drawn, temperatures, top_ps) in by_top_k.items():
        temperature = torch.tensor(temperatures, dtype=torch.float32, device=device)
        top_p = torch.tensor(top_ps, dtype=torch.float64, device=device)
        laws.append((Law(temperature, top_p, top_k), indices(members), drawn))
    return StepPlan(indices(answers), laws, indices(logprobs), indices(entropies))


def next_tokens(
    logits: Tensor, slots: Sequence[int], plan: StepPlan
) -> tuple[list[int], list[float], list[float], list[float]]:
    """Of each row the next token, its log-prob, its entropy, and the best logit.

    Answers take the best token, samples draw theirs. A log-prob or entropy that is not wanted is
    NaN, as is the best logit where any of the row's logits is.

    Args:
        logits: (num_slots, V) float32. Rows that share one share its largest logits and its
            log-normaliser, which are what takes long.
        slots: (rows,) of each row its row of `logits`.
        plan: of these rows.
    """
    device = logits.device
    slot = torch.tensor(slots, device=device)
    tokens = torch.zeros(len(slots), dtype=torch.long, device=device)
    columns = torch.full((4, len(slots)), math.nan, dtype=torch.float64, device=device)
    if len(plan.greedy):
        best, tokens[plan.greedy] = logits[slot[plan.greedy]].max(dim=-1)
        columns[3, plan.greedy] = best.double()
    for law, members, rows in plan.laws:
        uniforms = np.empty(len(rows))
        for i, row in enumerate(rows):
            uniforms[i] = row.job.uniforms[row.index - 1, len(row.token_ids)]
        sources, shown = slot[members], logits
        if len(plan.laws) > 1:  # the slots of other laws are left out
            distinct, sources = torch.unique(sources, return_inverse=True)
            shown = logits[distinct]
        tokens[members], best = draw(shown, law, sources, torch.tensor(uniforms, device=device))
        columns[3, members] = best.double()
    if len(plan.logprobs) or len(plan.entropies):
        log_normalizers = logits.logsumexp(-1)
        of = slot[plan.logprobs]
        chosen = logits[of, tokens[plan.logprobs]]
        columns[1, plan.logprobs] = (chosen - log_normalizers[of]).double()
    if len(plan.entropies):
        of = slot[plan.entropies]
        columns[2, plan.entropies] = entropies(logits[of], log_normalizers[of]).double()
    columns[0] = tokens.double()
    # One transfer a step: each .tolist() waits for the device. Token ids are exact in float64.
    token_ids, logprobs, entropy, best_logits = columns.tolist()
    return list(map(int, token_ids)), logprobs, entropy, best_logits


def draw(logits: Tensor, law: Law, sources: Tensor, uniforms: Tensor) -> tuple[Tensor, Tensor]:
    """Drawn tokens (R,) by inverse transform, and the best logit (R,) of each one's source.

    The best logit is NaN where any of the source's logits is.

    Temperature, top-k, top-p, then the token whose cumulative mass covers the row's uniform. One
    uniform a row and step keeps a row's tokens the same whatever decodes beside it.

    logits: (S, V) float32.
    sources: (R,) the row of logits that each draw is from; several may share one.
    uniforms: (R,) float64 in [0, 1).
    """
    k = min(law.top_k or logits.shape[-1], logits.shape[-1])
    values, tokens = logits.topk(k, dim=-1)  # (S, k), descending
    values, tokens = values[sources], tokens[sources]  # (R, k)
    mass = torch.softmax(values / law.temperature[:, None], dim=-1).double()
    before = mass.cumsum(-1) - mass
    mass = mass.masked_fill(before >= law.top_p[:, None], 0.0)
    cdf = mass.cumsum(-1)
    target = (uniforms * cdf[:, -1])[:, None]
    chosen = torch.searchsorted(cdf, target, right=True).clamp(max=k - 1)
    return tokens.gather(1, chosen)[:, 0], values[:, 0]


def entropies(logits: Tensor, log_normalizers: Tensor) -> Tensor:
    """Full-vocabulary entropy (rows,) in nats: log Z - sum_v p_v z_v.

    Logits of -inf carry no mass.

    log_normalizers: (rows,) log Z.
    """
    probabilities = (logits - log_normalizers[:, None]).exp()
    expected = (probabilities * logits.clamp(min=torch.finfo(logits.dtype).min)).sum(-1)
    return log_normalizers - expected


def sample_uniforms(seed: int, num_samples: int, max_new_tokens: int) -> Array:
    """What decides every draw: (num_samples, max_new_tokens) float64 in [0, 1).

    Row i has a stream of its own, so that sample i is the same whatever runs beside it, however
    many samples are drawn and however long they may be.
    """
    key = np.random.SeedSequence(seed).generate_state(2, np.uint64)
    uniforms = np.empty((num_samples, max_new_tokens))
    for i, row in enumerate(uniforms):
        stream = np.random.Philox(key=key, counter=[0, 0, i, 0])
        np.random.Generator(stream).random(out=row)
    return uniforms
