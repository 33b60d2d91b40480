"""A unit: a stretch of the answer's tokens, and how far each sample supports what it says."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from models.records import Array, ProbeReading, Span

Kind = Literal["answer", "sentence", "claim", "field"]
# Which of the answer's tokens a unit has, ascending.
Indices = NDArray[np.intp]

# All that a unit other than the answer supplies: an estimator that reads more is not defined for
# it.
UNIT_STATISTICS = frozenset({"answer_token_logprobs", "answer_token_entropies", "similarity"})
# The statistic of a sentence that a probe has read, in the place of samples.
PREDICTED = "predicted_dissimilarity"
_OF_TOKENS = ("answer_token_logprobs", "answer_token_entropies")
NO_TOKENS = "the unit has no tokens"
NOT_READ = "no probe has read the unit"
# A sample denies what it is rather sure to contradict.
_DENIES = 0.5


@dataclass(frozen=True, slots=True)
class Unit:
    """A part of an answer.

    Attributes:
        text: the sentence, the claim, or the JSON text of the value.
        tokens: indices of its tokens among the answer's.
        spans: its places in the answer's text; a claim may have several, or none.
        path: JSON Pointer of a field.
        supports: (M,) in [0, 1], how far each sample says the same; None without samples. For the
            answer it is the similarity.
        contradictions: (M,) in [0, 1], how far each sample denies it; None if not compared.
        reading: of a sentence, what a probe predicts of its `consistency`; None where none reads
            it.
        alternatives: texts of samples in its place, with shares of the samples, the most frequent
            first: of a field their values as JSON, None for having none; of a sentence or claim a
            sentence of each that denies it.
    """

    kind: Kind
    text: str
    tokens: Indices
    spans: tuple[Span, ...] = ()
    path: str | None = None
    supports: Array | None = None
    contradictions: Array | None = None
    reading: ProbeReading | None = None
    alternatives: Mapping[str | None, float] = field(default_factory=dict)


def support(unit: Unit) -> float | None:
    """Mean over the samples, in [0, 1]; None without samples."""
    return _mean(unit.supports)


def contradiction(unit: Unit) -> float | None:
    """Mean over the samples, in [0, 1]; None without samples or if not compared."""
    return _mean(unit.contradictions)


def denied_by(unit: Unit) -> list[int]:
    """The samples that deny it, rather than say it or say nothing of it; empty if not compared."""
    if unit.supports is None or unit.contradictions is None:
        return []
    denies = (unit.contradictions > _DENIES) & (unit.contradictions > unit.supports)
    return [int(i) for i in np.flatnonzero(denies)]


def cut(
    unit: Unit, statistics: Mapping[str, Any], absent: Mapping[str, str] | None = None
) -> tuple[dict[str, Any], dict[str, str]]:
    """The answer's statistics cut to a unit, and the reasons for those that it lacks.

    Both go to `models.estimators.score`, which computes a unit's scores by the answer's formulas.
    `absent` has the reasons why the answer lacks some.
    """
    of_unit: dict[str, Any] = {}
    reasons = dict(absent or {})
    for name in _OF_TOKENS:
        if name not in statistics:
            continue
        if len(unit.tokens):
            of_unit[name] = statistics[name][unit.tokens]
        else:
            reasons.setdefault(name, NO_TOKENS)
    if unit.supports is not None:
        of_unit["similarity"] = unit.supports
    if unit.reading is not None:
        of_unit[PREDICTED] = unit.reading.value
    else:
        reasons[PREDICTED] = NOT_READ
    return of_unit, reasons


def summary(scores: Iterable[float | None]) -> tuple[float | None, float | None]:
    """Mean and greatest score of the units that have one: `units_mean`, `units_max`.

    >>> summary([0.5, None, 1.5])
    (1.0, 1.5)
    """
    known = [score for score in scores if score is not None]
    if not known:
        return None, None
    return float(np.mean(known)), max(known)


def _mean(values: Array | None) -> float | None:
    if values is None or not len(values):
        return None
    return float(values.mean())
