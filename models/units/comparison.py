"""Agreement of a sample's JSON with the answer's, leaf by leaf."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import starmap
from typing import Any
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from models.records import Array
from models.units.json_values import Value, escaped, json_type, leaves
from models.units.schemas import Rule
from models.units.steps import WorkBudget

# Similarity of two stripped strings that differ and are not empty: symmetric, in [0, 1].
Similarity = Callable[[str, str], float]

# Leaves of an array times those of its counterpart, over all samples. Beyond it elements are
# compared in their order: matching them would take seconds.
MAX_LEAF_PAIRS = 2**17
# The most that an element loses for a partner far from its place: less than any disagreement.
_DISTANCE_WEIGHT = 1e-6


@dataclass(frozen=True, slots=True)
class Comparison:
    """An answer, or a part of it, beside one sample."""

    # In [0, 1], by path of the answer's leaves.
    agreements: dict[str, float] = field(default_factory=dict)
    # The sample's values there, where it has any.
    values: dict[str, Value] = field(default_factory=dict)
    # Values of the sample that the answer lacks, by path; elements of arrays are `-`.
    extra: dict[str, Value] = field(default_factory=dict)

    def add(self, other: "Comparison") -> None:
        self.agreements.update(other.agreements)
        self.values.update(other.values)
        self.extra.update(other.extra)

    def mean(self) -> float:
        return sum(self.agreements.values()) / len(self.agreements)


@dataclass(frozen=True, slots=True)
class JsonComparer:
    """Compares one answer, whose rules these are, with its samples."""

    rules: Mapping[str, Rule]
    similarity: Similarity
    # Of two arrays whose elements are matched; those of larger ones are compared in their order.
    max_leaf_pairs: int = MAX_LEAF_PAIRS
    steps: WorkBudget = field(default_factory=WorkBudget)  # that the comparisons may take

    def compare(self, answer: Value, sample: Value | None, path: str = "") -> Comparison:
        """The answer's part at a path beside its counterpart in a sample, if that has one."""
        self.steps.take()
        comparison = Comparison()
        if answer.is_leaf():
            comparison.agreements[path] = self._agreement(answer, sample, path)
            if sample:
                comparison.values[path] = sample
            return comparison
        counterpart = type(answer.content)()
        if sample and isinstance(sample.content, type(counterpart)):
            counterpart = sample.content
        if isinstance(counterpart, list):
            return self._compare_elements(answer.content, counterpart, path)
        for key, member in answer.content.items():
            comparison.add(self.compare(member, counterpart.get(key), f"{path}/{escaped(key)}"))
        for key, member in counterpart.items():
            if key not in answer.content:
                comparison.extra.update(leaves(member, f"{path}/{escaped(key)}"))
        return comparison

    def _compare_elements(
        self, elements: Sequence[Value], partners: Sequence[Value], path: str
    ) -> Comparison:
        """Elements matched one to one so that they agree most, near their order where equal."""
        length = max(len(elements), len(partners))
        table: dict[tuple[int, int], Comparison] = {}

        def weight(i: int, j: int) -> float:
            if (i, j) not in table:
                table[i, j] = self.compare(elements[i], partners[j], f"{path}/{i}")
            return table[i, j].mean() - _DISTANCE_WEIGHT * ((i - j) / length) ** 2

        pairs = list(zip(range(len(elements)), range(len(partners)), strict=False))
        agree_in_order = sum(starmap(weight, pairs)) == length
        num_leaf_pairs = _num_leaves(elements) * _num_leaves(partners)
        if not agree_in_order and num_leaf_pairs <= self.max_leaf_pairs:
            weights = np.zeros((len(elements), len(partners)))
            self.steps.take(weights.size)
            for pair in np.ndindex(weights.shape):
                weights[pair] = weight(*pair)
            pairs = assign(weights)
        comparison = Comparison()
        for pair in pairs:
            comparison.add(table[pair])
        partner_of = dict(pairs)
        for i in set(range(len(elements))) - partner_of.keys():
            comparison.add(self.compare(elements[i], None, f"{path}/{i}"))
        for j in set(range(len(partners))).difference(partner_of.values()):
            comparison.extra.update(leaves(partners[j], f"{path}/-"))
        return comparison

    def _agreement(self, leaf: Value, value: Value | None, path: str) -> float:
        """The agreement of a sample's value with a leaf of the answer, in [0, 1]."""
        if value is None or json_type(leaf.content) != json_type(value.content):
            return 0.0
        rule = self.rules.get(path, Rule())
        ours, others = leaf.content, value.content
        if isinstance(ours, str):
            ours, others = normalize("NFC", ours.strip()), normalize("NFC", others.strip())
            if ours and others and ours != others and not rule.exact:
                return self.similarity(ours, others)
        if ours == others:
            return 1.0
        if json_type(ours) == "number" and rule.tolerance:
            return float(_is_near(ours, others, rule.tolerance))
        return 0.0


def _is_near(first: Any, second: Any, tolerance: float) -> bool:
    try:
        return math.isclose(first, second, rel_tol=tolerance)
    except OverflowError:  # an integer that no float can hold
        return False


def _num_leaves(values: Iterable[Value]) -> int:
    return sum(len(list(leaves(value))) for value in values)


def assign(weights: Array) -> list[tuple[int, int]]:
    """Pairs (row, column) of finite weights (R, C), min(R, C) of them, with the largest sum.

    Shortest augmenting paths, Crouse 2016: the algorithm of scipy's linear_sum_assignment, which
    the gateway does not install. O(R^2 C), the innermost loop in numpy.

    >>> assign(np.array([[0.9, 1.0, 0.0], [0.1, 0.8, 0.0]]))
    [(0, 0), (1, 1)]
    """
    num_rows, num_columns = weights.shape
    if num_rows > num_columns:
        return sorted((row, column) for column, row in assign(weights.T))
    costs = -weights
    row_prices, column_prices = np.zeros(num_rows), np.zeros(num_columns)
    column_of, row_of = np.full(num_rows, -1), np.full(num_columns, -1)
    for row in range(num_rows):
        _match(row, costs, row_prices, column_prices, column_of, row_of)
    return list(enumerate(column_of.tolist()))


def _match(
    new: int,
    costs: Array,
    row_prices: Array,
    column_prices: Array,
    column_of: NDArray[np.int_],
    row_of: NDArray[np.int_],
) -> None:
    """Match one more row, along the cheapest path from it to a column that is free."""
    distances, came_from = np.full(len(row_of), np.inf), np.full(len(row_of), -1)
    is_reached = np.zeros(len(row_of), bool)
    row, distance = new, 0.0
    while row >= 0:
        onward = distance + costs[row] - row_prices[row] - column_prices
        is_nearer = ~is_reached & (onward < distances)
        distances[is_nearer], came_from[is_nearer] = onward[is_nearer], row
        column = int(np.where(is_reached, np.inf, distances).argmin())
        distance, is_reached[column], row = distances[column], True, row_of[column]
    passed = is_reached & (row_of >= 0)
    slack = distance - distances[passed]
    row_prices[new] += distance
    row_prices[row_of[passed]] += slack
    column_prices[passed] -= slack
    while row != new:
        row = came_from[column]
        row_of[column] = row
        column_of[row], column = column, column_of[row]
