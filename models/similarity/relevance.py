"""Pure: how much of a text's meaning each of its tokens carries. Duan et al. 2024."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from models.records import Array
from models.similarity.pairs import PairTable


def token_relevance(context: str, token_texts: Sequence[str], table: PairTable) -> Array:
    """R (T,): clip(1 - s(x + " " + y, x + " " + y without t), 0, 1), both directions averaged.

    0 for tokens without text of their own, as EOS and special tokens are, and for blanks around the
    text.

    Args:
        context: x, the prompt, cut from the left so that the pair fits the model.
        token_texts: (T,) the text that each token adds.
        table: with the scores of all that it reads.
    """
    table = replace(table, rules=table.rules.of_texts_alone())
    whole = _join(context, token_texts)
    similarity = np.ones(len(token_texts))
    for t in range(len(token_texts)):
        without = _join(context, [*token_texts[:t], *token_texts[t + 1 :]])
        if without != whole:
            similarity[t] = table.both_directions(whole, without, "similarity")
    return np.clip(1.0 - similarity, 0.0, 1.0)


def _join(context: str, token_texts: Sequence[str]) -> str:
    return f"{context} {''.join(token_texts).strip()}".strip()
