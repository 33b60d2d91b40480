"""The tokens of an answer on the characters of its text."""

from collections.abc import Iterable
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.records import Sequence, Span
from models.units.unit import Indices

# Characters that the token which completes an end tag may hold beyond it.
_MAX_BEYOND_TAG = 64


@dataclass(frozen=True, slots=True)
class TokenSpans:
    """The places of an answer's tokens in its text, without those on no character (EOS)."""

    indices: Indices  # of the tokens among all of the answer's, ascending
    starts: NDArray[np.intp]  # the first character of each
    ends: NDArray[np.intp]  # the character behind the last of each. Like `starts` they never fall.


def spans_of_texts(token_texts: SequenceOf[str], begun: SequenceOf[int] = ()) -> TokenSpans:
    """Spans of tokens whose texts join to the answer's text; an empty text lies on no character.

    Args:
        token_texts: (T,).
        begun: indices of tokens with empty texts that begin a character which a later token
            completes: they lie on that one.

    >>> spans_of_texts(["Pa", "", "ris"]).starts.tolist()
    [0, 2]
    """
    lengths = np.fromiter(map(len, token_texts), np.intp, len(token_texts))
    ends = np.cumsum(lengths, dtype=np.intp)
    starts = ends - lengths
    ends[list(begun)] += 1
    indices = np.flatnonzero(ends > starts)
    return TokenSpans(indices, starts[indices], ends[indices])


def token_spans(answer: Sequence) -> TokenSpans:
    """The places of the answer's tokens in its text; none where their texts are not known.

    Behind a reasoning, what the token that completes the end tag holds beyond it begins the text:
    those characters are no token's of the answer. A given answer may have been read with a blank in
    front, which its text lacks. A token with an empty text begins the character
    that the next text begins with, unless that is one byte and so one token's.
    """
    texts, text = answer.token_texts or (), answer.text
    joined, begins_at = "".join(texts), 0
    if joined.lstrip() == text:  # the blank stands before the first character
        begins_at, text = len(text) - len(joined), ""
    while not joined.startswith(text[begins_at:]):
        begins_at += 1
        if begins_at > _MAX_BEYOND_TAG:  # texts of another answer
            return spans_of_texts(())
    begun = []
    is_begun = False
    for index in range(len(texts) - 1, -1, -1):
        if texts[index]:
            is_begun = not texts[index][0].isascii()
        elif is_begun:
            begun.append(index)
    spans = spans_of_texts(texts, begun)
    return TokenSpans(spans.indices, spans.starts + begins_at, spans.ends + begins_at)


def overlapping(tokens: TokenSpans, spans: Iterable[Span]) -> Indices:
    """Indices of the tokens that have at least one character in one of the spans, ascending.

    >>> overlapping(spans_of_texts(["Pa", "ris. ", "", "No."]), [(3, 8)]).tolist()
    [1, 3]
    """
    indices = [np.empty(0, np.intp)]
    for start, end in spans:
        first = np.searchsorted(tokens.ends, start, side="right")
        last = np.searchsorted(tokens.starts, end, side="left")
        if start < end:
            indices.append(tokens.indices[first:last])
    return np.unique(np.concatenate(indices))
