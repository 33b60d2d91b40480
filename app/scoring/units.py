"""Pure: the units of an answer, beside its samples, and their scores.

The definitions are those of `models.units`. Nothing here is stored: the pairs of texts are, by
`app.scoring.pairs`, so that the units of an answer that comes again cost no model.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from app.scoring.defaults import OF_SUPPORT
from app.scoring.derive import Evidence
from app.scoring.plan import Plan
from models.estimators import needs, score
from models.records import ProbeReading, Span
from models.units.parts import Parts
from models.units.unit import Unit

# The reason why the statistics of tokens cannot be cut to a unit.
TOKENS_UNKNOWN = "the texts of the answer's tokens are not known"
_NO_PROBE = "no probe of whole answers is loaded for this model"


@dataclass(frozen=True, slots=True)
class ScoredUnit:
    """A unit with its scores."""

    unit: Unit
    # Of the unit's uncertainty: that of its kind, or `inconsistency` for one without tokens; None
    # where none is defined for its kind.
    estimator: str | None
    scores: Mapping[str, float | None]
    reasons: Mapping[str, str]

    @property
    def uncertainty(self) -> float | None:
        if self.estimator is None:
            return None
        return self.scores[self.estimator]


@dataclass(frozen=True, slots=True)
class ScoredUnits:
    """All units of an answer, the answer itself first."""

    units: tuple[ScoredUnit, ...]
    parts: Parts
    # Of the uncertainties of the parts by the estimator of their kind, or where none has tokens,
    # of all; None where none has any.
    mean: float | None
    greatest: float | None


@dataclass(frozen=True, slots=True)
class Scored:
    """Scores of an answer, and of its parts."""

    # Estimator to its value; None where it has none, for which `reasons` says why.
    scores: Mapping[str, float | None]
    reasons: Mapping[str, str]
    units: ScoredUnits | None = None


def with_readings(parts: Parts, readings: Mapping[Span, ProbeReading]) -> Parts:
    """The parts with what a probe has read of sentences, by their spans."""
    units = []
    for unit in parts.units:
        if unit.kind == "sentence":
            unit = replace(unit, reading=readings.get(unit.spans[0]))
        units.append(unit)
    return replace(parts, units=tuple(units))


def scored(plan: Plan, evidence: Evidence, parts: Parts, on_failure: Callable[..., None]) -> Scored:
    """The scores of the answer, and of its parts where units are wanted."""
    absent = {Unit.PREDICTED: _NO_PROBE, **plan.absent, **evidence.absent}
    statistics = dict(evidence.statistics)
    if isinstance(parts.grounded, str):
        absent["grounded"] = parts.grounded
    elif parts.grounded is not None:
        statistics["grounded"] = parts.grounded
    scores, reasons = score(plan.estimators, statistics, absent, on_failure)
    if plan.ask.units is None:
        return Scored(scores, reasons)
    answer = evidence.subject.answer
    span, tokens = (0, len(answer.text)), np.arange(answer.num_tokens)
    supports = statistics.get("similarity")
    whole = Unit("answer", answer.text, tokens, (span,), supports=supports)
    if answer.token_texts is None:
        unknown = dict.fromkeys(("answer_token_logprobs", "answer_token_entropies"), TOKENS_UNKNOWN)
        absent = {**unknown, **absent}
    names = _names_of_parts(plan, scores)
    others = []
    for unit in parts.units:
        values, why = score(names, *unit.cut(statistics, absent), on_failure)
        estimator = plan.unit_primary
        if not len(unit.tokens) and values.get(OF_SUPPORT) is not None:
            estimator = OF_SUPPORT  # which reads no tokens
        others.append(ScoredUnit(unit, estimator, values, why))
    comparable = [part for part in others if part.estimator == plan.unit_primary] or others
    mean, greatest = summary([part.uncertainty for part in comparable])
    units = (ScoredUnit(whole, plan.primary, scores, reasons), *others)
    return Scored(scores, reasons, ScoredUnits(units, parts, mean, greatest))


def _names_of_parts(plan: Plan, scores: Mapping[str, float | None]) -> list[str]:
    """The estimators of parts without those that the whole answer lacks.

    Its parts lack them, too, and the reason is reported once. A probe reads parts of its own.
    """
    names = []
    for name in plan.unit_estimators:
        is_read = Unit.PREDICTED in needs([name])
        if scores[name] is not None or is_read or name == plan.unit_primary:
            names.append(name)
    return names


def summary(scores: Iterable[float | None]) -> tuple[float | None, float | None]:
    """Mean and greatest score of the units that have one: `units_mean`, `units_max`.

    >>> summary([0.5, None, 1.5])
    (1.0, 1.5)
    """
    known = [score for score in scores if score is not None]
    if not known:
        return None, None
    return float(np.mean(known)), max(known)
