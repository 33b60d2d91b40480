"""The contract of every pair model.

tests/contract/test_pair_models.py runs on each implementation.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, Protocol

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray

from models.records import Array, Pair

Dtype = Literal["float32", "bfloat16", "float16"]
NLI_LABELS = ("entailment", "neutral", "contradiction")


@dataclass(frozen=True, slots=True)
class SimilarityConfig:
    """Settings of similarity."""

    # The default similarity function, a key of `models.similarity.PAIR_MODELS`, or, where an NLI
    # model is loaded, `OVER_NLI`; "auto" is what `model` is, a cross-encoder or an embedding
    # model, but "added" where that would be the embedded cross-encoder beside a language model
    # that it does not know.
    name: str = "auto"
    # Hugging Face id, local path, or "embedded" for the model that ships with the project.
    model: str = "embedded"
    # Whether `model` reads answers whole, or what they add to their question; "auto" is whole for
    # a cross-encoder and added for an embedding model.
    compare: Literal["auto", "added", "whole"] = "auto"
    revision: str | None = None
    dtype: Dtype = "float32"
    device: str = "auto"
    strip: bool = True  # whether blanks around texts are removed before they are compared
    # Whether equal texts score 1, and an empty text against another 0, without a model call.
    exact_match: bool = True
    max_batch_pairs: Annotated[int, Ge(1)] = 256  # pairs of all requests scored in one call
    threads: Annotated[int, Ge(0)] = 0  # intra-op, of all pair models; 0: as the language model


@dataclass(frozen=True, slots=True)
class NliConfig:
    """Settings of the natural language inference model."""

    name: str = "nli"  # key of `models.similarity.NLI_MODELS`
    # As in `SimilarityConfig`; "auto" is the embedded one beside embedded language models only.
    model: str = "auto"
    # What the similarity function "nli" is: p(entailment), or 1 - p(contradiction).
    similarity: Literal["entailment", "contradiction"] = "entailment"
    revision: str | None = None
    dtype: Dtype = "float32"
    device: str = "auto"


@dataclass(frozen=True, slots=True)
class PairScores:
    """Scores of N ordered text pairs by one pair model with K labels.

    Attributes:
        values: (N, K) probabilities in [0, 1].
        truncated: (N,) True where the pair exceeded the model's input length and was cut.
    """

    values: Array
    truncated: NDArray[np.bool_]


class PairModel(Protocol):
    """A model of ordered text pairs; its calls block."""

    model_id: str  # id or name without a local path
    # Names the weights exactly; None for a function of two texts, which has none.
    revision: str | None
    labels: tuple[str, ...]  # names of the K values of a pair
    max_length: int | None  # tokens of a pair beyond which it is cut; None where nothing is
    flags: tuple[str, ...]  # whatever else decides its scores, such as the precision of its weights

    def score(self, pairs: Sequence[Pair]) -> PairScores:
        """Scores in the order of `pairs`. A pair's score does not depend on the others."""

    def fit_contexts(self, texts: Sequence[Pair]) -> list[str]:
        """For each (context, text) the longest right part of the context that fits.

        It fits where a pair of two texts `context + " " + text` is not cut.
        """


class NliPairModel(PairModel, Protocol):
    """A `PairModel` of natural language inference, with `NLI_LABELS`."""

    def token_ends(self, texts: Sequence[str]) -> list[list[int]]:
        """For each text the character behind each of its tokens, in their order."""
