"""AlignScore's scheme over an NLI model: how far do a context's chunks support a claim's sentences?

Zha et al. 2023. It is the scheme, not the checkpoint.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from itertools import chain

import numpy as np

from models.records import Pair
from workers.protocol import SimilarityScorer

_CHUNK_WORDS = 350
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")

# How far each pair's first text, the context, supports its second, the claim: values in [0, 1].
Support = Callable[[Sequence[Pair]], Awaitable[Sequence[float]]]


def support_by(nli: SimilarityScorer) -> Support:
    """The mean over a claim's sentences of the entailment by the chunk that supports each best.

    nli: its first label is the entailment.
    """

    async def support(pairs: Sequence[Pair]) -> list[float]:
        grids = [_grid(context, claim) for context, claim in pairs]
        asked: list[Pair] = []
        for row in chain.from_iterable(grids):
            asked += row
        reply = await nli.compare(asked)
        supports = []
        for grid in grids:
            best = [max(reply.scores[pair][0][0] for pair in row) for row in grid]
            supports.append(float(np.mean(best)))
        return supports

    return support


def sentences(text: str) -> list[str]:
    """Sentences of a text, split after a full stop, question or exclamation mark.

    There is at least one, maybe empty.

    >>> sentences("It is Paris. Surely!")
    ['It is Paris.', 'Surely!']
    """
    return list(filter(None, _SENTENCE_END.split(text.strip()))) or [""]


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
    return list(map(" ".join, grouped))


def _grid(context: str, claim: str) -> list[list[Pair]]:
    """For each sentence of the claim its pairs with the context's chunks."""
    of_context = chunks(context)
    grid = []
    for sentence in sentences(claim):
        grid.append([(chunk, sentence) for chunk in of_context])
    return grid
