"""Similarities without weights: ROUGE-L and Jaccard."""

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import Any, Self

import numpy as np

from models.estimators.overlap import rouge_l_f, spaced, word_stems
from models.records import Pair, PairScores
from models.similarity.added import containment, words_of
from models.similarity.protocol import ContextAndText, PairModel, SimilarityConfig
from models.similarity.reading import read


def jaccard(a: AbstractSet[str], b: AbstractSet[str]) -> float:
    """Common share of the words of two texts; 1 for two texts without any.

    >>> jaccard({"it", "is", "paris"}, {"it", "is", "rome"})
    0.5
    """
    if not a and not b:
        return 1.0
    return len(a & b) / len(a | b)


class LexicalModel:
    """A similarity function of the words of two texts as a pair model.

    The words of a text are made once a call, however many pairs it is in: stems cost more than
    what follows.

    Args:
        name: of the function.
        words_of: the words of a text that the function compares.
        function: similarity of what was read of two texts.
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

    def fit_contexts(self, texts: Sequence[ContextAndText]) -> list[str]:
        # Nothing is ever cut.
        return [context for context, _ in texts]


# F1 of the longest common subsequence of word stems (Lin 2004).
ROUGE_L = LexicalModel("rouge_l", word_stems, rouge_l_f)
# Over the lower-cased words between blanks, or characters of scripts without any.
JACCARD = LexicalModel("jaccard", lambda text: frozenset(spaced(text).split()), jaccard)
# Over the words that texts have; in a deployment `PairRules.by_words` stands in its place.
ADDED = LexicalModel("added", lambda text: words_of(read(text)), containment)

_: type[PairModel] = LexicalModel  # mypy holds the class to its protocol
