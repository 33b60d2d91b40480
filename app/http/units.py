"""From the units of a result to their bodies."""

from typing import Any

from app.http.schemas import DecisionInfo
from app.http.unit_schemas import Alternative, MissingField, UnitDecision, UnitInfo
from app.scoring.judging import JudgedUnit
from app.scoring.result import Result
from app.scoring.units import ScoredUnit, ScoredUnits
from models.units.unit import contradiction, denied_by, support


def units_of(
    units: ScoredUnits, answer_sample: int | None, reasons: dict[str, str]
) -> dict[str, Any]:
    """The fields of a response that tell of units: the answer first, then its parts in order.

    Args:
        units: of a result.
        answer_sample: index of the answer among the samples; None where it is none of them.
        reasons: gains why there is neither a mean nor a greatest uncertainty.
    """
    told = [unit_info(one, answer_sample) for one in units.units]
    if units.parts.missing:
        missing = [
            MissingField(path=path, share=share) for path, share in units.parts.missing.items()
        ]
        told[0].missing = missing
    if units.mean is None:
        reasons |= dict.fromkeys(("units_mean", "units_max"), "no part of the answer has a score")
    return {"units": told, "units_mean": units.mean, "units_max": units.greatest}


def judged_units(result: Result, told: list[UnitInfo], reasons: dict[str, str]) -> dict[str, Any]:
    """What the uncertainties of parts mean; each part gains its own.

    Args:
        result: whose parts are judged.
        told: its units.
        reasons: gains why there are no confidences, and no refined text.
    """
    judgement, known = result.units_judgement, dict[str, Any]()
    if judgement is None:
        return known
    for unit, judged in zip(told[1:], judgement.units, strict=True):
        unit.confidence = judged.confidence
        if judged.accept is not None:
            unit.decision = _decision(judged, judged.accept, result)
    if judgement.reason is not None:
        reasons["units.confidence"] = judgement.reason
    if judgement.decision is not None:
        known["units_decision"] = DecisionInfo.model_validate(
            judgement.decision, from_attributes=True
        )
    if result.ask.on_unit_reject == "remove":
        known["refined_text"] = judgement.refined_text
    if judgement.no_refined_text is not None:
        reasons["refined_text"] = judgement.no_refined_text
    return known


def _decision(judged: JudgedUnit, accept: bool, result: Result) -> UnitDecision:
    own: dict[str, Any] = {}
    if result.ask.on_unit_reject == "remove":
        own["removed"] = judged.is_removed
    if judged.reason is not None:
        own["reason"] = judged.reason
    return UnitDecision(accept=accept, **own)


def unit_info(scored: ScoredUnit, answer_sample: int | None = None) -> UnitInfo:
    """A unit with its scores; `answer_sample` is as in `units_of`."""
    unit, own = scored.unit, dict[str, Any]()
    if unit.path is not None:
        own["path"] = unit.path
    if unit.spans:
        own["span"] = [unit.spans[0][0], unit.spans[-1][1]]
    if len(unit.spans) > 1:
        own["spans"] = list(map(list, unit.spans))
    if len(unit.tokens):
        own["tokens"] = [int(unit.tokens[0]), int(unit.tokens[-1]) + 1]
    if (mean := support(unit)) is not None:
        own["support"] = mean
    if (denied := contradiction(unit)) is not None:
        own["contradiction"] = denied
        own["contradicted_by"] = [_among_all(i, answer_sample) for i in denied_by(unit)]
    if unit.reading is not None:
        own["out_of_domain"] = unit.reading.out_of_domain
    if unit.alternatives:
        alternatives = []
        for value, share in unit.alternatives.items():
            alternatives.append(Alternative(value=value, share=share))
        own["alternatives"] = alternatives
    return UnitInfo(
        kind=unit.kind,
        text=unit.text,
        estimator=scored.estimator,
        uncertainty=scored.uncertainty,
        scores=dict(scored.scores),
        reasons=dict(scored.reasons),
        **own,
    )


def _among_all(index: int, answer_sample: int | None) -> int:
    if answer_sample is not None and index >= answer_sample:
        return index + 1
    return index
