"""The fields of a JSON answer, and how far each sample has the same value at the same place."""

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, product
from typing import Any

import numpy as np

from models.records import Pair
from models.units.assignment import assign
from models.units.characters import TokenSpans, overlapping
from models.units.json_values import Value, escaped, json_type, leaves
from models.units.schemas import Rule, rules
from models.units.unit import Unit

# Of two stripped strings that differ and are not empty: symmetric, in [0, 1].
Similarity = Callable[[str, str], float]

# Leaves of one array times those of the other. Beyond it elements are compared in their order:
# matching them would take seconds.
MAX_LEAF_PAIRS = 2**16
# What an element loses, at most, for a partner far from its place: less than any disagreement.
_DISTANCE_WEIGHT = 1e-6


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
) -> tuple[list[Unit], dict[str, float]]:
    """Fields with what each of M samples says of them, and what the answer lacks, with its share.

    Args:
        units: the fields of the answer.
        answer: parsed.
        samples: None for one that is no JSON, which agrees with nothing.
        schema: that the answer follows; true where there is none.
        similarity: known for all of `string_pairs`.

    Raises:
        BadSchema: see `rules`.
    """
    comparer = Comparer(rules(answer, schema), similarity)
    comparisons = [comparer.compare(answer, sample) for sample in samples]
    changed = []
    for unit in units:
        path = unit.path or ""
        supports = np.array([one.agreements[path] for one in comparisons])
        shown = [_shown(one.values.get(path)) for one in comparisons]
        changed.append(replace(unit, supports=supports, alternatives=_shares(shown, len(samples))))
    extra = chain.from_iterable(one.extra for one in comparisons)
    return changed, _shares(extra, len(samples))


def string_pairs(answer: Value, samples: Iterable[Value | None], schema: object) -> list[Pair]:
    """All pairs of strings whose similarity `compared` may read, each once, in sorted order."""
    asked: dict[Pair, None] = {}

    def ask(first: str, second: str) -> float:
        asked[min(first, second), max(first, second)] = None
        return 0.0

    comparer = Comparer(rules(answer, schema), ask)
    for sample in samples:
        comparer.compare(answer, sample)
    return list(asked)


@dataclass(frozen=True, slots=True)
class Comparison:
    """An answer, or a part of it, beside one sample.

    Attributes:
        agreements: in [0, 1], by path of the answer's leaves.
        values: the sample's values there, where it has any.
        extra: what the sample has and the answer lacks, by path; elements of arrays are `-`.
    """

    agreements: dict[str, float] = field(default_factory=dict)
    values: dict[str, Value] = field(default_factory=dict)
    extra: dict[str, Value] = field(default_factory=dict)

    def add(self, other: "Comparison") -> None:
        self.agreements.update(other.agreements)
        self.values.update(other.values)
        self.extra.update(other.extra)

    def mean(self) -> float:
        return sum(self.agreements.values()) / len(self.agreements)


@dataclass(frozen=True, slots=True)
class Comparer:
    """Compares an answer with samples by the answer's rules."""

    rules: Mapping[str, Rule]
    similarity: Similarity

    def compare(self, answer: Value, sample: Value | None, path: str = "") -> Comparison:
        """The answer's part at a path beside its counterpart in the sample, if it has one."""
        members, found = answer.members(), Comparison()
        if answer.elements():
            return self._compare_elements(answer.elements(), sample, path)
        if not members:
            found.agreements[path] = self.agreement(answer, sample, path)
            if sample:
                found.values[path] = sample
            return found
        theirs = sample.members() if sample else {}
        for key, member in members.items():
            found.add(self.compare(member, theirs.get(key), f"{path}/{escaped(key)}"))
        for key, value in theirs.items():
            if key not in members:
                found.extra.update(leaves(value, f"{path}/{escaped(key)}"))
        return found

    def _compare_elements(
        self, elements: Sequence[Value], sample: Value | None, path: str
    ) -> Comparison:
        """Elements matched one to one, so that they agree most; by distance where that is equal."""
        partners = sample.elements() if sample else []
        length = max(len(elements), len(partners))
        pairs = [(i, i) for i in range(min(len(elements), len(partners)))]
        table: dict[tuple[int, int], Comparison] = {}

        def weight(i: int, j: int) -> float:
            if (i, j) not in table:
                table[i, j] = self.compare(elements[i], partners[j], f"{path}/{i}")
            return table[i, j].mean() - _DISTANCE_WEIGHT * ((i - j) / length) ** 2

        total = sum(weight(*pair) for pair in pairs)
        if total < length and _num_leaves(elements) * _num_leaves(partners) <= MAX_LEAF_PAIRS:
            every = product(range(len(elements)), range(len(partners)))
            weights = np.array([weight(*pair) for pair in every])
            pairs = assign(weights.reshape(len(elements), len(partners)))
        found = Comparison()
        for pair in pairs:
            found.add(table[pair])
        matched = dict(pairs)
        partners_matched = set(matched.values())
        for i, element in enumerate(elements):
            if i not in matched:
                found.add(self.compare(element, None, f"{path}/{i}"))
        for j, partner in enumerate(partners):
            if j not in partners_matched:
                found.extra.update(leaves(partner, f"{path}/-"))
        return found

    def agreement(self, leaf: Value, value: Value | None, path: str) -> float:
        """How far a sample's value says the same as a leaf of the answer, in [0, 1]."""
        if value is None or json_type(leaf.content) != json_type(value.content):
            return 0.0
        rule = self.rules.get(path, Rule())
        ours, theirs = leaf.content, value.content
        if isinstance(ours, str) and isinstance(theirs, str):
            ours, theirs = ours.strip(), theirs.strip()
            if ours and theirs and ours != theirs and not rule.exact:
                return self.similarity(ours, theirs)
        if ours == theirs:
            return 1.0
        if json_type(ours) == "number" and rule.tolerance:
            return float(_is_near(ours, theirs, rule.tolerance))
        return 0.0


def _is_near(first: Any, second: Any, tolerance: float) -> bool:
    try:
        return math.isclose(first, second, rel_tol=tolerance)
    except OverflowError:  # an integer that no float can hold
        return False


def _num_leaves(values: Iterable[Value]) -> int:
    return sum(len(list(leaves(value))) for value in values)


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


def _shares(values: Iterable[Any], count: int) -> dict[Any, float]:
    """How often each occurs, as a share of `count`; the most frequent first."""
    return {value: number / count for value, number in Counter(values).most_common()}
