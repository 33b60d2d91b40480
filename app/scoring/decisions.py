"""Pure: whether an answer may pass, what that promises, and what to do with it."""

from dataclasses import dataclass, replace
from typing import Literal

from app.scoring.ask import ESCALATE_BELOW, Ask
from models.calibration import Calibration, Calibrator, Threshold
from models.errors import InvalidRequest

Action = Literal["accept", "verify", "escalate"]


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether an answer may pass, and what to do with it.

    Attributes:
        threshold: an uncertainty; None where the labels allow none, and no answer may pass.
        guarantee: what is promised, in words.
        action: let it pass, have it verified, or ask somebody else.
        reason: of the action, in a sentence.
    """

    accept: bool
    threshold: float | None
    target_error: float
    guarantee: str
    action: Action = "escalate"
    reason: str = "nothing is known of its confidence"

    def refused(self, why: str) -> "Decision":
        """The same where an answer cannot pass, whatever its uncertainty."""
        return replace(self, accept=False, guarantee=f"{why}: not accepted")

    def acting(self, confidence: float | None, ask: Ask) -> "Decision":
        """The same with what to do with an answer of this confidence, None for an unknown one."""
        floor = ask.escalate_below
        if floor is None:
            floor = ESCALATE_BELOW
        action: Action = "escalate"
        reason = "it does not pass, and nothing is known of its confidence"
        if self.accept:
            action, reason = (
                "accept",
                f"it passes at a target error of {_percent(self.target_error)}",
            )
        elif confidence is not None and confidence < floor:
            reason = f"its confidence of {_percent(confidence)} is below {_percent(floor)}"
        elif confidence is not None:
            action = "verify"
            reason = f"it does not pass, but its confidence is {_percent(confidence)}"
        return replace(self, action=action, reason=reason)


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the uncertainty of an ask means.

    Attributes:
        confidence: P(correct) in [0, 1].
        percentile: share of the reference answers that are surer, in [0, 100].
        decision: where one was asked for.
        reason: why there is no confidence, where there is none.
        calibrator: id of the calibrator that says so.
        has_shifted: whether what is served no longer looks like what was calibrated.
    """

    confidence: float | None = None
    percentile: float | None = None
    decision: Decision | None = None
    reason: str | None = None
    calibrator: str | None = None
    has_shifted: bool = False


@dataclass(frozen=True, slots=True)
class JudgedUnit:
    """What the uncertainty of one part means.

    Attributes:
        confidence: P(right) in [0, 1]; None where it has no uncertainty.
        accept: whether it passes; None where no decision was asked for.
        is_removed: whether the refined text is without it.
        reason: why it does not pass, and why it stays where it should be removed; None where it
            passes.
    """

    confidence: float | None = None
    accept: bool | None = None
    is_removed: bool = False
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class UnitsJudgement:
    """What the uncertainties of an answer's parts mean.

    Attributes:
        units: one for each part, in their order.
        reason: why none of them has a confidence; None where that is known.
        decision: whether all of them pass, where that was asked.
        refined_text: the answer without those that do not pass; None unless that was asked, or for
            `no_refined_text`.
        no_refined_text: why there is none though it was asked.
    """

    units: tuple[JudgedUnit, ...]
    reason: str | None = None
    decision: Decision | None = None
    refined_text: str | None = None
    no_refined_text: str | None = None


def decided(
    threshold: Threshold, calibrator: Calibrator, promise: str, *, accept: bool
) -> Decision:
    """The decision by a threshold, before it is known what to do.

    Args:
        threshold: of the target error.
        calibrator: whose threshold it is.
        promise: in words, with {percent} for the target error.
        accept: whether the answer passes.
    """
    percent = _percent(threshold.target_error)
    guarantee = (
        f"{promise.format(percent=percent)}, with probability {1 - calibrator.delta:g} over "
        f"calibration sets, for prompts like those of {calibrator.source}"
    )
    if threshold.uncertainty is None:
        guarantee = f"no threshold is sure to keep at most {percent} wrong: nothing is accepted"
        if threshold.labels_missing is not None:
            guarantee += f"; about {threshold.labels_missing} more labels are needed"
    return Decision(accept, threshold.uncertainty, threshold.target_error, guarantee)


def check_target(calibration: Calibration, target_error: float) -> None:
    """Refuse a target error that was not calibrated.

    Raises:
        InvalidRequest: names those that were.
    """
    if calibration.threshold(target_error) is None:
        known = ", ".join(f"{one.target_error:g}" for one in calibration.thresholds)
        raise InvalidRequest(f"must be one of {known}", field="target_error")


def no_decision(target_error: float, why: str) -> Decision:
    """That nothing passes, as nothing is calibrated for an answer."""
    return Decision(False, None, target_error, f"{why}; nothing is accepted")


def _percent(share: float) -> str:
    return f"{100 * share:.4g} %"
