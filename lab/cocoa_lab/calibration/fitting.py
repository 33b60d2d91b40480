"""Pure: curves from uncertainty to P(correct), with thresholds that keep a promise.

Platt scaling (Platt 1999) on few labels, isotonic regression on more; of parts of answers the mean
of isotonic regressions over draws of the answers (bagging, Breiman 1996), which follows less what a
few answers have in common. For the thresholds see `cocoa_lab.calibration.thresholds`.
"""

import math
from dataclasses import replace

import numpy as np
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from cocoa_lab.calibration.thresholds import (
    DELTA,
    Counts,
    Steps,
    controlled_threshold,
    num_missing,
    steps_of_answers,
    steps_of_parts,
)
from models.calibration import Calibration, Threshold, shortened
from models.records import Array

TARGET_ERRORS = (0.01, 0.02, 0.05, 0.1, 0.2)
MIN_OF_EACH = 10  # right and wrong answers, below which nothing can be fitted
_MAX_PLATT_LABELS = 400  # above, isotonic regression has the smaller calibration error
_OUTER = 0.05  # of the labels, at either end, bound what isotonic regression may say: not 0 or 1
_OFFSET = 0.001  # keeps the logarithm of an uncertainty of 0 finite
_LEAST = 1e-6  # confidence, where rounding would say 0, as it would say 1 at the other end
_MAX_KNOTS = 256
_NUM_QUANTILES = 101
_NUM_DRAWS = 20  # of the answers, where labels are of their parts


class CannotCalibrate(ValueError):
    """Labels from which nothing can be said; the message says why."""


def fit(
    uncertainty: Array, correct: Array, answers: Counts | None = None, *, delta: float = DELTA
) -> Calibration:
    """What the uncertainties of one estimator mean.

    Args:
        uncertainty: (n,), finite.
        correct: (n,), 0 or 1.
        answers: (n,) which labels are of parts of one answer; None where each is an answer.
        delta: probability, over calibration sets, that a threshold breaks its promise.

    Raises:
        CannotCalibrate: a number that is not finite, a constant score, fewer than ten right or ten
            wrong answers, or a score that ranks the wrong way round.
    """
    _check(uncertainty, correct)
    if len(correct) <= _MAX_PLATT_LABELS:
        method, (knots, confidences) = "platt", _platt(uncertainty, correct)
    elif answers is None:
        method, (knots, confidences) = "isotonic", _isotonic(uncertainty, correct)
    else:
        method, (knots, confidences) = "isotonic", _mean_isotonic(uncertainty, correct, answers)
    if confidences[0] <= confidences[-1]:
        raise CannotCalibrate("surer answers are not more often right")
    steps: Steps = steps_of_answers(uncertainty, correct)
    if answers is not None:
        steps = steps_of_parts(uncertainty, correct, answers)
    thresholds: list[Threshold] = []
    for target in TARGET_ERRORS:
        found = controlled_threshold(steps, target, delta=delta)
        if thresholds and not _is_looser(found, thresholds[-1]):
            found = replace(thresholds[-1], target_error=target)
        if found.uncertainty is None:
            missing = {num_missing(steps, target, delta=delta)}
            missing.update(one.labels_missing for one in thresholds)  # which would do here, too
            found = replace(found, labels_missing=min(filter(None, missing), default=None))
        thresholds.append(found)
    return Calibration(
        method=method,
        knots=knots,
        confidences=np.clip(_shortened(confidences), _LEAST, 1 - _LEAST),
        quantiles=_shortened(np.quantile(uncertainty, np.linspace(0, 1, _NUM_QUANTILES))),
        thresholds=tuple(thresholds),
        num_labels=len(correct),
        num_right=int(correct.sum()),
    )


def _is_looser(found: Threshold, stricter: Threshold) -> bool:
    """Whether it accepts as much as the threshold of the next stricter target.

    That one keeps the looser promise, too: at twice the error its test at level p is one at about
    p². So of two targets the looser one never accepts less.
    """
    if found.uncertainty is None or stricter.uncertainty is None:
        return stricter.uncertainty is None
    return found.uncertainty >= stricter.uncertainty


def _shortened(values: Array) -> Array:
    """Six digits, more than labels can tell: the file stays small."""
    return np.array(list(map(shortened, values)), dtype=np.float64)


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


def _mean_isotonic(uncertainty: Array, correct: Array, answers: Counts) -> tuple[Array, Array]:
    """The mean of the curves of draws of the answers, at percentiles of all uncertainties."""
    knots = np.unique(_shortened(np.quantile(uncertainty, np.linspace(0, 1, _NUM_QUANTILES))))
    names, answer = np.unique(answers, return_inverse=True)
    rows_of = [np.flatnonzero(answer == one) for one in range(len(names))]
    rng = np.random.default_rng(0)
    curves = []
    for drawn in rng.integers(len(names), size=(_NUM_DRAWS, len(names))):
        rows = np.concatenate([rows_of[one] for one in drawn])
        curves.append(np.interp(knots, *_isotonic(uncertainty[rows], correct[rows])))
    return knots, np.mean(curves, axis=0)


def _share_right(correct: Array) -> float:
    """Share of right answers, never 0 or 1: (k + 1/2) / (n + 1), k right of n."""
    return float((correct.sum() + 0.5) / (len(correct) + 1))


def _spread(values: Array) -> Array:
    """At most `_MAX_KNOTS` of ascending values, the first and the last among them."""
    chosen = np.linspace(0, len(values) - 1, min(len(values), _MAX_KNOTS)).round().astype(int)
    spread: Array = values[chosen]
    return spread
