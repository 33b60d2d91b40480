"""AlignScore's scheme over any pair classifier: which sentences of a claim does a context support?

Zha et al. 2023.
"""

import re
from collections.abc import Sequence

import numpy as np

from models.records import Pair, PairScores
from models.similarity.protocol import PairModel

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
        self._inner = inner

    def score(self, pairs: Sequence[Pair]) -> PairScores:
        """See `PairModel.score`; the first text is the context, the second the claim."""
        parts = [(chunks(context), sentences(claim)) for context, claim in pairs]
        asked = list(
            dict.fromkeys(
                (chunk, s) for chunked, split in parts for chunk in chunked for s in split
            )
        )
        inner = self._inner.score(asked)
        index = {pair: i for i, pair in enumerate(asked)}
        values, truncated = np.zeros((len(pairs), 1)), np.zeros(len(pairs), dtype=bool)
        for row, (chunked, split) in enumerate(parts):
            cells = np.array(
                [[index[chunk, s] for chunk in chunked] for s in split]
            )  # (sentences, chunks)
            values[row] = inner.values[cells, 0].max(axis=1).mean()
            truncated[row] = inner.truncated[cells].any()
        return PairScores(values, truncated)

    def fit_context(self, context: str, text: str) -> str:
        """See `PairModel.fit_context`."""
        return self._inner.fit_context(context, text)


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
