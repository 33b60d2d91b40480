"""How far features lie from a training set: a Gaussian with a low-rank precision, in numpy."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from models.records import Array

MAX_COMPONENTS = 64
# Above this percentile of held-out rows an answer counts as out of the probe's domain.
DOMAIN_PERCENTILE = 99.0
_NAMES = ("mean", "components", "variances", "residual_variance", "percentiles")


@dataclass(frozen=True, slots=True)
class Distance:
    """Mahalanobis distance under probabilistic PCA (Tipping and Bishop 1999).

    Attributes:
        mean: (d,).
        components: (r, d), orthonormal rows, r <= 64.
        variances: (r,) along the components.
        residual_variance: () of each other direction.
        percentiles: (101,) distances of held-out rows at 0 … 100 %.
    """

    mean: Array
    components: Array
    variances: Array
    residual_variance: Array
    percentiles: Array

    @classmethod
    def fit(cls, training: Array, held_out: Array) -> Self:
        """From rows (N, d) of the training set, and percentiles from rows (K, d) of none of it."""
        mean = training.mean(axis=0, dtype=np.float64)
        _, singular, rows = np.linalg.svd(training - mean, full_matrices=False)
        variances = singular**2 / max(1, len(training) - 1)
        rank = min(MAX_COMPONENTS, int((variances > 1e-10 * max(variances[0], 1e-300)).sum()) or 1)
        others = training.shape[1] - rank
        floor = max(
            1e-6 * variances[0], 1e-12
        )  # a direction that never varied must not decide alone
        residual = max(variances[rank:].sum() / others, floor) if others else np.inf
        along = np.maximum(variances[:rank], floor)
        fitted = cls(mean, rows[:rank], along, np.array(residual), np.zeros(101))
        return replace(fitted, percentiles=np.percentile(fitted.of(held_out), np.arange(101)))

    def of(self, features: Array) -> Array:
        """Distances (N,) of rows (N, d)."""
        centred = features - self.mean
        along = centred @ self.components.T  # (N, r)
        residual = (centred**2).sum(axis=1) - (along**2).sum(axis=1)
        squared = (along**2 / self.variances).sum(axis=1) + np.maximum(
            residual, 0.0
        ) / self.residual_variance
        distances: Array = np.sqrt(squared)
        return distances

    def percentile(self, features: Array) -> Array:
        """Percentiles (N,) in [0, 100] of rows (N, d) among the held-out rows."""
        values: Array = np.interp(self.of(features), self.percentiles, np.arange(101.0))
        return values

    def arrays(self) -> dict[str, Array]:
        """Named arrays, as `from_arrays` takes them."""
        return {name: np.asarray(getattr(self, name), dtype=np.float32) for name in _NAMES}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> Self:
        """What `arrays` gave."""
        return cls(*(arrays[name].astype(np.float64) for name in _NAMES))
