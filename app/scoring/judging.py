"""Pure: the confidences and decisions that uncertainties of an answer and its parts lead to.

A confidence holds for prompts like those of the calibration. A score of another model, of samples
that were drawn otherwise, or of an answer unlike all that were calibrated has a reason instead.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

from app.scoring.ask import HAND_OVER_BELOW, PARTS, Ask
from app.scoring.defaults import OF_DOCUMENTS
from app.scoring.derive import NO_ANSWER
from app.scoring.plan import MAX_SHARE_CUT, Calibrated, Plan
from app.scoring.units import Scored, ScoredUnits
from models.calibration import ALL, Binding, Calibration
from models.engines.tags import STARTS
from models.estimators import needs
from models.ranges import Described
from models.records import FINISH_REASONS, ProbeReading
from models.records import Sequence as TokenSequence
from models.units.steps import WorkBudget
from models.units.unit import Unit
from models.warnings import Warned

# An estimator, its calibration, and its uncertainties of one answer or of the parts of one.
Observed = tuple[str, Calibration, tuple[float, ...]]
Action = Literal["accept", "verify", "hand_over"]

_OF_ANSWER = "at most {percent} of the accepted answers are wrong"
_OF_PARTS = "on average over answers at most {percent} of the parts that pass are wrong"
_OVER_DOCUMENTS = _OF_PARTS.replace("are wrong", "say what the documents do not")
_NO_PARTS = "the answer has no parts"
_TOO_MANY = "the answer has more parts than are scored"
# By the warning of a generation, or of what is scored.
_WARNED = {
    Warned.PROMPT_OUT_OF_DOMAIN: "no prompts like this one were calibrated",
    Warned.SAMPLES_LEFT_OUT: "no answers with fewer samples than were wanted were calibrated",
}
_UNLIKE_TRAINING = "out_of_domain: the probe was not trained on answers like this one"


@dataclass(frozen=True, slots=True)
class DecisionInfo(Described):
    """Whether the answer may pass, and what that promises."""

    accept: bool
    """whether the uncertainty is at most the threshold"""
    threshold: float | None
    """a real number in the estimator's unit; null where the labels allow none"""
    target_error: float
    """largest wanted share of wrong answers among the accepted, 0 to 1"""
    guarantee: str
    """the promise in words"""
    action: Action
    """let it pass; or have it verified, from a confidence of `hand_over_below` on; or ask somebody
    else"""
    reason: str
    """of the action, in a sentence"""


@dataclass(frozen=True, slots=True)
class JudgedUnit:
    """The judgement of one part."""

    confidence: float | None = None  # P(right) in [0, 1]; None where it has no uncertainty
    accept: bool | None = None  # it passes; None where no decision was requested
    is_removed: bool = False  # the refined text is without it
    # Why it does not pass, and why it stays where it should be removed; None where it passes.
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class UnitsJudgement:
    """The judgement of an answer's parts."""

    units: tuple[JudgedUnit, ...]
    reason: str | None = None  # why none of them has a confidence; None where that is known
    decision: DecisionInfo | None = None  # on all of them together; None where none was requested
    # The answer without those that do not pass; None unless requested, or for the reason in
    # `no_refined_text`.
    refined_text: str | None = None
    no_refined_text: str | None = None  # why there is none though it was requested


@dataclass(frozen=True, slots=True)
class Judgement:
    """The judgement of an answer and its parts."""

    confidence: float | None = None  # P(correct) in [0, 1]
    percentile: float | None = None  # share of the reference answers that are surer, in [0, 100]
    decision: DecisionInfo | None = None
    calibrator: str | None = None
    observed: Observed | None = None  # None where nothing has a confidence that is watched
    reason: str | None = None
    has_shifted: bool = False  # what is served no longer looks like what was calibrated
    parts: UnitsJudgement | None = None
    # Of the confidence, by chance in the samples (`confidence_interval`); None unless requested.
    interval: tuple[float, float] | None = None


def judge(
    plan: Plan,
    scored: Scored,
    answer: TokenSequence,
    *,
    steps: WorkBudget | None = None,
    readings: Mapping[str, ProbeReading] = MappingProxyType({}),
    warned: Collection[str] = (),
) -> Judgement:
    """Turn the uncertainties of an answer and its parts into confidences and decisions.

    An answer without one, or unlike those that were calibrated, has no confidence and never passes.
    Nor does one with a code in `warned` that forbids it. Reading a schema takes `steps`.

    Raises:
        InvalidRequest: the schema turns out to be invalid, or takes too many steps.
    """
    judgement = _of_answer(plan, answer, scored.scores[plan.primary], readings, warned)
    if scored.units is None or plan.ask.units not in PARTS:
        return judgement
    parts = _of_parts(plan, answer, scored.units, warned)
    parts = _refined(plan.ask, answer, scored.units, steps or WorkBudget(), parts)
    if plan.primary == plan.unit_primary == OF_DOCUMENTS:  # never calibrated of a whole answer
        judgement = replace(judgement, observed=_observed(plan, scored.units, parts))
    return replace(judgement, parts=parts)


def _of_answer(
    plan: Plan,
    answer: TokenSequence,
    uncertainty: float | None,
    readings: Mapping[str, ProbeReading],
    warned: Collection[str],
) -> Judgement:
    calibrated, ask = plan.calibrated, plan.ask
    if isinstance(calibrated, str):
        return Judgement(decision=_none_calibrated(ask, calibrated), reason=calibrated)
    unlike = _why_unlike(answer, calibrated.binding, warned)
    for name in needs([plan.primary]) & readings.keys():
        if readings[name].out_of_domain:
            unlike = unlike or _UNLIKE_TRAINING
    judged = _judged(plan.primary, uncertainty, calibrated.calibration, ask, unlike)
    why_not: str | None = None
    if judged.confidence is None:
        why_not = judged.reason
    decision: DecisionInfo | None = None
    if judged.accept is not None:
        decision = _decided(ask, calibrated, _OF_ANSWER, judged, why_not)
    if judged.confidence is None or uncertainty is None:
        return Judgement(decision=decision, reason=why_not)
    percentile = calibrated.calibration.percentile(uncertainty)
    observed = plan.primary, calibrated.calibration, (uncertainty,)
    return Judgement(judged.confidence, percentile, decision, calibrated.calibrator.id, observed)


def _of_parts(
    plan: Plan, answer: TokenSequence, units: ScoredUnits, warned: Collection[str]
) -> UnitsJudgement:
    calibrated, ask, parts = plan.unit_calibrated, plan.ask, units.units[1:]
    if isinstance(calibrated, str):
        each, decision = JudgedUnit(), _none_calibrated(ask, calibrated)
        if decision is not None:
            each = JudgedUnit(accept=False, reason=calibrated)
        return UnitsJudgement((each,) * len(parts), calibrated, decision)
    unlike = _why_unlike(answer, calibrated.binding, warned)
    judged = []
    for part in parts:
        why_not, uncertainty, reading = unlike, part.uncertainty, part.unit.reading
        is_foreign = reading is not None and reading.out_of_domain
        if is_foreign and Unit.PREDICTED in needs(filter(None, [part.estimator])):
            why_not = unlike or _UNLIKE_TRAINING
        if part.estimator != plan.unit_primary:  # the calibrated one
            uncertainty = None
        judged.append(_judged(plan.unit_primary, uncertainty, calibrated.calibration, ask, why_not))
    decision = None
    if ask.target_error is not None:
        decision = _of_all_parts(plan, calibrated, judged, units, unlike)
    return UnitsJudgement(tuple(judged), unlike, decision)


def _of_all_parts(
    plan: Plan,
    calibrated: Calibrated,
    judged: Sequence[JudgedUnit],
    units: ScoredUnits,
    why_not: str | None,
) -> DecisionInfo:
    """The decision on the parts together, of an answer that may be unlike the calibrated ones."""
    if why_not is None and not judged:
        why_not = _NO_PARTS
    if why_not is None and not units.parts.is_whole:
        why_not = _TOO_MANY
    together = JudgedUnit(_least_confidence(judged), all(unit.accept for unit in judged))
    promise = _OF_PARTS
    if plan.unit_primary == OF_DOCUMENTS:
        promise = _OVER_DOCUMENTS
    return _decided(plan.ask, calibrated, promise, together, why_not)


def _observed(plan: Plan, units: ScoredUnits, judgement: UnitsJudgement) -> Observed | None:
    """The uncertainties of the parts that have a confidence; None where none has."""
    found: list[float] = []
    for part, judged in zip(units.units[1:], judgement.units, strict=True):
        if judged.confidence is not None and part.uncertainty is not None:
            found.append(part.uncertainty)
    if isinstance(plan.unit_calibrated, str) or not found:
        return None
    return OF_DOCUMENTS, plan.unit_calibrated.calibration, tuple(found)


def _judged(
    estimator: str | None,
    uncertainty: float | None,
    calibration: Calibration,
    ask: Ask,
    unlike: str | None,
) -> JudgedUnit:
    """The judgement of an answer or a part, which may be unlike all that were calibrated."""
    accept: bool | None = None
    if ask.target_error is not None:
        accept = False
    if unlike is not None:
        return JudgedUnit(accept=accept, reason=unlike)
    if uncertainty is None:
        return JudgedUnit(accept=accept, reason=f"{estimator} has no value")
    confidence = calibration.confidence(uncertainty)
    if ask.target_error is None:
        return JudgedUnit(confidence)
    threshold = calibration.threshold(ask.target_error)
    if threshold.accepts(uncertainty):
        return JudgedUnit(confidence, accept=True)
    reason = "its uncertainty is above the threshold"
    if threshold.uncertainty is None:
        reason = "nothing passes at this target error"
    return JudgedUnit(confidence, accept=False, reason=reason)


def _why_unlike(answer: TokenSequence, binding: Binding, warned: Collection[str]) -> str | None:
    """The code and reason, in words, of an answer unlike all that were calibrated."""
    text, no_answer = answer.compared_text, answer.no_answer
    if no_answer is None and text in STARTS:  # and nothing of the reasoning that it begins
        no_answer = "reasoning_unfinished"
    if no_answer is not None:
        return f"{no_answer}: {NO_ANSWER[no_answer]}"
    if answer.is_withheld:
        return "answer_filtered: answers that a filter has cut were not calibrated"
    if answer.finish_reason not in FINISH_REASONS:
        return "finish_reason_unknown: nobody knows whether the answer is whole"
    if not text:
        return "empty_answer: an answer without text is neither right nor wrong"
    if answer.finish_reason == "length" and binding.share_cut <= MAX_SHARE_CUT:
        return "answer_truncated: answers that are cut short were not calibrated"
    for code, reason in _WARNED.items():
        if code in warned:
            return f"{code}: {reason}"
    return None


def _none_calibrated(ask: Ask, why: str) -> DecisionInfo | None:
    """The decision that nothing passes, where one is requested and nothing is calibrated."""
    if ask.target_error is None:
        return None
    guarantee, reason = f"{why}; nothing is accepted", "nothing is known of its confidence"
    return DecisionInfo(False, None, ask.target_error, guarantee, "hand_over", reason)


def _decided(
    ask: Ask, calibrated: Calibrated, promise: str, judged: JudgedUnit, why_not: str | None
) -> DecisionInfo:
    """The decision on an answer or its parts together, which pass unless there is a `why_not`."""
    threshold = calibrated.calibration.threshold(ask.target_error or 0.0)
    at, target_error = threshold.uncertainty, threshold.target_error
    percent, confidence = _percent(target_error), judged.confidence
    guarantee = f"{why_not}: not accepted"
    if why_not is None:
        guarantee = _guarantee(ask, calibrated, promise, percent)
    action: Action = "hand_over"
    fails, floor = "it does not pass", ask.hand_over_below
    if at is None:
        fails = f"nothing passes at a target error of {percent}"
    if floor is None:
        floor = HAND_OVER_BELOW
    if judged.accept and why_not is None:
        action, reason = "accept", f"it passes at a target error of {percent}"
    elif confidence is None:
        reason = f"{fails}, and nothing is known of its confidence"
    elif confidence < floor:
        reason = f"its confidence of {_percent(confidence)} is below {_percent(floor)}"
    else:
        action, reason = "verify", f"{fails}, but its confidence is {_percent(confidence)}"
    return DecisionInfo(action == "accept", at, target_error, guarantee, action, reason)


def _guarantee(ask: Ask, calibrated: Calibrated, promise: str, percent: str) -> str:
    """What holds of the answers that the threshold accepts, in words."""
    threshold = calibrated.calibration.threshold(ask.target_error or 0.0)
    if threshold.uncertainty is not None:
        probability, prompts = 1 - calibrated.calibrator.delta, calibrated.calibrator.source
        if ask.calibration not in (None, ALL):
            prompts = f"{ask.calibration!r}, {calibrated.calibration.num_labels} of {prompts}"
        return (
            f"{promise.format(percent=percent)}, with probability {probability:g} over calibration "
            f"sets, for prompts like those of {prompts}"
        )
    guarantee = f"by these labels nobody can promise at most {percent} wrong: nothing passes"
    if threshold.labels_missing is not None:
        guarantee += f"; about {threshold.labels_missing} more labels are needed"
    return guarantee


def _percent(share: float) -> str:
    return f"{100 * share:.4g} %"


def _least_confidence(judged: Sequence[JudgedUnit]) -> float | None:
    """The least of the parts that do not pass; None where one is unknown, or all pass."""
    known = [unit.confidence for unit in judged if not unit.accept]
    if not known or None in known:
        return None
    return min(confidence for confidence in known if confidence is not None)


def _refined(
    ask: Ask,
    answer: TokenSequence,
    units: ScoredUnits,
    steps: WorkBudget,
    judgement: UnitsJudgement,
) -> UnitsJudgement:
    """The judgement with the answer's text without the parts that do not pass, if requested.

    Of sentences headings and code, which are none, stay.
    """
    if ask.on_unit_reject != "remove":
        return judgement
    if not units.parts.is_whole:
        return replace(judgement, no_refined_text=_TOO_MANY)
    has_parts = bool(judgement.units)
    if ask.units == "fields":
        has_parts = units.parts.value is not None
    if answer.no_answer or not has_parts:
        return replace(judgement, no_refined_text=_NO_PARTS)
    rejected = []
    for one, scored in zip(judgement.units, units.units[1:], strict=True):
        if not one.accept:
            rejected.append(scored.unit)
    text, kept = units.parts.without(rejected, steps)
    stay = set(map(id, kept))
    judged = []
    for one, scored in zip(judgement.units, units.units[1:], strict=True):
        if id(scored.unit) in stay:
            reason = f"{one.reason}; it stays, as the schema does not let it be null"
            judged.append(replace(one, reason=reason))
        else:
            judged.append(replace(one, is_removed=not one.accept))
    return replace(judgement, units=tuple(judged), refined_text=text)
