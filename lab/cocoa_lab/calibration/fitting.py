"""Pure: curves from uncertainty to P(correct), and thresholds that keep a promise.

Platt scaling (Platt 1999) on few labels, isotonic regression on more. Thresholds by testing in a
fixed order with Clopper-Pearson p-values (Angelopoulos et al. 2021, "Learn then Test"), and with a
second start (the fallback procedure of Wiens 2003).
"""

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from models.calibration import Calibration, Threshold
from models.records import Array

Counts = NDArray[np.int_]

TARGET_ERRORS = (0.01, 0.02, 0.05, 0.1, 0.2)
DELTA = 0.1
MIN_OF_EACH = 10  # right and wrong answers, below which nothing can be fitted
_MAX_PLATT_LABELS = 400  # above, isotonic regression has the smaller calibration error
_OUTER = 0.05  # of the labels, at either end, bound what isotonic regression may say: not 0 or 1
_OFFSET = 0.001  # keeps the logarithm of an uncertainty of 0 finite
_MAX_KNOTS = 256
_NUM_QUANTILES = 201
_NUM_STEPS = 20  # thresholds from strict to loose, each accepting 5 % more of the labels
_MOST_TIMES = 20  # as many labels are looked at, to say how many are missing
_SHARE_OF_SECOND = 0.3  # of delta, for the start at half of the labels


class CannotCalibrate(ValueError):
    """Labels from which nothing can be said; the message says why."""


def fit(uncertainty: Array, correct: Array, *, delta: float = DELTA) -> Calibration:
    """What the uncertainties of one estimator mean.

    Args:
        uncertainty: (n,), finite.
        correct: (n,), 0 or 1.
        delta: probability, over calibration sets, that a threshold breaks its promise.

    Raises:
        CannotCalibrate: a number that is not finite, a constant score, fewer than ten right or ten
            wrong answers, or a score that ranks the wrong way round.
    """
    _check(uncertainty, correct)
    if len(correct) <= _MAX_PLATT_LABELS:
        method, (knots, confidences) = "platt", _platt(uncertainty, correct)
    else:
        method, (knots, confidences) = "isotonic", _isotonic(uncertainty, correct)
    if confidences[0] <= confidences[-1]:
        raise CannotCalibrate("surer answers are not more often right")
    thresholds = []
    for target in TARGET_ERRORS:
        found = controlled_threshold(uncertainty, correct, target, delta=delta)
        if found.uncertainty is None:
            missing = num_missing(uncertainty, correct, target, delta=delta)
            found = replace(found, labels_missing=missing)
        thresholds.append(found)
    return Calibration(
        method=method,
        knots=knots,
        confidences=confidences,
        quantiles=_shortened(np.quantile(uncertainty, np.linspace(0, 1, _NUM_QUANTILES))),
        thresholds=tuple(thresholds),
        num_labels=len(correct),
        num_right=int(correct.sum()),
    )


def controlled_threshold(
    uncertainty: Array, correct: Array, target_error: float, *, delta: float = DELTA
) -> Threshold:
    """The loosest threshold for which "more than `target_error` are wrong" is rejected at `delta`.

    Thresholds are tried from strict to loose, on a grid that no label decides. A part of `delta` is
    spent on the strictest, the rest on the one that accepts half of the labels; each that is
    rejected hands its part on to the next, each that is not loses it. So one confident mistake does
    not end it, and the promise holds for every threshold that is rejected.
    """
    order, accepted, wrong = _steps(uncertainty, correct)
    found = _loosest(accepted, wrong, len(order), target_error, delta)
    if found is None:
        return Threshold(target_error, None)
    return Threshold(
        target_error,
        float(order[accepted[found] - 1]),
        share_accepted=float(accepted[found] / len(order)),
        share_wrong=float(wrong[found] / accepted[found]),
    )


def num_missing(
    uncertainty: Array, correct: Array, target_error: float, *, delta: float = DELTA
) -> int | None:
    """About how many more labels like these a threshold needs; None where no number will do.

    Asked as if there were twice as many of each, three times as many, and so on.
    """
    order, accepted, wrong = _steps(uncertainty, correct)
    for times in range(2, _MOST_TIMES + 1):
        counts = accepted * times, wrong * times, len(order) * times
        if _loosest(*counts, target_error, delta) is not None:
            return (times - 1) * len(order)
    return None


def _steps(uncertainty: Array, correct: Array) -> tuple[Array, Counts, Counts]:
    """Uncertainties in order, and how many answers each step accepts, and how many wrong ones."""
    by_uncertainty = np.argsort(uncertainty, kind="stable")
    order = uncertainty[by_uncertainty]
    levels = np.arange(1, _NUM_STEPS + 1) * len(order) // _NUM_STEPS
    levels = levels[levels > 0]
    accepted = np.searchsorted(order, order[levels - 1], side="right")  # ties pass together
    wrong = np.cumsum(1 - correct[by_uncertainty]).astype(int)[accepted - 1]
    return order, accepted, wrong


def _loosest(
    accepted: Counts, wrong: Counts, num_labels: int, target_error: float, delta: float
) -> int | None:
    """The last of these steps at which "more than `target_error` are wrong" is rejected."""
    first = _first_count(num_labels, target_error, (1 - _SHARE_OF_SECOND) * delta)
    steps = np.flatnonzero(accepted >= first)
    own = np.zeros(len(accepted))
    if len(steps):
        second = min(np.searchsorted(accepted, num_labels // 2), len(own) - 1)
        own[steps[0]] = (1 - _SHARE_OF_SECOND) * delta
        own[max(second, steps[0])] += _SHARE_OF_SECOND * delta
    found, handed_on = None, 0.0
    for step in steps.tolist():
        handed_on += own[step]
        p_value = binom.cdf(wrong[step], accepted[step], target_error)
        if 0 < handed_on >= p_value:
            found = step
        else:
            handed_on = 0.0
    return found


def _first_count(num_labels: int, target_error: float, delta: float) -> int:
    """How many answers the strictest threshold accepts.

    At the least so many that not one wrong answer among them would be rejection enough: but then a
    single confident mistake ends it. Where there are labels enough, so many that half the target
    error would be.
    """
    least = math.ceil(math.log(delta) / math.log(1 - target_error))
    counts = np.arange(least, num_labels // 3 + 1)
    enough = binom.cdf(np.ceil(counts * target_error / 2), counts, target_error) <= delta
    return int(min(counts[enough], default=least))


def _shortened(values: Array) -> Array:
    """Seven significant digits, as many as a percentile can tell: the file stays small."""
    return np.array(list(map("{:.7g}".format, values)), dtype=np.float64)


def _check(uncertainty: Array, correct: Array) -> None:
    if not np.isfinite(uncertainty).all():
        raise CannotCalibrate("a score is not a finite number")
    num_right = int(correct.sum())
    num_wrong = len(correct) - num_right
    if min(num_right, num_wrong) < MIN_OF_EACH:
        raise CannotCalibrate(
            f"{num_right} right and {num_wrong} wrong answers: "
            f"at least {MIN_OF_EACH} of each are needed"
        )
    if np.ptp(uncertainty) == 0:
        raise CannotCalibrate("the score is the same for all answers")


def _platt(uncertainty: Array, correct: Array) -> tuple[Array, Array]:
    """A logistic curve over ln(u + 0.001), where no u is negative, and over u elsewhere."""
    num_right = correct.sum()
    # Platt's targets, a little inside 0 and 1, keep the curve finite where the classes separate.
    target = np.where(
        correct == 1, (num_right + 1) / (num_right + 2), 1 / (len(correct) - num_right + 2)
    )
    feature = _feature(uncertainty)[:, None]
    model = LogisticRegression(C=np.inf)
    model.fit(
        np.concatenate([feature, feature]),
        np.repeat([1, 0], len(correct)),
        sample_weight=np.concatenate([target, 1 - target]),
    )
    knots = _spread(np.unique(uncertainty))  # from the least to the greatest, as the feature wants
    confidences = np.asarray(model.predict_proba(_feature(knots)[:, None])[:, 1], np.float64)
    return knots, confidences


def _feature(uncertainty: Array) -> Array:
    if uncertainty.min() < 0:
        return uncertainty
    feature: Array = np.log(uncertainty + _OFFSET)
    return feature


def _isotonic(uncertainty: Array, correct: Array) -> tuple[Array, Array]:
    model = IsotonicRegression(y_min=0.0, y_max=1.0, increasing=False, out_of_bounds="clip")
    model.fit(uncertainty, correct)
    knots, confidences = model.X_thresholds_, model.y_thresholds_
    ranked = correct[np.argsort(uncertainty, kind="stable")]
    num_outer = math.ceil(_OUTER * len(ranked))
    greatest, least = _share_right(ranked[:num_outer]), _share_right(ranked[-num_outer:])
    confidences = np.clip(confidences, min(least, greatest), greatest)
    return np.asarray(knots, dtype=np.float64), np.asarray(confidences, dtype=np.float64)


def _share_right(correct: Array) -> float:
    """Share of right answers, never 0 or 1: (k + 1/2) / (n + 1), k right of n."""
    return float((correct.sum() + 0.5) / (len(correct) + 1))


def _spread(values: Array) -> Array:
    """At most `_MAX_KNOTS` of ascending values, the first and the last among them."""
    chosen = np.linspace(0, len(values) - 1, min(len(values), _MAX_KNOTS)).round().astype(int)
    spread: Array = values[chosen]
    return spread
