"""Parts of long texts for an NLI model: chunks of samples, and beginnings of sentences."""

from bisect import bisect_right
from collections.abc import Sequence

from models.records import Span

# Tokens of a premise and of a hypothesis. Together they fit a model that reads 512.
MAX_CHUNK_TOKENS = 256
MAX_HYPOTHESIS_TOKENS = 200


def chunk_spans(
    sentences: Sequence[Span], token_ends: Sequence[int], max_tokens: int = MAX_CHUNK_TOKENS
) -> list[Span]:
    """Chunks of a text in whole sentences, each beginning with the last sentence of the one before.

    A sentence of more tokens is cut into parts that count as sentences. There is no overlap where
    two sentences together have too many tokens.

    Args:
        sentences: of the text, with at least one token each.
        token_ends: the character behind each token of the text.
        max_tokens: of a chunk, at least 1.

    >>> chunk_spans([(0, 2), (3, 5), (6, 8)], [2, 5, 8], max_tokens=2)
    [(0, 5), (3, 8)]
    """
    parts: list[Span] = []
    for sentence in sentences:
        parts += _parts(sentence, token_ends, max_tokens)
    chunks: list[Span] = []
    first = 0
    for last, (_, end) in enumerate(parts):
        if last == first or num_tokens((parts[first][0], end), token_ends) <= max_tokens:
            continue
        chunks.append((parts[first][0], parts[last - 1][1]))
        first = last
        if num_tokens((parts[last - 1][0], end), token_ends) <= max_tokens:
            first = last - 1
    if parts:
        chunks.append((parts[first][0], parts[-1][1]))
    return chunks


def beginning(
    sentence: Span, token_ends: Sequence[int], max_tokens: int = MAX_HYPOTHESIS_TOKENS
) -> Span:
    """The beginning of a sentence, as long as a hypothesis may be.

    >>> beginning((3, 8), [2, 5, 8], max_tokens=1), beginning((3, 8), [2, 5, 8], max_tokens=2)
    ((3, 5), (3, 8))
    """
    start, end = sentence
    first = bisect_right(token_ends, start)
    if num_tokens(sentence, token_ends) <= max_tokens:
        return sentence
    return start, min(end, token_ends[first + max_tokens - 1])


def _parts(sentence: Span, token_ends: Sequence[int], max_tokens: int) -> list[Span]:
    """The sentence, or what is read of one that is too long at once."""
    start, end = sentence
    parts = []
    while start < end:
        _, cut = beginning((start, end), token_ends, max_tokens)
        parts.append((start, cut))
        start = cut
    return parts


def num_tokens(span: Span, token_ends: Sequence[int]) -> int:
    """Tokens that end within a span; one that ends behind it counts, too."""
    start, end = span
    first, behind = bisect_right(token_ends, start), bisect_right(token_ends, end)
    is_cut = behind < len(token_ends) and bool(behind == 0 or token_ends[behind - 1] < end)
    return behind - first + is_cut
