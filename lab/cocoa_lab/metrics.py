"""How well uncertainty ranks quality, and how well confidence is calibrated; used offline.

Orientation: higher uncertainty = less sure, higher quality = better, confidence in [0, 1]. Rows
whose quality is NaN (undefined) are dropped, and `drop_undefined` counts them. An uncertainty of
+inf is the least certain; NaN and -inf are errors. Rows of equal uncertainty all take their mean
quality, so no value depends on the order of the rows. A metric that is undefined for its rows is
None.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from models.records import Array

Metric = Callable[[Array, Array], float | None]
_Indices = NDArray[np.integer[Any]]
# From ranks of the uncertainty (B, n) and qualities (B, n) to values (B,), NaN where undefined.
_RowMetric = Callable[[_Indices, Array], Array]

_SMALLEST_RANGE = 1e-12  # below it, the oracle is no better than rejecting at random
_MAX_RESAMPLED_CELLS = 1 << 20  # resamples held in memory at once, times n


@dataclass(frozen=True, slots=True)
class Interval:
    """A value with the bounds of its 95 % percentile bootstrap interval."""

    value: float
    low: float
    high: float


def drop_undefined(scores: ArrayLike, quality: ArrayLike) -> tuple[Array, Array, int]:
    """Scores and qualities of the rows whose quality is defined, and the number of the others.

    Raises:
        ValueError: the lengths differ, a score is NaN or -inf, or a quality is infinite.
    """
    u, q = np.asarray(scores, dtype=np.float64), np.asarray(quality, dtype=np.float64)
    if u.ndim != 1 or u.shape != q.shape:
        shapes = f"scores {u.shape} and quality {q.shape}"
        raise ValueError(f"{shapes} are not two vectors of one length")
    if np.isnan(u).any() or np.isneginf(u).any():
        raise ValueError("a score is NaN or -inf")
    if np.isinf(q).any():
        raise ValueError("a quality is infinite")
    defined = ~np.isnan(q)
    return u[defined], q[defined], int((~defined).sum())


def prr(uncertainty: ArrayLike, quality: ArrayLike, max_rejection: float = 0.5) -> float | None:
    """Prediction-rejection ratio: (area(u) - mean q) / (area(oracle) - mean q).

    Malinin & Gales 2021.

    area is the mean, over 0 … m - 1 rejected rows with m = floor(max_rejection n), of the mean
    quality of those kept; mean q is its exact expectation under random rejection. 1: as good as
    knowing the quality; 0: as good as random.

    >>> prr([0.1, 0.2, 0.3, 0.4], [1, 1, 0, 0])
    1.0
    """
    u, q, _ = drop_undefined(uncertainty, quality)
    return _only(_prr_rows(_ranks(u)[None], q[None], max_rejection))


def rejection_curve(
    uncertainty: ArrayLike, quality: ArrayLike, num_points: int
) -> tuple[Array, Array]:
    """Shares of rows rejected (K,), from 0 to below 1, and the mean quality of those kept (K,).

    The oracle's curve is `rejection_curve(-quality, quality, K)`, random's the constant mean
    quality.

    Raises:
        ValueError: no row has a quality.
    """
    u, q, _ = drop_undefined(uncertainty, quality)
    if not len(q):
        raise ValueError("no row has a quality")
    rejected = np.arange(num_points) * len(q) // num_points
    kept_means = _prefix_means(_by_rank(_ranks(u)[None], q[None]))[0]
    return rejected / len(q), kept_means[len(q) - rejected - 1]


def auroc(uncertainty: ArrayLike, correct: ArrayLike) -> float | None:
    """Probability that an incorrect row is less certain than a correct one, ties one half.

    Raises:
        ValueError: `correct` holds something else than 0, 1 and NaN.

    >>> auroc([0.1, 0.2, 0.3], [1, 1, 0])
    1.0
    """
    u, y, _ = drop_undefined(uncertainty, _binary(correct))
    return _only(_auroc_rows(_ranks(u)[None], y[None]))


def reliability(
    confidence: ArrayLike, correct: ArrayLike, num_bins: int = 10
) -> tuple[Array, Array, _Indices]:
    """Mean confidence, share correct and number of rows, (K,) each, of bins of equal mass.

    With fewer rows than `num_bins`, each row has a bin of its own.

    Raises:
        ValueError: a confidence outside [0, 1], or `correct` holds something else than 0, 1 and
            NaN.
    """
    c, y = _confident(confidence, correct)
    starts, counts = _bins(len(c), num_bins)
    if not len(c):
        return np.empty(0), np.empty(0), counts
    order = np.argsort(c, kind="stable")
    correct_by_rank = _by_rank(_ranks(c)[None], y[None])[0]
    confidences = np.add.reduceat(c[order], starts) / counts
    shares = np.add.reduceat(correct_by_rank, starts) / counts
    return confidences, shares, counts


def ece(confidence: ArrayLike, correct: ArrayLike, num_bins: int = 10) -> float | None:
    """Expected calibration error: mean over rows of |confidence - share correct| of the row's bin.

    The bins have equal mass.
    """
    confidences, shares, counts = reliability(confidence, correct, num_bins)
    if not len(counts):
        return None
    return float(np.abs(confidences - shares) @ counts / counts.sum())


def expected_ece(
    confidence: ArrayLike,
    correct: ArrayLike,
    num_bins: int = 10,
    *,
    num_draws: int = 1000,
    seed: int = 0,
) -> float | None:
    """What `ece` would be on average for these rows if every confidence were exact.

    Exact means equal to the probability of being correct.
    """
    c, _ = _confident(confidence, correct)
    if not len(c):
        return None
    rng = np.random.default_rng(seed)
    return float(np.mean([ece(c, rng.random(len(c)) < c, num_bins) for _ in range(num_draws)]))


def bootstrap(
    metric: Metric,
    uncertainty: ArrayLike,
    quality: ArrayLike,
    *,
    num_resamples: int = 1000,
    seed: int = 0,
) -> Interval | None:
    """`metric` with its 95 % percentile bootstrap interval over the rows.

    Resamples in which the metric is undefined are left out. `prr` and `auroc` are computed for all
    resamples at once, other metrics one resample after another.
    """
    u, q, _ = drop_undefined(uncertainty, quality)
    value = metric(u, q)
    if value is None:
        return None
    return percentile_interval(value, resample(metric, [u], q, num_resamples, seed)[0])


def _prr_rows(ranks: _Indices, quality: Array, max_rejection: float = 0.5) -> Array:
    if not (num_rejected := _num_rejected(quality.shape[1], max_rejection)):
        return np.full(len(quality), np.nan)
    random = quality.mean(axis=1)
    # Equal qualities are interchangeable, so the oracle needs no mean over ties.
    best_gain = _area(np.sort(quality, axis=1)[:, ::-1], num_rejected) - random
    gain = _area(_by_rank(ranks, quality), num_rejected) - random
    return _ratio(gain, best_gain, np.abs(best_gain) >= _SMALLEST_RANGE)


def _auroc_rows(ranks: _Indices, correct: Array) -> Array:
    num_correct, num_rows = _cells(ranks, correct)
    num_incorrect = num_rows - num_correct
    # Of each rank: the correct rows that are more certain, and half of those that are as certain.
    num_more_certain = np.cumsum(num_correct, axis=1) - num_correct / 2
    num_pairs = num_correct.sum(axis=1) * num_incorrect.sum(axis=1)
    num_ordered = (num_incorrect * num_more_certain).sum(axis=1)
    return _ratio(num_ordered, num_pairs, num_pairs > 0)


_ROW_METRICS: dict[Metric, _RowMetric] = {prr: _prr_rows, auroc: _auroc_rows}


def resample(
    metric: Metric, scores: Sequence[Array], quality: Array, num_resamples: int, seed: int
) -> Array:
    """Values (S, num_resamples) of the metric, NaN where undefined; S scores share resamples."""
    rng = np.random.default_rng(seed)
    step = max(1, _MAX_RESAMPLED_CELLS // len(quality))
    values = np.empty((len(scores), num_resamples))
    for start in range(0, num_resamples, step):
        rows = rng.integers(len(quality), size=(min(step, num_resamples - start), len(quality)))
        for s, u in enumerate(scores):
            values[s, start : start + len(rows)] = _metric_rows(metric, u, quality, rows)
    return values


def _metric_rows(metric: Metric, u: Array, quality: Array, rows: _Indices) -> Array:
    if (at_once := _ROW_METRICS.get(metric)) is not None:
        return at_once(_ranks(u)[rows], quality[rows])
    values = [metric(u[row], quality[row]) for row in rows]
    return np.array(values, dtype=np.float64)  # NaN for None


def percentile_interval(value: float, resampled: Array) -> Interval | None:
    defined = resampled[~np.isnan(resampled)]
    if not len(defined):
        return None
    low, high = np.percentile(defined, [2.5, 97.5])
    return Interval(value, float(low), float(high))


def _ranks(u: Array) -> _Indices:
    """Ranks (n,) from 0; ties have the same rank."""
    return np.unique(u, return_inverse=True)[1]


def _cells(ranks: _Indices, quality: Array) -> tuple[Array, _Indices]:
    """Sum of the qualities (B, G) and number of columns (B, G) at each of G ranks, row by row.

    ranks, quality: (B, n).
    """
    num_ranks = int(ranks.max(initial=-1)) + 1
    shape = (len(ranks), num_ranks)
    cells = (ranks + num_ranks * np.arange(len(ranks))[:, None]).ravel()
    sums = np.bincount(cells, weights=quality.ravel(), minlength=len(ranks) * num_ranks)
    counts = np.bincount(cells, minlength=len(ranks) * num_ranks)
    return sums.reshape(shape).astype(np.float64, copy=False), counts.reshape(shape)


def _by_rank(ranks: _Indices, quality: Array) -> Array:
    """Qualities (B, n) from most to least certain, each replaced by the mean of its ties."""
    sums, counts = _cells(ranks, quality)
    return np.repeat((sums / np.maximum(counts, 1)).ravel(), counts.ravel()).reshape(quality.shape)


def _prefix_means(ordered: Array) -> Array:
    """Means (B, n) of the first 1 … n columns."""
    means: Array = np.cumsum(ordered, axis=1) / np.arange(1, ordered.shape[1] + 1)
    return means


def _area(ordered: Array, num_rejected: int) -> Array:
    """Mean (B,) of the mean qualities as 0 … num_rejected - 1 of the last columns are rejected."""
    area: Array = _prefix_means(ordered)[:, -num_rejected:].mean(axis=1)
    return area


def _num_rejected(num_rows: int, max_rejection: float) -> int:
    if not 0 < max_rejection <= 1:
        raise ValueError(f"max_rejection {max_rejection} is not in (0, 1]")
    return int(max_rejection * num_rows + 1e-9)  # 0.7 * 10 is a little less than 7


def _bins(num_rows: int, num_bins: int) -> tuple[_Indices, _Indices]:
    """First rows and sizes of at most `num_bins` bins, none empty; sizes differ by at most one."""
    if num_bins < 1:
        raise ValueError(f"num_bins {num_bins} is below 1")
    bounds = np.linspace(0, num_rows, min(num_bins, num_rows) + 1).astype(int)
    return bounds[:-1], np.diff(bounds)


def _binary(correct: ArrayLike) -> Array:
    y = np.asarray(correct, dtype=np.float64)
    if not np.isin(y[~np.isnan(y)], (0.0, 1.0)).all():
        raise ValueError("correctness must be 0 or 1")
    return y


def _confident(confidence: ArrayLike, correct: ArrayLike) -> tuple[Array, Array]:
    c, y, _ = drop_undefined(confidence, _binary(correct))
    if ((c < 0) | (c > 1)).any():
        raise ValueError("a confidence is outside [0, 1]")
    return c, y


def _ratio(numerator: Array, denominator: Array, is_defined: NDArray[np.bool_]) -> Array:
    """Quotients (B,), NaN where undefined."""
    ratios = np.full(len(denominator), np.nan)
    np.divide(numerator, denominator, out=ratios, where=is_defined)
    return ratios


def _only(values: Array) -> float | None:
    if np.isnan(values[0]):
        return None
    return float(values[0])
