"""A metric of every estimator on every task, with intervals and paired differences.

One set of resampled prompts a task serves all estimators, so that every difference is paired, also
that of means over tasks.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cocoa_lab.metrics import Interval, Metric, auroc, percentile_interval, prr, resample
from models.estimators import known_estimators
from models.records import Array

MEAN, POOLED = "mean", "pooled"
MIN_RIGHT_AND_WRONG = 10  # answers of either kind, below which a task ranks nothing


@dataclass(frozen=True, slots=True)
class Column:
    """The answers of one task under one strategy.

    Attributes:
        quality: (n,), higher better, NaN where undefined.
        is_binary: whether quality is 0 or 1.
        scores: estimator to its uncertainties (n,), NaN where it has no value.
        num_tokens: (n,) lengths of the answers; None where they are not known.
        kinds: (n,) tasks of answers that are pooled; else none.
        ids: (n,) of the prompts, where they were read from files of results; else none.
    """

    task: str
    quality: Array
    is_binary: bool
    scores: Mapping[str, Array]
    num_tokens: Array | None = None
    kinds: Sequence[str] = ()
    ids: Sequence[str] = ()

    @property
    def known_quality(self) -> Array:
        """The qualities that are defined."""
        return self.quality[~np.isnan(self.quality)]

    @property
    def mean_quality(self) -> float | None:
        """Mean of the defined qualities, where there is one."""
        if not len(self.known_quality):
            return None
        return float(self.known_quality.mean())


@dataclass(frozen=True, slots=True)
class Measured:
    """A metric's value, and its values (R,) on resampled prompts, NaN where undefined."""

    value: float
    resampled: Array

    @property
    def interval(self) -> Interval | None:
        """The value with its 95 % interval."""
        return percentile_interval(self.value, self.resampled)


ByEstimator = Mapping[str, Measured]
Table = Mapping[str, ByEstimator]  # task, or MEAN, to the values of its estimators


def is_cocoa(name: str) -> bool:
    """The product itself, no alternative formulation."""
    return known_estimators()[name].family == "cocoa"


def is_rao_blackwell(name: str) -> bool:
    """One of ours over CoCoA, which the paper does not know."""
    return known_estimators()[name].family == "rao_blackwell"


def is_compared(name: str) -> bool:
    """CoCoA and inconsistency, as such and Rao-Blackwellised: what similarity changes."""
    return is_cocoa(name) or is_rao_blackwell(name) or name == "inconsistency"


def why_left_out(column: Column) -> str | None:
    """Why a task ranks nothing, so that no mean and no claim may rest on it; None where it does.

    Fewer than ten right or ten wrong answers, or a quality on which PRR is undefined. A measure of
    degrees whose values all happen to be 0 or 1 counts as one of right and wrong.
    """
    quality = column.known_quality
    if not len(quality):
        return "no quality"
    if np.isin(quality, (0.0, 1.0)).all():
        num_right = int(quality.sum())
        num_wrong = len(quality) - num_right
        if min(num_right, num_wrong) >= MIN_RIGHT_AND_WRONG:
            return None
        return f"{num_right} right, {num_wrong} wrong"
    if prr(-quality, quality) is not None:
        return None
    if np.ptp(quality) == 0:
        return f"quality {quality[0]:.3f} throughout"
    return f"{len(quality)} prompts"


def undefined_resamples(column: Column, *, num_resamples: int = 1000, seed: int = 0) -> int:
    """Resamples of a task on which PRR is undefined, whatever the estimator."""
    quality = column.known_quality
    if not len(quality):
        return num_resamples
    return int(np.isnan(resample(prr, [-quality], quality, num_resamples, seed)).sum())


def measure(
    metric: Metric, column: Column, *, num_resamples: int = 1000, seed: int = 0
) -> dict[str, Measured]:
    """The metric of every estimator of a task; those without it are left out.

    A prompt whose quality is undefined is left out; an uncertainty that could not be computed
    counts as the largest.
    """
    kept = ~np.isnan(column.quality)
    quality = column.known_quality
    scores: dict[str, Array] = {}
    for name, u in column.scores.items():
        if not np.isnan(u[kept]).all():
            scores[name] = np.where(np.isnan(u), np.inf, u)[kept]
    if not scores or metric(-quality, quality) is None:
        return {}  # no estimator, or a quality on which the metric is undefined
    resampled = resample(metric, list(scores.values()), quality, num_resamples, seed)
    measured: dict[str, Measured] = {}
    for (name, u), row in zip(scores.items(), resampled, strict=True):
        if (value := metric(u, quality)) is not None:
            measured[name] = Measured(value, row)
    return measured


def table(
    metric: Metric,
    columns: Sequence[Column],
    *,
    left_out: Collection[str] = (),
    num_resamples: int = 1000,
    seed: int = 0,
) -> Table:
    """The metric of every estimator on every task and, where two or more have it, on their mean.

    Args:
        metric: of uncertainties and qualities.
        columns: the tasks.
        left_out: of the mean, beside the tasks that rank nothing.
        num_resamples: behind each interval.
        seed: of the resamples.
    """
    by_task: dict[str, ByEstimator] = {}
    averaged: list[ByEstimator] = []
    for i, column in enumerate(columns):
        if metric is auroc and not column.is_binary:
            continue
        values = measure(metric, column, num_resamples=num_resamples, seed=seed + i)
        by_task[column.task] = values
        if values and column.task not in left_out and why_left_out(column) is None:
            averaged.append(values)
    if len(averaged) > 1:
        by_task[MEAN] = _mean(averaged)
    return by_task


def pooled(columns: Sequence[Column], left_out: Collection[str] = ()) -> Column | None:
    """All answers of the tasks that rank something as one task, whatever they are answers to.

    None for fewer than two such tasks, and where qualities are not right or wrong, since those of
    two measures are not comparable.
    """
    kept = [one for one in columns if one.task not in left_out and why_left_out(one) is None]
    if len(kept) < 2 or not all(column.is_binary for column in kept):
        return None
    scores: dict[str, Array] = {}
    for name in kept[0].scores:
        if all(name in column.scores for column in kept):
            scores[name] = np.concatenate([column.scores[name] for column in kept])
    quality = np.concatenate([column.quality for column in kept])
    return Column(POOLED, quality, is_binary=True, scores=scores)


def without(table: Table, tasks: Collection[str]) -> Table:
    """The table without these tasks' columns."""
    return {column: values for column, values in table.items() if column not in tasks}


def overall(table: Table) -> str | None:
    """The column that sums a table up: the mean, or else the first task that has a value."""
    if table.get(MEAN):
        return MEAN
    return next((column for column, values in table.items() if values), None)


def difference(a: Measured, b: Measured) -> Interval | None:
    """The first minus the second, with its 95 % interval over the same resamples."""
    return Measured(a.value - b.value, a.resampled - b.resampled).interval


def intervals(values: ByEstimator) -> dict[str, Interval]:
    """Values with their intervals, of the estimators that have one."""
    found: dict[str, Interval] = {}
    for name, measured in values.items():
        if (interval := measured.interval) is not None:
            found[name] = interval
    return found


def metrics_of(columns: Sequence[Column]) -> dict[str, Metric]:
    """PRR, and ROC-AUC where any task's quality is binary."""
    metrics: dict[str, Metric] = {"prr": prr}
    if any(column.is_binary for column in columns):
        metrics["auroc"] = auroc
    return metrics


def _mean(by_task: Sequence[ByEstimator]) -> ByEstimator:
    """Means of the estimators that every task has."""
    means: dict[str, Measured] = {}
    for name in by_task[0]:
        found = [values[name] for values in by_task if name in values]
        if len(found) == len(by_task):
            value = float(np.mean([one.value for one in found]))
            means[name] = Measured(value, np.mean([one.resampled for one in found], axis=0))
    return means
