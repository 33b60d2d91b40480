"""Distance of states from a training set or from the prompts of a calibration, in numpy."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from io import BytesIO
from pathlib import Path
from typing import Self
from zipfile import BadZipFile

import numpy as np

from models.errors import ModelNotLoaded
from models.records import Array

# Above this percentile of held-out rows an answer counts as out of the probe's domain.
DOMAIN_PERCENTILE = 99.0
# Of the file of prompts.
FORMAT = 1


@dataclass(frozen=True, slots=True)
class Distance:
    """Mahalanobis distance under probabilistic PCA (Tipping and Bishop 1999)."""

    mean: Array  # (d,)
    components: Array  # (r, d), orthonormal rows, r <= 64
    variances: Array  # (r,) along the components
    residual_variance: Array  # () of each other direction
    percentiles: Array  # (101,) distances of held-out rows at 0 … 100 %

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


@dataclass(frozen=True, slots=True)
class PromptDomain:
    """Distances from the kinds of prompts that a calibration had."""

    generator: str  # identity of the language model whose states they are
    layer: int  # k of Hugging Face's `hidden_states[k]`, read at a prompt's last token
    # One a kind of prompts, with percentiles of held-out ones of that kind.
    kinds: tuple[Distance, ...]
    sha256: str = ""  # of its file

    def percentile(self, state: Array) -> float:
        """Percentile in [0, 100] of a state (d,) among held-out prompts of the nearest kind.

        A prompt is of the domain where it is like one kind, so at most about 1 % of the
        calibration's own prompts lie beyond the 99th.
        """
        return min(float(kind.percentile(state[None])[0]) for kind in self.kinds)

    def is_foreign(self, state: Array) -> bool:
        """True where a state (d,) lies beyond the 99th percentile of every kind; NaN does."""
        return not 0 <= self.percentile(state) <= DOMAIN_PERCENTILE

    @classmethod
    def load(cls, path: Path, sha256: str) -> Self:
        """The prompts of a calibrator that names this digest of their file.

        Raises:
            ModelNotLoaded: there is no such file, or another one.
        """
        try:
            content = path.read_bytes()
            if hashlib.sha256(content).hexdigest() != sha256:
                raise ModelNotLoaded(f"{path.name} is not the file that the calibrator names")
            with np.load(BytesIO(content)) as file:
                arrays = dict(file)
            generator, layer = str(arrays.pop("generator")), int(arrays.pop("layer"))
            if (version := int(arrays.pop("format"))) != FORMAT:
                raise ValueError(f"format {version}, not {FORMAT}")
            kinds: dict[str, dict[str, Array]] = {}
            for name, array in arrays.items():
                number, _, field = name.partition(".")
                kinds.setdefault(number, {})[field] = array
            if not kinds:
                raise ValueError("no kinds")
            distances = tuple(map(Distance.from_arrays, kinds.values()))
            return cls(generator, layer, distances, sha256)
        except (OSError, EOFError, ValueError, TypeError, LookupError, BadZipFile) as error:
            raise ModelNotLoaded(f"{path.name} holds no prompts of calibration: {error}") from error


def beside(calibrator: Path) -> Path:
    return calibrator.with_suffix(".prompts.npz")
