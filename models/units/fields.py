"""The fields of a JSON answer, what samples say of them, and the answer without some of them."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from models.units.characters import TokenSpans, overlapping
from models.units.comparison import MAX_LEAF_PAIRS, JsonComparer, Similarity
from models.units.json_values import Value, leaves
from models.units.schemas import rules
from models.units.steps import WorkBudget
from models.units.unit import Unit


def fields(answer: Value, text: str, tokens: TokenSpans) -> list[Unit]:
    """The leaves of a JSON answer as its units, with the `text` and `tokens` of that answer."""
    units = []
    for path, leaf in leaves(answer):
        start, end = leaf.span
        indices = overlapping(tokens, [leaf.span])
        units.append(Unit("field", text[start:end], indices, (leaf.span,), path))
    return units


def compared(
    units: Iterable[Unit],
    answer: Value,
    samples: Sequence[Value | None],
    schema: object,
    similarity: Similarity,
    steps: WorkBudget | None = None,
) -> tuple[list[Unit], dict[str, float]]:
    """Fields with their support by each of M samples; values that the answer lacks, with shares.

    A sample that is no JSON is None, and agrees with nothing; equal ones that are one object are
    compared once. The schema is true where there is none.
    """
    steps = steps or WorkBudget()
    distinct = {id(sample): sample for sample in samples}
    most = MAX_LEAF_PAIRS // max(1, len(distinct))
    comparer = JsonComparer(rules(answer, schema, steps), similarity, most, steps)
    if not samples:
        return list(units), {}
    by_id = {name: comparer.compare(answer, sample) for name, sample in distinct.items()}
    comparisons = [by_id[id(sample)] for sample in samples]
    changed = []
    for unit in units:
        path = unit.path or ""
        supports, values = np.zeros(len(samples)), Counter[str | None]()
        for i, comparison in enumerate(comparisons):
            supports[i] = comparison.agreements[path]
            values[_shown(comparison.values.get(path))] += 1
        alternatives = {value: count / len(samples) for value, count in values.most_common()}
        changed.append(replace(unit, supports=supports, alternatives=alternatives))
    extra = Counter[str]()
    for comparison in comparisons:
        extra.update(comparison.extra.keys())
    return changed, {path: count / len(samples) for path, count in extra.most_common()}


def without(text: str, units: Iterable[Unit]) -> str:
    """The text of a JSON answer with null in place of the values of these fields of it.

    >>> from models.units.characters import spans_of_texts
    >>> from models.units.json_values import parse
    >>> without('{"km": 7}', fields(parse('{"km": 7}'), '{"km": 7}', spans_of_texts(())))
    '{"km": null}'
    """
    for start, end in sorted((unit.spans[0] for unit in units), reverse=True):
        text = f"{text[:start]}null{text[end:]}"
    return text


def _shown(value: Value | None) -> str | None:
    """A value as JSON; the same for values that are equal: 5 and 5.0, strings once stripped."""
    if value is None:
        return None
    plain = value.plain()
    if isinstance(plain, str):
        plain = plain.strip()
    if isinstance(plain, float) and plain.is_integer():
        plain = int(plain)
    return json.dumps(plain, ensure_ascii=False, sort_keys=True)
