"""Estimators against each other: values, differences and verdicts on claims.

Values come with intervals, and differences are taken on the same resamples.

One set of resampled prompts a task serves all estimators, so that every difference is paired, also
that of means over tasks.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from models.metrics import Interval, Metric, auroc, percentile_interval, prr, resample
from models.records import Array

Verdict = Literal["supported", "refuted", "undecided"]
MEAN = "mean"
BASES = ("sp", "ppl", "mte")
# The formulations that the paper sets beside the product, by the prefix of their names.
ALTERNATIVES = ("prob_", "additive_", "full_sample_")


@dataclass(frozen=True, slots=True)
class Column:
    """The answers of one task under one strategy.

    Attributes:
        quality: (n,), higher better, NaN where undefined.
        is_binary: whether quality is 0 or 1.
        scores: estimator to its uncertainties (n,), NaN where it has no value.
    """

    task: str
    quality: Array
    is_binary: bool
    scores: Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class Measured:
    """A metric's value, and its values (R,) on resampled prompts, NaN where undefined."""

    value: float
    resampled: Array

    @property
    def interval(self) -> Interval | None:
        """The value with its 95 % interval."""
        return percentile_interval(self.value, self.resampled)


Row = Mapping[str, Measured]  # estimator to its value
Table = Mapping[str, Row]  # task, or MEAN, to its values


@dataclass(frozen=True, slots=True)
class Claim:
    """What the difference of two methods' PRR says about one claim, on one task or on their mean.

    Attributes:
        num_above: rivals that the method's interval lies above.
        num_below: rivals that it lies below.
        rival: the strongest of them.
    """

    claim: str
    strategy: str
    column: str
    method: str
    rival: str
    difference: Interval
    verdict: Verdict
    num_rivals: int = 1
    num_above: int = 0
    num_below: int = 0


def base_of(name: str) -> str | None:
    """The base of a CoCoA estimator or of an alternative formulation; None for all others.

    >>> base_of("additive_cocoa_sp"), base_of("sp")
    ('sp', None)
    """
    base = name.removesuffix("_light").rpartition("_")[2]
    return base if "cocoa" in name and base in BASES else None


def is_cocoa(name: str) -> bool:
    """Whether it is the product itself, no alternative formulation."""
    return name.startswith("cocoa_")


def measure(
    metric: Metric, column: Column, *, num_resamples: int = 1000, seed: int = 0
) -> dict[str, Measured]:
    """The metric of every estimator of a task; those without it are left out.

    A prompt whose quality is undefined is left out; an uncertainty that could not be computed
    counts as the largest.
    """
    kept = ~np.isnan(column.quality)
    names = [name for name, u in column.scores.items() if not np.isnan(u[kept]).all()]
    scores = [
        np.where(np.isnan(u), np.inf, u)[kept] for u in (column.scores[name] for name in names)
    ]
    values = [metric(u, column.quality[kept]) for u in scores]
    if not names or values[0] is None:
        return {}
    resampled = resample(metric, scores, column.quality[kept], num_resamples, seed)
    return {
        name: Measured(value, row)
        for name, value, row in zip(names, values, resampled, strict=True)
        if value is not None
    }


def table(
    metric: Metric, columns: Sequence[Column], *, num_resamples: int = 1000, seed: int = 0
) -> Table:
    """The metric of every estimator on every task and, where two or more have it, on their mean."""
    rows = {
        column.task: measure(metric, column, num_resamples=num_resamples, seed=seed + i)
        for i, column in enumerate(columns)
        if metric is not auroc or column.is_binary
    }
    defined = [row for row in rows.values() if row]
    return rows | {MEAN: _mean(defined)} if len(defined) > 1 else rows


def difference(a: Measured, b: Measured) -> Interval | None:
    """The first minus the second, with its 95 % interval over the same resamples."""
    return Measured(a.value - b.value, a.resampled - b.resampled).interval


def verdict(interval: Interval) -> Verdict:
    """Whether "the difference is above zero" is supported, refuted or left open by its interval."""
    if interval.low > 0:
        return "supported"
    return "refuted" if interval.high < 0 else "undecided"


def above_base(strategy: str, prrs: Table) -> list[Claim]:
    """CoCoA against its own base, on every task and on their mean."""
    return [
        Claim("above its base", strategy, column, name, base, found, verdict(found))
        for column, row in prrs.items()
        for name in filter(is_cocoa, row)
        if (base := base_of(name)) is not None
        and base in row
        and (found := difference(row[name], row[base])) is not None
    ]


def above_baselines(strategy: str, prrs: Table) -> list[Claim]:
    """CoCoA against every other method.

    Supported where it is above all of them, refuted where it is below any.
    """
    return [
        claim
        for column, row in prrs.items()
        for name in filter(is_cocoa, row)
        if (claim := _above_all(strategy, column, name, row)) is not None
    ]


def best_on_average(strategy: str, prrs: Table) -> list[Claim]:
    """The best CoCoA against the best other method by the mean over tasks.

    Both are chosen anew in each resample.
    """
    row = prrs.get(MEAN, {})
    ours, others = (
        [name for name in row if is_cocoa(name)],
        [name for name in row if "cocoa" not in name],
    )
    if not ours or not others:
        return []
    found = difference(_best(row[name] for name in ours), _best(row[name] for name in others))
    if found is None:
        return []
    return [
        Claim(
            "best on average",
            strategy,
            MEAN,
            _top(row, ours),
            _top(row, others),
            found,
            verdict(found),
        )
    ]


def alternatives(strategy: str, prrs: Table) -> list[Claim]:
    """The product against its alternative formulations over the same base."""
    return [
        Claim("above the alternative", strategy, column, name, rival, found, verdict(found))
        for column, row in prrs.items()
        for name in filter(is_cocoa, row)
        for rival in (prefix + name for prefix in ALTERNATIVES)
        if rival in row and (found := difference(row[name], row[rival])) is not None
    ]


def above_similarity(
    default: str, other: str, strategy: str, ours: Table, theirs: Table
) -> list[Claim]:
    """CoCoA with the default similarity function against the same with another.

    Compared on the mean over tasks, or on the only task.
    """
    column = MEAN if MEAN in ours else next(iter(ours))
    return [
        Claim(f"{default} above {other}", strategy, column, name, name, found, verdict(found))
        for name in ours[column]
        if name in theirs.get(column, {}) and (is_cocoa(name) or name == "consistency")
        if (found := difference(ours[column][name], theirs[column][name])) is not None
    ]


def claims(strategy: str, prrs: Table) -> list[Claim]:
    """All three of the paper's claims under one strategy."""
    return (
        above_base(strategy, prrs)
        + above_baselines(strategy, prrs)
        + best_on_average(strategy, prrs)
    )


def metrics_of(columns: Sequence[Column]) -> dict[str, Metric]:
    """PRR, and ROC-AUC where any task's quality is binary."""
    return {"prr": prr} | ({"auroc": auroc} if any(column.is_binary for column in columns) else {})


def _above_all(strategy: str, column: str, name: str, row: Row) -> Claim | None:
    rivals = [rival for rival in row if "cocoa" not in rival]
    found = {
        rival: interval
        for rival in rivals
        if (interval := difference(row[name], row[rival])) is not None
    }
    if not found:
        return None
    verdicts = [verdict(interval) for interval in found.values()]
    above, below = verdicts.count("supported"), verdicts.count("refuted")
    strongest = _top(row, list(found))
    overall: Verdict = "refuted" if below else "supported" if above == len(found) else "undecided"
    return Claim(
        "above every baseline",
        strategy,
        column,
        name,
        strongest,
        found[strongest],
        overall,
        len(found),
        above,
        below,
    )


def _mean(rows: Sequence[Row]) -> Row:
    """Means of the estimators that every task has."""
    shared = [name for name in rows[0] if all(name in row for row in rows)]
    return {
        name: Measured(
            float(np.mean([row[name].value for row in rows])),
            np.mean([row[name].resampled for row in rows], axis=0),
        )
        for name in shared
    }


def _best(methods: Iterable[Measured]) -> Measured:
    listed = list(methods)
    return Measured(max(m.value for m in listed), np.max([m.resampled for m in listed], axis=0))


def _top(row: Row, names: Sequence[str]) -> str:
    return max(names, key=lambda name: row[name].value)
