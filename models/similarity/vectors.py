"""Pure: similarity of two texts by their embeddings."""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from models.records import Array

# Cosine of texts that mean different things, beyond which an encoder distinguishes none.
_MOST_FLOOR = 0.99
_DIGITS = 3


@dataclass(frozen=True, slots=True)
class Cosines:
    """Cosines of the embeddings of one encoder, as similarities."""

    # Answers of which no two mean the same, whatever their question.
    UNLIKE: ClassVar = (
        "Lima",
        "Wolfgang Amadeus Mozart",
        "42",
        "on 8 May 1945",
        "Kupfer",
        "yes",
        "blue whale",
        "la photosynthèse",
        "東京",
        "Take 15 mg twice a day.",
        "The bridge was built by two brothers from Ghent.",
        "Es wird morgen regnen.",
        "Los precios bajan cuando nadie compra.",
        "She studied law before she became a judge.",
        "Water boils at 100 degrees Celsius.",
        "The function returns a sorted list of its arguments.",
    )

    floor: float  # mean cosine of such texts, which counts as no similarity at all

    @classmethod
    def of(cls, unlike: Array) -> Self:
        """Those of the encoder that makes the vectors (N, d) of `UNLIKE`.

        The floor is .1 for some, .7 for others; rounded, as sums differ in their last digits among
        machines. Vectors of zeros have no cosine. Raises `ValueError` where the encoder
        distinguishes no texts, or no two vectors are left.
        """
        unit = _of_length_one(unlike[np.linalg.norm(unlike, axis=1) > 0])
        floor = 1.0
        if len(unit) >= 2:
            cosines = (unit @ unit.T)[np.triu_indices(len(unit), k=1)]
            floor = round(max(0.0, float(cosines.mean())), _DIGITS)
        if floor > _MOST_FLOOR:
            raise ValueError("makes the same vector of texts that mean different things")
        return cls(floor)

    def between(self, a: Array, b: Array) -> Array:
        """(N,) in [0, 1] of vectors (N, d) and (N, d): 0 from the floor down, 1 of equal texts.

        NaN where a vector is zeros, as some encoders make of a text of which they know no word.

        >>> Cosines(0.5).between(np.eye(2), np.array([[1.0, 0.0], [1.0, 1.0]])).round(3).tolist()
        [1.0, 0.414]
        """
        cosines = (_of_length_one(a) * _of_length_one(b)).sum(axis=1)
        stretched: Array = np.clip((cosines - self.floor) / (1.0 - self.floor), 0.0, 1.0)
        return stretched


def _of_length_one(vectors: Array) -> Array:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: Array = vectors / np.where(lengths == 0, np.nan, lengths)
    return unit
