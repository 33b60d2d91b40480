"""Pure: how good a calibration is, on labels that it was not fitted on; and what its risk is."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import binom

from cocoa_lab.calibration.fitting import CannotCalibrate, fit
from cocoa_lab.calibration.labels import Labelled
from cocoa_lab.calibration.thresholds import Counts
from cocoa_lab.metrics import ece, expected_ece
from models.calibration import ALL, Binding, Calibrator, Part, Threshold
from models.records import Array

_NUM_FOLDS = 5


@dataclass(frozen=True, slots=True)
class Check:
    """Confidence of labels by curves that were fitted on the others.

    Attributes:
        confidence, correct: (n,).
        ece: expected calibration error; `expected` what it would be were each confidence exact.
    """

    confidence: Array
    correct: Array
    ece: float
    expected: float


@dataclass(frozen=True, slots=True)
class Held:
    """A promise on other answers, in words.

    Attributes:
        accepted: how many pass.
        wrong: how many of these are wrong.
        chance: in how many of 100 draws so many are, where just the promised share is.
    """

    accepted: str
    wrong: str
    chance: str


def cross_check(
    uncertainty: Array, correct: Array, answers: Counts | None = None, seed: int = 0
) -> Check | None:
    """Each fifth of the labels by a curve from the others; None where a fifth cannot be fitted.

    Of parts, `answers` (n,) says which are of one answer; these stay together.
    """
    drawn_whole = np.arange(len(correct)) if answers is None else answers
    names, answer = np.unique(drawn_whole, return_inverse=True)
    folds = (np.random.default_rng(seed).permutation(len(names)) % _NUM_FOLDS)[answer]
    confidence = np.empty(len(correct))
    for fold in range(_NUM_FOLDS):
        held_out = folds == fold
        of_others = None if answers is None else answers[~held_out]
        try:
            fitted = fit(uncertainty[~held_out], correct[~held_out], of_others)
        except CannotCalibrate:
            return None
        confidence[held_out] = np.interp(uncertainty[held_out], fitted.knots, fitted.confidences)
    error, expected = ece(confidence, correct), expected_ece(confidence, correct, num_draws=200)
    if error is None or expected is None:
        return None
    return Check(confidence, correct, error, expected)


def risk_coverage(uncertainty: Array, correct: Array) -> tuple[Array, Array]:
    """Share accepted and share wrong among these (K,), for each threshold from strict to loose."""
    thresholds, index = np.unique(uncertainty, return_inverse=True)
    num_at = np.bincount(index, minlength=len(thresholds))
    num_wrong_at = np.bincount(index, weights=1 - correct, minlength=len(thresholds))
    num_accepted = np.cumsum(num_at)
    return num_accepted / len(correct), np.cumsum(num_wrong_at) / num_accepted


def part_for(labelled: Labelled, calibrator: Calibrator) -> Part | None:
    """The part of a calibrator that speaks of such answers, whatever their length."""
    asked = [_way(binding) for binding in labelled.bindings]
    for part in calibrator.parts:
        if _way(part.binding) in asked and any(map(labelled.labels.calibrates, part.groups[ALL])):
            return part
    return None


def held_to(threshold: Threshold, uncertainty: Array, correct: Array) -> Held:
    """What other answers, with a score each, show of a promise."""
    if threshold.uncertainty is None:
        return Held("no threshold", "-", "-")
    passes = uncertainty <= threshold.uncertainty
    num_passed, num_wrong = int(passes.sum()), int((1 - correct[passes]).sum())
    accepted = f"{num_passed} of {len(correct)}"
    if not num_passed:
        return Held(accepted, "-", "-")
    chance = float(binom.sf(num_wrong - 1, num_passed, threshold.target_error))
    share = 100 * num_wrong / num_passed
    return Held(accepted, f"{num_wrong} ({share:.1f} %)", f"{100 * chance:.3g} of 100")


def _way(binding: Binding) -> Binding:
    return replace(binding, max_new_tokens=0, share_cut=0.0)
