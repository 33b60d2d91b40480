"""Similarities of words, without weights."""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, Self

import numpy as np

from models.records import Pair
from models.similarity.added import containment, words_of
from models.similarity.protocol import PairModel, PairScores, SimilarityConfig
from models.similarity.reading import read


class LexicalModel:
    """A similarity function of the words of two texts as a pair model.

    The words of a text are made once a call, however many pairs it is in: they cost more than what
    follows.
    """

    labels: tuple[str, ...] = ("similarity",)
    revision: str | None = None
    max_length: int | None = None
    flags: tuple[str, ...] = ()

    def __init__(
        self, name: str, words_of: Callable[[str], Any], function: Callable[[Any, Any], float]
    ) -> None:
        self.model_id = name
        self._words_of = words_of
        self._function = function

    def load(self, _: SimilarityConfig) -> Self:
        """There is nothing to load."""
        return self

    def score(self, pairs: Sequence[Pair]) -> PairScores:
        texts = dict.fromkeys(chain.from_iterable(pairs))
        words = {text: self._words_of(text) for text in texts}
        values = np.array([self._function(words[a], words[b]) for a, b in pairs], dtype=np.float64)
        return PairScores(values.reshape(-1, 1), np.zeros(len(pairs), dtype=bool))

    def fit_contexts(self, texts: Sequence[Pair]) -> list[str]:
        return [context for context, _ in texts]  # nothing is ever cut


# Over the words that texts have; in a deployment `PairRules.by_words` stands in its place.
ADDED = LexicalModel("added", lambda text: words_of(read(text)), containment)

_: type[PairModel] = LexicalModel  # mypy holds the class to its protocol
