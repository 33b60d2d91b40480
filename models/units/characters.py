"""The tokens of an answer on the characters of its text."""

from collections.abc import Iterable
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.records import Sequence, Span
from models.units.unit import Indices

_MAX_BEYOND_TAG = 64  # characters that the token which completes an end tag may hold
_ASCII = "".join(map(chr, range(128)))  # characters of one byte, and so of one token


@dataclass(frozen=True, slots=True)
class TokenSpans:
    """The places of an answer's tokens in its text, without those on no character (EOS)."""

    indices: Indices  # of the tokens among all of the answer's, ascending
    starts: NDArray[np.intp]  # the first character of each
    ends: NDArray[np.intp]  # the character behind the last of each. Like `starts` they never fall.


def spans_of_texts(texts: SequenceOf[str], begun: Iterable[tuple[int, int]] = ()) -> TokenSpans:
    """Spans of tokens whose texts join to the answer's text; an empty text lies on no character.

    Args:
        texts: (T,).
        begun: tokens with empty texts that begin a character which a later token completes, each
            with how many characters of that one's text it lies on.

    >>> spans_of_texts(["Pa", "", "ris"]).starts.tolist()
    [0, 2]
    """
    lengths = np.fromiter(map(len, texts), np.intp, len(texts))
    ends = np.cumsum(lengths, dtype=np.intp)
    starts = ends - lengths
    for index, length in begun:
        ends[index] += length
    indices = np.flatnonzero(ends > starts)
    return TokenSpans(indices, starts[indices], ends[indices])


def token_spans(answer: Sequence) -> TokenSpans:
    """The places of the answer's tokens in its text; none where their texts are not known.

    Behind a reasoning, what the token that completes the end tag holds beyond it begins the text:
    those characters are no token's. A given answer may have been read with a blank in front, which
    its text lacks. A token with an empty text lies on the next text up to the character that it
    begins: the last one there of several bytes.
    """
    texts, text = answer.token_texts or (), answer.text
    joined, begins_at = "".join(texts), 0
    if joined.lstrip() == text:  # the blank stands before the first character
        begins_at, text = len(text) - len(joined), ""
    while not joined.startswith(text[begins_at:]):
        begins_at += 1
        if begins_at > _MAX_BEYOND_TAG:  # texts of another answer
            return spans_of_texts(())
    begun, length = [], 0
    for index in range(len(texts) - 1, -1, -1):
        if texts[index]:
            length = len(texts[index].rstrip(_ASCII))
        else:
            begun.append((index, length))
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
