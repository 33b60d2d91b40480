"""Pure: thresholds that keep a promise, of whole answers and of the parts of answers.

By testing in a fixed order (Angelopoulos et al. 2021, "Learn then Test") with two starts (the
fallback procedure of Wiens 2003). An answer is right or wrong, so p-values of answers are exact:
Clopper and Pearson's. The loss of an answer with parts is the share of the kept ones that are
wrong, in [0, 1]; its p-values are Hoeffding's and Bentkus', whichever is smaller (Bates et al.
2021).
"""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import rel_entr
from scipy.stats import binom

from models.calibration import Threshold
from models.records import Array

Counts = NDArray[np.int_]

DELTA = 0.1
_NUM_STEPS = 20  # thresholds from strict to loose, each accepting 5 % more of the labels
_MOST_TIMES = 20  # as many labels are looked at, to say how many are missing
_SHARE_OF_SECOND = 0.3  # of delta, for the start at half of the labels


class Steps(Protocol):
    """K thresholds from strict to loose, on a grid that no label decides, and what each lets pass.

    Attributes:
        num_labels: of answers, or of parts.
        uncertainty: (K,) up to which each accepts.
        accepted: (K,) how many of the labels each accepts.
        loss: (K,) what a target error bounds: wrong answers among the accepted, or the mean over
            answers of the wrong among the kept parts.
        pooled: (K,) the share of wrong ones among all that are accepted.
    """

    @property
    def num_labels(self) -> int: ...
    @property
    def uncertainty(self) -> Array: ...
    @property
    def accepted(self) -> Counts: ...
    @property
    def loss(self) -> Array: ...
    @property
    def pooled(self) -> Array | None: ...

    def p_values(self, target_error: float, times: int = 1) -> Array:
        """(K,) of "the loss is above the target", as if each label were there so many times."""

    def first(self, target_error: float, delta: float, times: int = 1) -> int:
        """Index of the strictest threshold that is tried; K where none is."""


@dataclass(frozen=True, slots=True)
class AnswerSteps:
    """Thresholds of answers; see `Steps`.

    Attributes:
        wrong: (K,) answers among the accepted.
    """

    num_labels: int
    uncertainty: Array
    accepted: Counts
    wrong: Counts
    pooled: None = None

    @property
    def loss(self) -> Array:
        """(K,) wrong ones among the accepted."""
        return self.wrong / self.accepted

    def p_values(self, target_error: float, times: int = 1) -> Array:
        """Exact: P(so few wrong ones, were the target just missed). Clopper and Pearson 1934."""
        p_values: Array = binom.cdf(self.wrong * times, self.accepted * times, target_error)
        return p_values

    def first(self, target_error: float, delta: float, times: int = 1) -> int:
        """The first step that accepts `_first_count` answers."""
        least = _first_count(self.num_labels * times, target_error, delta)
        return int(np.searchsorted(self.accepted * times, least))


@dataclass(frozen=True, slots=True)
class PartSteps:
    """Thresholds of parts of answers; see `Steps`.

    Attributes:
        num_answers: that the parts are of.
    """

    num_labels: int
    num_answers: int
    uncertainty: Array
    accepted: Counts
    loss: Array
    pooled: Array

    def p_values(self, target_error: float, times: int = 1) -> Array:
        """The smaller of Hoeffding's bound 1963 and Bentkus' 2004, of means of numbers in [0, 1].

        exp(-n KL(min(loss, t), t)) and e P(Bin(n, t) ≤ ⌈n loss⌉), of n answers and target t.
        """
        num_answers = self.num_answers * times
        below = np.minimum(self.loss, target_error)
        divergence = rel_entr(below, target_error) + rel_entr(1 - below, 1 - target_error)
        hoeffding = np.exp(-num_answers * divergence)
        bentkus = math.e * binom.cdf(np.ceil(num_answers * self.loss), num_answers, target_error)
        smaller: Array = np.minimum(np.minimum(hoeffding, bentkus), 1.0)
        return smaller

    def first(self, target_error: float, delta: float, times: int = 1) -> int:
        """The strictest: an answer of which no part is kept has no loss."""
        return 0


def steps_of_answers(uncertainty: Array, correct: Array) -> AnswerSteps:
    """Thresholds of n answers; those of equal uncertainty pass together."""
    by_uncertainty = np.argsort(uncertainty, kind="stable")
    order = uncertainty[by_uncertainty]
    levels = _levels(order)
    accepted = np.searchsorted(order, levels, side="right")
    wrong = np.cumsum(1 - correct[by_uncertainty]).astype(int)[accepted - 1]
    return AnswerSteps(len(order), levels, accepted, wrong)


def steps_of_parts(uncertainty: Array, correct: Array, answers: Counts) -> PartSteps:
    """Thresholds of n parts; `answers` (n,) says which are of one answer."""
    names, answer = np.unique(answers, return_inverse=True)
    levels = _levels(np.sort(uncertainty))
    accepted, loss, pooled = np.zeros(len(levels), dtype=int), [], []
    for step, level in enumerate(levels):
        kept = uncertainty <= level
        num_kept = np.bincount(answer, weights=kept, minlength=len(names))
        num_wrong = np.bincount(answer, weights=kept * (1 - correct), minlength=len(names))
        accepted[step] = kept.sum()
        loss.append((num_wrong / np.maximum(num_kept, 1)).mean())
        pooled.append(num_wrong.sum() / num_kept.sum())
    return PartSteps(
        len(uncertainty), len(names), levels, accepted, np.array(loss), np.array(pooled)
    )


def controlled_threshold(steps: Steps, target_error: float, *, delta: float = DELTA) -> Threshold:
    """The loosest threshold for which "the loss is above `target_error`" is rejected at `delta`.

    Thresholds are tried from strict to loose. A part of `delta` is spent on the strictest, the rest
    on the one that accepts half of the labels; each that is rejected hands its part on to the next,
    each that is not loses it. So one confident mistake does not end it, and the promise holds for
    every threshold that is rejected.
    """
    found = _loosest(steps, target_error, delta)
    if found is None:
        return Threshold(target_error, None)
    share_pooled: float | None = None
    if steps.pooled is not None:
        share_pooled = float(steps.pooled[found])
    return Threshold(
        target_error,
        float(steps.uncertainty[found]),
        share_accepted=float(steps.accepted[found] / steps.num_labels),
        share_wrong=float(steps.loss[found]),
        share_pooled=share_pooled,
    )


def num_missing(steps: Steps, target_error: float, *, delta: float = DELTA) -> int | None:
    """About how many more labels like these a threshold needs; None where no number will do.

    Asked as if there were twice as many of each, three times as many, and so on.
    """
    for times in range(2, _MOST_TIMES + 1):
        if _loosest(steps, target_error, delta, times) is not None:
            return (times - 1) * steps.num_labels
    return None


def _levels(order: Array) -> Array:
    """Uncertainties (K,) up to which 5 %, 10 % … of the labels are accepted."""
    levels = np.arange(1, _NUM_STEPS + 1) * len(order) // _NUM_STEPS
    chosen: Array = order[levels[levels > 0] - 1]
    return chosen


def _loosest(steps: Steps, target_error: float, delta: float, times: int = 1) -> int | None:
    """The last of these steps at which "the loss is above `target_error`" is rejected."""
    num_steps = len(steps.accepted)
    first = steps.first(target_error, (1 - _SHARE_OF_SECOND) * delta, times)
    if first >= num_steps:
        return None
    half = steps.num_labels * times // 2
    second = min(int(np.searchsorted(steps.accepted * times, half)), num_steps - 1)
    own = np.zeros(num_steps)
    own[first] = (1 - _SHARE_OF_SECOND) * delta
    own[max(second, first)] += _SHARE_OF_SECOND * delta
    found, handed_on = None, 0.0
    for step, p_value in enumerate(steps.p_values(target_error, times).tolist()):
        handed_on += own[step]
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
