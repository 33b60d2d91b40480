"""Keys that a JSON text has: no object gets one twice, since no grammar knows what was written."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from models.units.json_schemas import schemas_in

_QUOTE, _ESCAPE, _COMMA, _COLON, _BLANK = b'"\\,: '
_OPENING, _CLOSING = b"{[", b"}]"


class Quotes:
    """The tokens of a vocabulary that have a quotation mark.

    Attributes:
        texts: bytes of every token, by its id.
        ids: the ids of these bytes.
    """

    def __init__(self, texts: Sequence[bytes]) -> None:
        self.texts = texts
        quoting = [(text, token) for token, text in enumerate(texts) if _QUOTE in text]
        self._sorted = sorted(quoting)
        self.ids = {text: token for token, text in enumerate(texts)}
        self._holding: defaultdict[bytes, list[int]] = defaultdict(list)
        for text, token in quoting:
            for inner in text.split(b'"')[1:-1]:
                self._holding[inner].append(token)

    def beginning(self, start: bytes) -> Iterator[int]:
        """Tokens that begin so."""
        for text, token in self._sorted[bisect_left(self._sorted, (start, -1)) :]:
            if not text.startswith(start):
                return
            yield token

    def holding(self, inner: bytes) -> Sequence[int]:
        """Tokens that have this between two quotation marks."""
        return self._holding.get(inner, ())


class Keys:
    """Where a JSON text stands, and the keys of each object that is open.

    Attributes:
        are_few: whether an object may come to have all keys that there can be.
    """

    def __init__(self, *, are_few: bool = False) -> None:
        self.are_few = are_few
        self._open: list[set[bytes] | None] = []  # None for an array
        self._key = b""  # so far, where one is being written
        self._num_blanks = 0  # behind the last comma
        self._expects_key = self._in_string = self._is_escaped = False

    def copy(self) -> "Keys":
        """The same for a text that goes on otherwise."""
        other = Keys(are_few=self.are_few)
        other._open = [None if keys is None else set(keys) for keys in self._open]
        other._key, other._expects_key = self._key, self._expects_key
        other._in_string, other._is_escaped = self._in_string, self._is_escaped
        other._num_blanks = self._num_blanks
        return other

    def feed(self, text: bytes) -> bool:
        """Read on; whether an object has a key twice now."""
        is_twice = False
        for sign in text:
            if self._in_string:
                is_twice |= self._read_on(sign)
            elif sign == _QUOTE:
                self._in_string = True
            elif sign in _OPENING:
                self._open.append(set() if sign == _OPENING[0] else None)
                self._expects_key = sign == _OPENING[0]
            elif sign in _CLOSING and self._open:
                self._open.pop()
            elif sign == _COMMA:
                self._expects_key = bool(self._open) and self._open[-1] is not None
                self._num_blanks = 0
            elif sign == _BLANK:
                self._num_blanks = 1
            elif sign == _COLON:
                self._expects_key = False
        return is_twice

    def barred(self, quotes: Quotes) -> Iterator[int]:
        """Tokens with which an object would have a key twice."""
        if not any(self._open):
            return
        if self._in_string and self._expects_key:
            for key in self._open[-1] or ():
                if key.startswith(self._key):
                    yield from quotes.beginning(key[len(self._key) :] + b'"')
        for keys in self._open:
            for key in keys or ():
                for token in quotes.holding(key):
                    if self.copy().feed(quotes.texts[token]):
                        yield token

    def retracing(self, quotes: Quotes) -> Iterator[int]:
        """Tokens that lead to, or along, a key that the innermost object has already.

        Behind one of them it may be that no other key is left.
        """
        lead = b', "'
        if self._in_string:
            lead = b"" if self._expects_key else b'", "'
        elif self._expects_key:
            lead = b' "'[self._num_blanks :]
        for key in (self._open and self._open[-1]) or ():
            if not key.startswith(self._key):
                continue
            rest = lead + key[len(self._key) :]
            for end in range(len(rest)):
                if (token := quotes.ids.get(rest[: end + 1])) is not None:
                    yield token

    def _read_on(self, sign: int) -> bool:
        is_end = sign == _QUOTE and not self._is_escaped
        self._is_escaped = sign == _ESCAPE and not self._is_escaped
        if not is_end:
            if self._expects_key:
                self._key += bytes([sign])
            return False
        self._in_string = False
        key, self._key = self._key, b""
        if not self._expects_key or not (keys := self._open[-1:]) or keys[0] is None:
            return False
        is_twice = key in keys[0]
        keys[0].add(key)
        return is_twice


def may_repeat_keys(schema: Mapping[str, Any]) -> bool:
    """Whether an object under a schema may have keys that the schema does not name."""
    return any(_is_open(one) for _, one in schemas_in(schema))


def has_patterns(schema: Mapping[str, Any]) -> bool:
    """Whether an object under such a schema has keys by a pattern, which may be few."""
    return any(
        isinstance(one, dict) and "patternProperties" in one for _, one in schemas_in(schema)
    )


def _is_open(schema: Mapping[str, Any] | bool) -> bool:
    """Whether a schema, apart from those within, leaves keys open."""
    if isinstance(schema, bool):
        return schema
    if not schema.keys().isdisjoint({"const", "enum", "$ref", "allOf", "anyOf"}):
        return False  # what it names says so, or what it points to
    types = schema.get("type", ("array", "object"))
    if "array" in types and "items" not in schema:
        return True
    is_closed = schema.get("additionalProperties") is False and "patternProperties" not in schema
    return "object" in types and not is_closed
