"""AlignScore's scheme over any pair classifier: which sentences of a claim does a context support?

Zha et al. 2023.
"""

import re
from collections.abc import Sequence

import numpy as np

from models.records import Pair, PairScores
from models.similarity.protocol import ContextAndText, PairModel

_CHUNK_WORDS = 350
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


class AlignModel:
    """Context in chunks, claim by sentences.

    The score is the mean over sentences of each sentence's best chunk.

    The inner model is shared, not loaded again: an NLI model's entailment, or a cross-encoder's
    similarity.
    """

    labels: tuple[str, ...] = ("similarity",)

    def __init__(self, inner: PairModel) -> None:
        self.model_id = inner.model_id
        self.revision = inner.revision
        self.max_length = inner.max_length
        self.flags = ("align", *inner.flags)
        self._inner = inner

    def score(self, pairs: Sequence[Pair]) -> PairScores:
        """See `PairModel.score`; the first text is the context, the second the claim."""
        cells: dict[Pair, int] = {}  # each distinct (chunk, sentence) to its row in `inner`
        grids = []
        for context, claim in pairs:
            rows, chunked = [], chunks(context)
            for sentence in sentences(claim):
                cell_pairs = [(chunk, sentence) for chunk in chunked]
                rows.append([cells.setdefault(pair, len(cells)) for pair in cell_pairs])
            grids.append(np.array(rows))  # (sentences, chunks)
        inner = self._inner.score(list(cells))
        values, truncated = np.zeros((len(pairs), 1)), np.zeros(len(pairs), dtype=bool)
        for row, grid in enumerate(grids):
            values[row] = inner.values[grid, 0].max(axis=1).mean()
            truncated[row] = inner.truncated[grid].any()
        return PairScores(values, truncated)

    def fit_contexts(self, texts: Sequence[ContextAndText]) -> list[str]:
        """See `PairModel.fit_contexts`."""
        return self._inner.fit_contexts(texts)


def sentences(text: str) -> list[str]:
    """Sentences of a text, split after a full stop, question or exclamation mark.

    There is at least one, maybe empty.

    >>> sentences("It is Paris. Surely!")
    ['It is Paris.', 'Surely!']
    """
    return [sentence for sentence in _SENTENCE_END.split(text.strip()) if sentence] or [""]


def chunks(text: str, max_words: int = _CHUNK_WORDS) -> list[str]:
    """Consecutive sentences in chunks of about `max_words` words.

    A longer sentence is a chunk of its own.

    >>> chunks("a b. c d. e.", max_words=4)
    ['a b. c d.', 'e.']
    """
    grouped: list[list[str]] = []
    count = 0
    for sentence in sentences(text):
        num_words = len(sentence.split())
        if grouped and count + num_words <= max_words:
            grouped[-1].append(sentence)
            count += num_words
        else:
            grouped.append([sentence])
            count = num_words
    return [" ".join(group) for group in grouped]


_: type[PairModel] = AlignModel  # mypy holds the class to its protocol
