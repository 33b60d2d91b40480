"""What a run advises: the estimator that ranks best, and what a threshold on it would do. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from app.scoring.defaults import DEFAULT_ESTIMATORS
from cocoa_lab.comparison import MEAN, ByEstimator, Column, difference, intervals, overall, without
from cocoa_lab.metrics import Interval
from cocoa_lab.rankings import Rankings
from cocoa_lab.report import number

# What the service reports where no estimator is named.
_DEFAULT = DEFAULT_ESTIMATORS[0]
# Fewer prompts show by chance alone that one of many estimators is better.
_MIN_PROMPTS = 100


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
    """The default, or an estimator that ranks better: by an interval above 0, not by chance.

    Attributes:
        column: the mean over tasks, or the only task.
        num_equals: other estimators whose paired difference from it holds 0.
        num_chosen_from: estimators of which it is the best, where it was compared with the default;
            its gain allows for that choice.
        halves: over the prompts of all tasks; None where quality is not right or wrong.
        is_default: whether it is what the service reports anyway.
    """

    strategy: str
    column: str
    estimator: str
    prr: Interval
    num_equals: int
    num_chosen_from: int
    halves: Halves | None
    is_default: bool = False


def why_none(rankings: Rankings) -> str | None:
    """Why nothing may be recommended of a run; None where something may."""
    columns = rankings.columns[rankings.strategies[0]]
    kept = [column for column in columns if column.task not in rankings.left_out]
    if not kept:
        return "no task ranks anything"
    if 2 * len(kept) < len(columns):
        return f"{len(columns) - len(kept)} of {len(columns)} tasks rank nothing"
    num_prompts = sum(len(column.known_quality) for column in kept)
    if num_prompts < _MIN_PROMPTS:
        return f"{num_prompts} prompts with a quality are fewer than {_MIN_PROMPTS}"
    return None


def recommend(rankings: Rankings) -> Recommendation | None:
    """What to use for the answers of the first strategy; None for a reason of `why_none`."""
    strategy = rankings.strategies[0]
    table = without(rankings.tables["prr"][strategy], rankings.left_out)
    column = overall(table)
    if column is None or why_none(rankings) is not None:
        return None
    found = intervals(table[column])
    if not found:
        return None
    best = max(found, key=lambda name: found[name].value)
    if _DEFAULT in found and best_gain(table[column], _DEFAULT, best) <= 0:
        best = _DEFAULT
    return Recommendation(
        strategy=strategy,
        column=column,
        estimator=best,
        prr=found[best],
        num_equals=_num_equals(best, table[column]),
        num_chosen_from=len(found) if _DEFAULT in found else 1,
        halves=halves(rankings.columns[strategy], best),
        is_default=best == _DEFAULT,
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


def best_gain(values: ByEstimator, default: str, best: str) -> float:
    """The least that the best of all gains over the default, chosen as it is for its value.

    The lower end of a simultaneous 95 % interval: of the largest excess over its own difference
    that any estimator has on a resample (max-T, Westfall and Young 1993). -inf where it is unknown.
    """
    excesses = []
    for measured in values.values():
        gain = measured.value - values[default].value
        excesses.append(measured.resampled - values[default].resampled - gain)
    largest = np.max(np.array(excesses), axis=0)
    if (known := largest[~np.isnan(largest)]).size == 0:
        return -np.inf
    gain = values[best].value - values[default].value
    return float(gain - np.percentile(known, 97.5))


def sentence(recommended: Recommendation | None, why: str | None = None) -> str:
    """The first words of a report.

    Args:
        recommended: what is.
        why: nothing is (`why_none`).
    """
    if recommended is None:
        return f"No estimator is recommended, since {why or 'none has a value'}: see the notes."
    interval = recommended.prr
    where = f"on {recommended.column}"
    if recommended.column == MEAN:
        where = "by the mean over tasks"
    what = f"Use {recommended.estimator}: it ranks {recommended.strategy} answers best {where}, PRR"
    if recommended.is_default:
        what = (
            f"Keep {recommended.estimator}, the default: no other ranks {recommended.strategy} "
            f"answers better {where} by more than chance, PRR"
        )
    text = f"{what} {number(interval.value)} [{number(interval.low)}, {number(interval.high)}]."
    if recommended.num_chosen_from > 1 and not recommended.is_default:
        text += (
            f" It is the best of {recommended.num_chosen_from} estimators; that it beats "
            f"{_DEFAULT} holds with so many to choose from."
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
