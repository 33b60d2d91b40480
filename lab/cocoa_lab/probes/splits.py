"""Which rows train, choose and measure, and where semantic entropy counts as high."""

import hashlib
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from models.records import Array

Split = Literal["training", "validation", "test"]
Indices = NDArray[np.intp]

MIN_ROWS = 40
_SHARES: tuple[Split, ...] = ("validation", "test", *("training",) * 8)


def split_of(row_id: str) -> Split:
    """The split of a row: eight tenths train, one validates, one tests.

    Validation chooses layer and epoch. A hash of the id decides, so that more rows move none.
    """
    return _SHARES[int.from_bytes(hashlib.sha256(row_id.encode()).digest()[:4]) % len(_SHARES)]


def rows_by_split(ids: Sequence[str]) -> dict[Split, Indices]:
    """Indices of each split's rows.

    Raises:
        ValueError: too few rows.
    """
    if len(ids) < MIN_ROWS:
        raise ValueError(f"{len(ids)} answers are too few to train on, {MIN_ROWS} are the least")
    splits = np.array(list(map(split_of, ids)))
    rows: dict[Split, Indices] = {
        "training": np.flatnonzero(splits == "training"),
        "validation": np.flatnonzero(splits == "validation"),
        "test": np.flatnonzero(splits == "test"),
    }
    for name, index in rows.items():
        if len(index) < 2:
            raise ValueError(f"too few answers: the {name} split has fewer than 2")
    return rows


def best_split(values: Array) -> float:
    """Threshold in nats that minimises the squared error within the two groups it makes.

    Kossen et al. 2024.

    values: (N,). Values above it are high.

    >>> import numpy as np
    >>> best_split(np.array([0.0, 0.1, 0.2, 2.0, 2.2]))
    1.1

    Raises:
        ValueError: the values do not vary.
    """
    ordered = np.sort(values)
    counts = np.arange(1, len(ordered))
    below, below_squared = np.cumsum(ordered)[:-1], np.cumsum(ordered**2)[:-1]
    above, above_squared = ordered.sum() - below, (ordered**2).sum() - below_squared
    errors = below_squared - below**2 / counts + above_squared - above**2 / (len(ordered) - counts)
    errors[ordered[:-1] == ordered[1:]] = np.inf  # equal values cannot be told apart
    if not np.isfinite(errors).any():
        raise ValueError("the targets do not vary: there is no split")
    best = int(errors.argmin())
    return float((ordered[best] + ordered[best + 1]) / 2)
