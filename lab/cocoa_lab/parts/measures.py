"""Pure: how well scores of parts rank and promise, with answers drawn whole: their parts are alike.

Rows are parts, n in all; `answers` (n,) are numbers from 0 that say which are of one answer.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cocoa_lab.metrics import Interval, percentile_interval
from models.records import Array

Answers = NDArray[np.int_]
_SHARES = tuple(share / 20 for share in range(20, 0, -1))


@dataclass(frozen=True, slots=True)
class Kept:
    """What is left where parts above a threshold are dropped.

    Attributes:
        share: of the parts, that is kept.
        precision: right ones among all that are kept.
        mean_wrong: mean over answers of the wrong among the kept, 0 where none is kept.
        respond_ratio: share of the answers of which any part is kept.
    """

    share: float
    precision: float
    mean_wrong: float
    respond_ratio: float


def clustered(
    metric: Callable[[Array, Array], float | None],
    values: Array,
    correct: Array,
    answers: Answers,
    *,
    num_resamples: int = 1000,
    seed: int = 0,
) -> Interval | None:
    """The metric with its 95 % percentile interval over answers; None where it is undefined.

    Resamples in which it is undefined are left out.
    """
    value = metric(values, correct)
    if value is None:
        return None
    order = np.argsort(answers, kind="stable")
    rows = np.split(order, np.flatnonzero(np.diff(answers[order])) + 1)
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(num_resamples):
        drawn = np.concatenate([rows[i] for i in rng.integers(len(rows), size=len(rows))])
        found.append(metric(values[drawn], correct[drawn]))
    return percentile_interval(value, np.array(found, dtype=np.float64))  # NaN for None


def agreement(said: Array, correct: Array) -> float:
    """Share of the parts of which a judge and the labels say the same."""
    return float((said == correct).mean())


def kappa(said: Array, correct: Array) -> float | None:
    """Agreement beyond that of chance. Cohen 1960.

    None where both say the same of all parts.
    """
    by_chance = said.mean() * correct.mean() + (1 - said.mean()) * (1 - correct.mean())
    if by_chance == 1:
        return None
    return float((agreement(said, correct) - by_chance) / (1 - by_chance))


def kept_at(
    uncertainty: Array, correct: Array, answers: Answers, shares: Sequence[float] = _SHARES
) -> list[Kept]:
    """What is left for each share of the parts that is kept at least; equal ones stay together."""
    order = np.sort(uncertainty)
    num_answers = len(np.unique(answers))
    found: dict[float, Kept] = {}
    for share in shares:
        threshold = order[max(0, int(np.ceil(share * len(order))) - 1)]
        kept = uncertainty <= threshold
        num_kept = np.bincount(answers, weights=kept)
        num_wrong = np.bincount(answers, weights=kept * (1 - correct))
        one = Kept(
            share=float(kept.mean()),
            precision=float(correct[kept].mean()),
            mean_wrong=float((num_wrong / np.maximum(num_kept, 1)).sum() / num_answers),
            respond_ratio=float((num_kept > 0).sum() / num_answers),
        )
        found[one.share] = one
    return list(found.values())
