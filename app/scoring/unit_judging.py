"""Pure: what the uncertainties of an answer's parts mean, and the answer without some of them."""

from collections.abc import Collection
from dataclasses import replace

from app.scoring.ask import PARTS, Ask
from app.scoring.decisions import (
    Decision,
    JudgedUnit,
    UnitsJudgement,
    check_target,
    decided,
    no_decision,
)
from app.scoring.judging import part_of
from app.scoring.plan import Plan
from app.scoring.units import ScoredUnit, ScoredUnits
from app.scoring.unlike import UNLIKE_TRAINING, why_unlike
from models.calibration import ALL, Calibration, Calibrator, Part, Threshold
from models.errors import InvalidRequest, NotCalibrated
from models.estimators import needs
from models.records import Sequence, Span
from models.units.fields import without
from models.units.json_schemas import BadSchema
from models.units.json_values import parsed
from models.units.schemas import may_be_null
from models.units.sentences import without_sentences
from models.units.steps import Steps
from models.units.unit import PREDICTED

_NO_PARTS = "the answer has no parts"
_TOO_MANY = "the answer has more parts than are scored"


def check_units_asked(ask: Ask, plan: Plan, calibrator: Calibrator | None) -> None:
    """Refuse a decision on parts that nobody can make, before any work.

    Raises:
        NotCalibrated: there is no calibration of such parts for this ask; says why.
        InvalidRequest: an unknown target error, or `on_unit_reject` without what it needs.
    """
    has_parts = ask.units in PARTS
    if ask.on_unit_reject != "keep":
        if not has_parts or ask.target_error is None:
            message = "needs target_error, and units fields, sentences or claims"
            raise InvalidRequest(message, field="on_unit_reject")
        if ask.units == "claims" and ask.on_unit_reject == "remove":
            message = "must be keep or abstain with units claims, which share words of the answer"
            raise InvalidRequest(message, field="on_unit_reject")
        if ask.tools and ask.on_unit_reject == "remove":
            message = "must be keep or abstain where tools may be called: a call is made as a whole"
            raise InvalidRequest(message, field="on_unit_reject")
        if ask.on_reject == "escalate":
            message = "must be keep where a second model may answer, which has no parts"
            raise InvalidRequest(message, field="on_unit_reject")
    if not has_parts or ask.target_error is None:
        return
    found = _calibration(ask, plan, calibrator)
    if isinstance(found, str):
        raise NotCalibrated(found, field="target_error")
    _, calibration = found
    check_target(calibration, ask.target_error)


def judge_units(
    ask: Ask,
    plan: Plan,
    calibrator: Calibrator | None,
    answer: Sequence,
    units: ScoredUnits,
    steps: Steps,
    *,
    warned: Collection[str] = (),
) -> UnitsJudgement:
    """What the uncertainties of the parts mean, and the answer without those that do not pass.

    Args:
        ask: whose answer it is.
        plan: of it.
        calibrator: that is served.
        answer: y*.
        units: of it, the answer itself first.
        steps: that reading the schema may take.
        warned: as in `Judge.judge`.

    Raises:
        InvalidRequest: the schema is none, as only now shows, or takes too many steps.
    """
    parts = units.units[1:]
    found = _calibration(ask, plan, calibrator)
    if parts and parts[0].unit.kind != PARTS[ask.units]:
        found = "the answer was not split into claims"
    if calibrator is None or isinstance(found, str):
        judged = (JudgedUnit(),) * len(parts)
        if ask.target_error is None:
            return UnitsJudgement(judged, str(found))
        # An answer of another kind than was foreseen.
        judged = (JudgedUnit(accept=False, reason=str(found)),) * len(parts)
        decision = no_decision(ask.target_error, str(found))
        return _refined(ask, answer, units, steps, UnitsJudgement(judged, str(found), decision))
    part, calibration = found
    unlike = why_unlike(answer, plan, {}, part.binding, warned=warned)
    if ask.target_error is None:
        told = [_judged(one, plan, calibration, None, unlike) for one in parts]
        return UnitsJudgement(tuple(told), unlike)
    threshold = calibration.threshold(ask.target_error)
    if threshold is None:  # refused by `check_units_asked` but where the calibrator was replaced
        threshold = Threshold(ask.target_error, None)
    told = [_judged(one, plan, calibration, threshold, unlike) for one in parts]
    decision = _decision(threshold, calibrator, told, units, unlike)
    decision = decision.acting(_least_confidence(told), ask)
    return _refined(ask, answer, units, steps, UnitsJudgement(tuple(told), unlike, decision))


def _calibration(
    ask: Ask, plan: Plan, calibrator: Calibrator | None
) -> tuple[Part, Calibration] | str:
    """The calibration of the uncertainty of parts, or why there is none for this ask."""
    kind = PARTS[ask.units]
    if plan.unit_primary is None:
        return f"no estimator of this request is defined for a {kind}"
    part = part_of(ask, replace(plan, primary=plan.unit_primary), calibrator, kind)
    if isinstance(part, str):
        return part
    return part, part.groups[ask.calibration or ALL][plan.unit_primary]


def _judged(
    one: ScoredUnit,
    plan: Plan,
    calibration: Calibration,
    threshold: Threshold | None,
    unlike: str | None,
) -> JudgedUnit:
    reading, read = one.unit.reading, needs(filter(None, [one.estimator]))
    if unlike is None and reading is not None and reading.out_of_domain and PREDICTED in read:
        unlike = UNLIKE_TRAINING
    uncertainty, confidence, reason = None, None, unlike
    if one.estimator == plan.unit_primary:  # which is what was calibrated
        uncertainty = one.uncertainty
    if uncertainty is not None and unlike is None:
        confidence = calibration.confidence(uncertainty)
    if threshold is None:
        return JudgedUnit(confidence)
    if unlike is None and threshold.accepts(uncertainty):
        return JudgedUnit(confidence, accept=True)
    if reason is None and uncertainty is None:
        reason = f"{plan.unit_primary} has no value"
    elif reason is None and threshold.uncertainty is None:
        reason = "no threshold is sure to keep the target error"
    elif reason is None:
        reason = "its uncertainty is above the threshold"
    return JudgedUnit(confidence, accept=False, reason=reason)


def _decision(
    threshold: Threshold,
    calibrator: Calibrator,
    judged: list[JudgedUnit],
    units: ScoredUnits,
    unlike: str | None,
) -> Decision:
    """Whether all parts pass, and what that promises."""
    promise = "on average over answers at most {percent} of the parts that pass are wrong"
    accept = all(one.accept for one in judged)
    decision = decided(threshold, calibrator, promise, accept=accept)
    why_not = unlike
    if why_not is None and not judged:
        why_not = _NO_PARTS
    if why_not is None and not units.is_whole:
        why_not = _TOO_MANY
    if why_not is not None:
        return decision.refused(why_not)
    return decision


def _least_confidence(judged: list[JudgedUnit]) -> float | None:
    """Of the parts that do not pass; None where that of one is unknown, or there are none."""
    known = [one.confidence for one in judged if not one.accept]
    if not known or None in known:
        return None
    return min(one for one in known if one is not None)


def _refined(
    ask: Ask, answer: Sequence, units: ScoredUnits, steps: Steps, judgement: UnitsJudgement
) -> UnitsJudgement:
    """The judgement with the answer's text without the parts that do not pass, where asked."""
    if ask.on_unit_reject != "remove":
        return judgement
    if not units.is_whole:
        return replace(judgement, no_refined_text=_TOO_MANY)
    if answer.no_answer:
        return replace(judgement, no_refined_text=_NO_PARTS)
    if ask.units == "sentences":
        return _without_sentences(answer.text, units, judgement)
    value = parsed(answer.text)
    if value is None:
        return replace(judgement, no_refined_text=_NO_PARTS)
    try:
        removable = may_be_null(value, ask.json_schema, steps)
    except BadSchema as error:
        raise InvalidRequest(str(error), field="json_schema") from None
    removed, told = [], []
    for one, scored in zip(judgement.units, units.units[1:], strict=True):
        if one.accept:
            told.append(one)
        elif scored.unit.path in removable:
            removed.append(scored.unit)
            told.append(replace(one, is_removed=True))
        else:
            reason = f"{one.reason}; it stays, as the schema does not let it be null"
            told.append(replace(one, reason=reason))
    return replace(judgement, units=tuple(told), refined_text=without(answer.text, removed))


def _without_sentences(text: str, units: ScoredUnits, judgement: UnitsJudgement) -> UnitsJudgement:
    """Each that does not pass is removed; headings and code, which are no sentences, stay."""
    if not judgement.units:
        return replace(judgement, no_refined_text=_NO_PARTS)
    removed: list[Span] = []
    told = []
    for one, scored in zip(judgement.units, units.units[1:], strict=True):
        if not one.accept:
            removed += scored.unit.spans
        told.append(replace(one, is_removed=not one.accept))
    refined = without_sentences(text, removed)
    return replace(judgement, units=tuple(told), refined_text=refined)
