"""The part of a context that fits in front of a text, by a tokenizer."""

from collections.abc import Sequence
from typing import Any

from models.records import Pair

# Tokens of usual tokenizers span fewer characters; longer contexts are cut to this before they are
# tokenised.
_MAX_CHARACTERS_PER_TOKEN = 16


def fit_contexts(tokenizer: Any, texts: Sequence[Pair], max_tokens: int) -> list[str]:
    """For each (context, text) the longest right part of the context that fits before the text.

    A context is tokenised once, however many texts are read after it. `max_tokens` are those of a
    context and its text, without special ones.
    """
    most = _MAX_CHARACTERS_PER_TOKEN * max_tokens
    contexts = [context[-most:] for context, _ in texts]
    distinct = list(dict.fromkeys(contexts))
    offsets = dict(zip(distinct, token_offsets(tokenizer, distinct), strict=True))
    of_texts = token_offsets(tokenizer, [text for _, text in texts])
    fitted = []
    for context, of_text in zip(contexts, of_texts, strict=True):
        of_context = offsets[context]
        # Two more tokens stay free: where texts are joined, a blank may cost one and a merge
        # undone another.
        budget = max_tokens - len(of_text) - 2
        if budget <= 0:
            context = ""
        elif len(of_context) > budget:
            context = context[of_context[-budget][0] :]
        fitted.append(context)
    return fitted


def token_offsets(tokenizer: Any, texts: Sequence[str]) -> list[list[tuple[int, int]]]:
    """The first and last characters of the tokens of each text, as spans."""
    if not texts:
        return []
    encoded = tokenizer(
        list(texts), add_special_tokens=False, return_offsets_mapping=True, verbose=False
    )
    return list(encoded["offset_mapping"])
