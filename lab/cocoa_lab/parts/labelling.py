"""Pure: which fields of an answer are right."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from app.scoring.units import ScoredUnit
from cocoa_lab.parts.examples import PartsExample
from models.units.comparison import Comparer
from models.units.json_values import Value, parse
from models.units.schemas import rules


@dataclass(frozen=True, slots=True)
class LabelledParts:
    """The fields of one answer whose labels are known.

    Attributes:
        parts: those.
        correct: 1 or 0 of each.
        num_lacking: fields that the labels know and the answer lacks.
    """

    parts: tuple[ScoredUnit, ...]
    correct: tuple[float, ...]
    num_lacking: int


def labelled(one: PartsExample, answer: Value | None, parts: Sequence[ScoredUnit]) -> LabelledParts:
    """The fields of an answer with their labels, by path or from the reference.

    A field is right that agrees wholly with the reference's value at its place, as samples do with
    the answer (`models.units.comparison`): a string is, that is equal but for white space around
    it. Elements of arrays are matched.

    Args:
        one: with labels or a reference.
        answer: parsed; None where it is no JSON.
        parts: its fields.
    """
    labels, num_lacking = dict(one.labels), 0
    if answer is None:
        return LabelledParts((), (), len(labels))
    if one.has_reference:
        comparer = Comparer(rules(answer, one.json_schema), _never_alike)
        found = comparer.compare(answer, parse(json.dumps(one.reference)))
        labels = {path: agreement == 1 for path, agreement in found.agreements.items()}
        num_lacking = len(found.extra)
    for path in one.ignored:
        labels.pop(path, None)
    kept, correct = [], []
    for part in parts:
        path = part.unit.path or ""
        if path in labels:
            kept.append(part)
            correct.append(float(labels.pop(path)))
    if not one.has_reference:
        num_lacking = len(labels)
    return LabelledParts(tuple(kept), tuple(correct), num_lacking)


def _never_alike(first: str, second: str) -> float:
    """Strings that differ are different things."""
    return 0.0
