"""From the units of a result to their bodies."""

from typing import Any

from app.http.unit_schemas import Alternative, MissingField, UnitInfo
from app.scoring.units import ScoredUnit, ScoredUnits
from models.units.unit import support


def units_of(units: ScoredUnits, reasons: dict[str, str]) -> dict[str, Any]:
    """The fields of a response that tell of units: the answer first, then its parts in order.

    Args:
        units: of a result.
        reasons: gains why there is neither a mean nor a greatest uncertainty.
    """
    told = [_unit(one) for one in units.units]
    if units.missing:
        missing = [MissingField(path=path, share=share) for path, share in units.missing.items()]
        told[0].missing = missing
    if units.mean is None:
        reasons |= dict.fromkeys(("units_mean", "units_max"), "no part of the answer has a score")
    return {"units": told, "units_mean": units.mean, "units_max": units.greatest}


def _unit(scored: ScoredUnit) -> UnitInfo:
    unit, own = scored.unit, dict[str, Any]()
    if unit.path is not None:
        own["path"] = unit.path
    if unit.spans:
        own["span"] = [unit.spans[0][0], unit.spans[-1][1]]
    if len(unit.tokens):
        own["tokens"] = [int(unit.tokens[0]), int(unit.tokens[-1]) + 1]
    if (mean := support(unit)) is not None:
        own["support"] = mean
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
