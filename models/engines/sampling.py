"""Pure functions on one step's logits (rows, V): the next token and its statistics.

Nothing of width V is returned. A log-probability is a token's logit less the row's log-normaliser,
the `logsumexp` of its logits: raw, which means temperature 1 and no truncation.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


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


def greedy(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Best token (rows,) and its logit (rows,), which is NaN where any logit of the row is.

    logits: (rows, V) float32.
    """
    best, tokens = logits.max(dim=-1)
    return tokens, best


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
