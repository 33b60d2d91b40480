"""Pure: which fields or sentences of an answer are right."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from app.scoring.units import ScoredUnit
from cocoa_lab.judges import Verdict
from cocoa_lab.parts.examples import PartsExample
from models.units.comparison import JsonComparer
from models.units.json_values import Value, parse
from models.units.schemas import rules
from models.units.tool_calls import schema_of


@dataclass(frozen=True, slots=True)
class LabelledParts:
    """The parts of one answer whose labels are known.

    Attributes:
        parts: those.
        verdicts: what each of them is.
        num_lacking: parts that the labels know and the answer lacks.
        judgements: what a model said of each, beside these verdicts by rule; else empty.
    """

    parts: tuple[ScoredUnit, ...]
    verdicts: tuple[Verdict, ...]
    num_lacking: int
    judgements: tuple[Verdict | None, ...] = ()


def fields_labelled(
    one: PartsExample, answer: Value | None, parts: Sequence[ScoredUnit]
) -> LabelledParts:
    """The fields of an answer with their labels, by path or from the reference.

    A field is right that agrees wholly with the reference's value at its place, as samples do with
    the answer (`models.units.comparison`): a string is, that is equal but for white space around
    it. Elements of arrays are matched.

    Args:
        one: with labels or a reference.
        answer: parsed; None where it is no JSON, or calls no tool.
        parts: its fields.
    """
    labels, num_lacking = dict(one.labels), 0
    if answer is None:
        return LabelledParts((), (), len(labels))
    if one.has_reference:
        schema, reference = one.json_schema, one.reference
        if one.tools:
            schema, reference = schema_of(one.tools), _calls(reference)
        comparer = JsonComparer(rules(answer, schema), _never_alike)
        found = comparer.compare(answer, parse(json.dumps(reference)))
        labels = {path: Verdict(agreement == 1) for path, agreement in found.agreements.items()}
        num_lacking = len(found.extra)
    for path in one.ignored:
        labels.pop(path, None)
    verdicts = [labels.pop(part.unit.path or "", None) for part in parts]
    if not one.has_reference:
        num_lacking = len(labels)
    return judged(parts, verdicts, num_lacking)


def sentences_labelled(
    one: PartsExample, answer: str, parts: Sequence[ScoredUnit]
) -> LabelledParts:
    """The sentences of an answer with their labels, by text.

    A label is of the first occurrence of its text behind that of the label before, else of the
    first that has no label of this text, and of each sentence that this overlaps, since others may
    part an answer elsewhere. A sentence is right that has no wrong label.

    Args:
        one: with labels.
        answer: the text.
        parts: its sentences.
    """
    verdicts: list[Verdict | None] = [None] * len(parts)
    num_lacking, behind = 0, 0
    behind_same: dict[str, int] = {}
    for label, verdict in one.labels:
        text = label.strip()
        start = answer.find(text, behind)
        if start < 0:
            start = answer.find(text, behind_same.get(text, 0))
        if start < 0:
            num_lacking += 1
            continue
        behind = behind_same[text] = start + len(text)
        for row, part in enumerate(parts):
            [(begins, ends)] = part.unit.spans
            before = verdicts[row]
            if begins < behind and start < ends and (before is None or before.is_right):
                verdicts[row] = verdict
    return judged(parts, verdicts, num_lacking)


def judged(
    parts: Sequence[ScoredUnit], verdicts: Sequence[Verdict | None], num_lacking: int = 0
) -> LabelledParts:
    """Those parts of which something is known."""
    known = []
    for part, verdict in zip(parts, verdicts, strict=True):
        if verdict is not None:
            known.append((part, verdict))
    return LabelledParts(
        tuple(part for part, _ in known), tuple(verdict for _, verdict in known), num_lacking
    )


def _calls(reference: Any) -> list[Any]:
    """The calls as `models.units.tool_calls.as_value` reads them; none where a text is right."""
    if isinstance(reference, str):
        return []
    return [{"function": one} for one in reference]


def _never_alike(first: str, second: str) -> float:
    """Strings that differ are different things."""
    return 0.0
