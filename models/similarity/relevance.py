"""Pure: how much of a text's meaning each of its tokens carries. Duan et al. 2024."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from models.records import Array, Pair
from models.similarity.pairs import PairTable


def relevance_pairs(context: str, token_texts: Sequence[str]) -> list[Pair]:
    """Ordered pairs of the whole and of the whole without a token.

    One pair and its reverse for every token whose removal changes the text.
    """
    whole = _join(context, token_texts)
    pairs: list[Pair] = []
    for text in dict.fromkeys(_without_each(context, token_texts)):
        if text is not None:
            pairs += [(whole, text), (text, whole)]
    return pairs


def token_relevance(context: str, token_texts: Sequence[str], table: PairTable) -> Array:
    """R (T,): clip(1 - s(x + " " + y, x + " " + y without t), 0, 1), both directions averaged.

    0 for tokens without text of their own, as EOS and special tokens are, and for blanks around the
    text.

    Args:
        context: x, the prompt, cut from the left so that the pair fits the model.
        token_texts: (T,) the text that each token adds.
        table: with every pair that `relevance_pairs` names.
    """
    table = replace(table, rules=table.rules.of_texts_alone())
    whole = _join(context, token_texts)
    similarity = np.ones(len(token_texts))
    for t, text in enumerate(_without_each(context, token_texts)):
        if text is not None:
            similarity[t] = table.both_directions(whole, text, "similarity")
    return np.clip(1.0 - similarity, 0.0, 1.0)


def _without_each(context: str, token_texts: Sequence[str]) -> list[str | None]:
    """The joined text without each token; None where that leaves it as it was."""
    whole = _join(context, token_texts)
    shorter: list[str | None] = []
    for t in range(len(token_texts)):
        text = _join(context, [*token_texts[:t], *token_texts[t + 1 :]])
        shorter.append(None if text == whole else text)
    return shorter


def _join(context: str, token_texts: Sequence[str]) -> str:
    return f"{context} {''.join(token_texts).strip()}".strip()
