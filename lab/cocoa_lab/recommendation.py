"""What a run advises: the estimator that ranks best, and what a threshold on it would do. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cocoa_lab.comparison import (
    MEAN,
    ByEstimator,
    Column,
    difference,
    intervals,
    overall,
    without,
)
from cocoa_lab.metrics import Interval
from cocoa_lab.rankings import Rankings
from cocoa_lab.report import number


@dataclass(frozen=True, slots=True)
class Halves:
    """Answers at and below a threshold, and above it.

    Attributes:
        threshold: an uncertainty, as near to the middle of all as ties allow.
        share_surest: of all answers, those that are not above the threshold.
        right_surest: share of these that is right.
        right_others: share of the others.
    """

    threshold: float
    share_surest: float
    right_surest: float
    right_others: float


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The estimator with the largest PRR.

    Attributes:
        column: the mean over tasks, or the only task.
        num_equals: other estimators whose paired difference from it holds 0.
        halves: over the prompts of all tasks; None where quality is not right or wrong.
    """

    strategy: str
    column: str
    estimator: str
    prr: Interval
    num_equals: int
    halves: Halves | None


def recommend(rankings: Rankings) -> Recommendation | None:
    """What to use for the answers of the first strategy; None where no task ranks anything."""
    strategy = rankings.strategies[0]
    table = without(rankings.tables["prr"][strategy], rankings.left_out)
    if (column := overall(table)) is None:
        return None
    found = intervals(table[column])
    if not found:
        return None
    best = max(found, key=lambda name: found[name].value)
    return Recommendation(
        strategy=strategy,
        column=column,
        estimator=best,
        prr=found[best],
        num_equals=_num_equals(best, table[column]),
        halves=halves(rankings.columns[strategy], best),
    )


def halves(columns: Sequence[Column], estimator: str) -> Halves | None:
    """How many are right among the surest half of all prompts, and among the others.

    None where a task's quality is not right or wrong, and where one uncertainty is all there is.
    """
    qualities, scores = [], []
    for column in columns:
        if not column.is_binary:
            return None
        qualities.append(column.quality)
        scores.append(column.scores[estimator])
    quality, u = np.concatenate(qualities), np.concatenate(scores)
    known = ~np.isnan(quality)
    quality, u = quality[known], np.where(np.isnan(u), np.inf, u)[known]
    values, counts = np.unique(u, return_counts=True)
    if len(values) < 2:
        return None
    num_surest = np.cumsum(counts)[:-1]  # somebody has to be above
    threshold = float(values[np.abs(2 * num_surest - len(u)).argmin()])
    surest = u <= threshold
    return Halves(
        threshold=threshold,
        share_surest=float(surest.mean()),
        right_surest=float(quality[surest].mean()),
        right_others=float(quality[~surest].mean()),
    )


def sentence(recommended: Recommendation | None) -> str:
    """The last words of a report."""
    if recommended is None:
        return "No estimator is recommended, since no task ranks anything: see the notes."
    interval = recommended.prr
    where = f"on {recommended.column}"
    if recommended.column == MEAN:
        where = "by the mean over tasks"
    text = (
        f"Use {recommended.estimator}: it ranks {recommended.strategy} answers best {where}, PRR "
        f"{number(interval.value)} [{number(interval.low)}, {number(interval.high)}]."
    )
    if interval.low <= 0:
        text += " That may be chance."
    if recommended.num_equals:
        text += f" Estimators that cannot be told apart from it: {recommended.num_equals}."
    if (split := recommended.halves) is None:
        return text
    surest, others = f"{100 * split.share_surest:.0f} %", "others"
    if surest == "50 %":
        surest, others = "half", "other half"
    return (
        f"{text} Above {split.threshold:.4g} it is unsure: of the {surest} that it is surest "
        f"of, {100 * split.right_surest:.0f} % are right, of the {others} "
        f"{100 * split.right_others:.0f} %."
    )


def _num_equals(best: str, values: ByEstimator) -> int:
    count = 0
    for name, measured in values.items():
        interval = difference(values[best], measured)
        count += name != best and interval is not None and interval.low <= 0
    return count
