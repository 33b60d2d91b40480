"""Similarities without weights: ROUGE-L and Jaccard."""

from collections.abc import Callable, Sequence
from typing import Self

import numpy as np

from models.estimators.overlap import rouge_l_f, word_stems
from models.records import Pair, PairScores
from models.similarity.protocol import ContextAndText, PairModel, SimilarityConfig


def rouge_l(a: str, b: str) -> float:
    """F1 of the longest common subsequence of word stems. Lin 2004."""
    return rouge_l_f(word_stems(a), word_stems(b))


def jaccard(a: str, b: str) -> float:
    """Common share of the lower-cased words between blanks; 1 for two texts without any.

    >>> jaccard("It is Paris", "it is Rome")
    0.5
    """
    first, second = set(a.lower().split()), set(b.lower().split())
    return len(first & second) / len(first | second) if first | second else 1.0


class LexicalModel:
    """A similarity function of two texts as a pair model."""

    labels: tuple[str, ...] = ("similarity",)
    revision: str | None = None
    max_length: int | None = None
    flags: tuple[str, ...] = ()

    def __init__(self, function: Callable[[str, str], float]) -> None:
        self.model_id = function.__name__
        self._function = function

    def score(self, pairs: Sequence[Pair]) -> PairScores:
        """See `PairModel.score`."""
        values = np.array([self._function(a, b) for a, b in pairs], dtype=np.float64)
        return PairScores(values.reshape(-1, 1), np.zeros(len(pairs), dtype=bool))

    def fit_contexts(self, texts: Sequence[ContextAndText]) -> list[str]:
        """See `PairModel.fit_contexts`; nothing is ever cut."""
        return [context for context, _ in texts]


class RougeLModel(LexicalModel):
    """`rouge_l` as a pair model."""

    @classmethod
    def load(cls, config: SimilarityConfig) -> Self:
        """There is nothing to load."""
        return cls(rouge_l)


class JaccardModel(LexicalModel):
    """`jaccard` as a pair model."""

    @classmethod
    def load(cls, config: SimilarityConfig) -> Self:
        """There is nothing to load."""
        return cls(jaccard)


_: type[PairModel] = LexicalModel  # mypy holds the class to its protocol
