"""Rows matched one to one with columns, so that the sum of their weights is largest."""

import numpy as np
from numpy.typing import NDArray

from models.records import Array


def assign(weights: Array) -> list[tuple[int, int]]:
    """Pairs (row, column), as many as the shorter side has, of the largest sum of weights.

    Shortest augmenting paths, Crouse 2016: the algorithm of scipy's linear_sum_assignment, which
    the gateway does not install. O(R^2 C), the innermost loop in numpy.

    Args:
        weights: (R, C), finite.

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
