"""Distance of features from a training set: a Gaussian with a low-rank precision, in numpy."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Self

import numpy as np

from models.records import Array

# Above this percentile of held-out rows an answer counts as out of the probe's domain.
DOMAIN_PERCENTILE = 99.0


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

    def of(self, features: Array) -> Array:
        """Distances (N,) of rows (N, d)."""
        centred = features - self.mean
        along = centred @ self.components.T  # (N, r)
        residual = np.maximum((centred**2).sum(axis=1) - (along**2).sum(axis=1), 0.0)
        squared = (along**2 / self.variances).sum(axis=1) + residual / self.residual_variance
        distances: Array = np.sqrt(squared)
        return distances

    def percentile(self, features: Array) -> Array:
        """Percentiles (N,) in [0, 100] of rows (N, d) among the held-out rows."""
        values: Array = np.interp(self.of(features), self.percentiles, np.arange(101.0))
        return values

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> Self:
        """A distance from arrays of its fields, by name, in float32."""
        return cls(*(arrays[field.name].astype(np.float64) for field in fields(cls)))
