"""Pure: similarity of two texts by their embeddings."""

import numpy as np

from models.records import Array

# Answers of which no two mean the same, in the forms that answers have, whatever their question.
UNLIKE = (
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
# Cosine of such texts beyond which an encoder distinguishes no texts.
_MOST_FLOOR = 0.99
_DIGITS = 3


def floor_of(vectors: Array) -> float:
    """Mean cosine of vectors (N, d) of `UNLIKE`, which counts as no similarity at all.

    Encoders differ in it: .1 for some, .7 for others. Rounded, so that it is the same on machines
    whose sums differ in their last digits. Vectors of zeros, which have no cosine, are left out.

    Raises:
        ValueError: the encoder distinguishes no texts, or no two vectors are left.
    """
    unit = _of_length_one(vectors[np.linalg.norm(vectors, axis=1) > 0])
    floor = 1.0
    if len(unit) >= 2:
        cosines = (unit @ unit.T)[np.triu_indices(len(unit), k=1)]
        floor = round(max(0.0, float(cosines.mean())), _DIGITS)
    if floor > _MOST_FLOOR:
        raise ValueError("makes the same vector of texts that mean different things")
    return floor


def vector_similarity(a: Array, b: Array, floor: float) -> Array:
    """Cosines of vectors (N, d) and (N, d), stretched so that the floor is 0 and equal texts 1.

    (N,) in [0, 1]; what is less alike than unlike texts is 0. NaN where a vector is zeros, as some
    encoders make of a text of which they know no word: it is like nothing, and unlike nothing.

    >>> vector_similarity(np.eye(2), np.array([[1.0, 0.0], [1.0, 1.0]]), 0.5).round(3).tolist()
    [1.0, 0.414]
    """
    cosines = (_of_length_one(a) * _of_length_one(b)).sum(axis=1)
    stretched: Array = np.clip((cosines - floor) / (1.0 - floor), 0.0, 1.0)
    return stretched


def _of_length_one(vectors: Array) -> Array:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: Array = vectors / np.where(lengths == 0, np.nan, lengths)
    return unit
