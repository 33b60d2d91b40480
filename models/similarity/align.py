"""Pure: AlignScore's scheme over any pair classifier: which chunks support a claim's sentences?

Zha et al. 2023.
"""

import re
from collections.abc import Sequence

import numpy as np

from models.records import Array, Pair

_CHUNK_WORDS = 350
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


# Pairs (S, C) of each chunk of a context with each sentence of a claim.
Grid = list[list[Pair]]


def cells(pairs: Sequence[Pair]) -> dict[Pair, Grid]:
    """The grid of each distinct pair of a context and a claim.

    >>> cells([("a b. c.", "x. y.")])
    {('a b. c.', 'x. y.'): [[('a b. c.', 'x.')], [('a b. c.', 'y.')]]}
    """
    chunked, split = _parts(pairs)
    grids = {}
    for context, claim in pairs:
        grid = []
        for sentence in split[claim]:
            grid.append([(chunk, sentence) for chunk in chunked[context]])
        grids[context, claim] = grid
    return grids


def num_cells(pairs: Sequence[Pair]) -> int:
    """The number of cells of all pairs."""
    chunked, split = _parts(pairs)
    return sum(len(chunked[context]) * len(split[claim]) for context, claim in pairs)


def aligned(values: Array) -> float:
    """The mean over sentences of each sentence's best chunk, of the values (S, C) of the cells."""
    return float(np.mean(np.max(values, axis=1)))


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


def _parts(pairs: Sequence[Pair]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Chunks of each distinct context, and sentences of each distinct claim."""
    contexts, claims = {context for context, _ in pairs}, {claim for _, claim in pairs}
    chunked = {context: chunks(context) for context in contexts}
    return chunked, {claim: sentences(claim) for claim in claims}
