"""A cache whose entries are checked whole before any is used: what a cache returns is not trusted.

A Redis is shared, and others may write to it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from app.cache.protocol import Cache
from app.cache.seal import seal, unseal

Entry = TypeVar("Entry")

# What comes of reading JSON of another shape.
_NO_ENTRY = (ValueError, TypeError, LookupError, AttributeError)


class CheckedCache:
    """Payloads by key, over a `Cache`. Whatever is not what was put is a miss.

    Args:
        cache: holds the entries.
        on_corrupt: told of each entry that was found and is none.
    """

    def __init__(self, cache: Cache, on_corrupt: Callable[[], None]) -> None:
        self._cache = cache
        self._on_corrupt = on_corrupt

    async def look_up(
        self, keys: Sequence[str], decode: Callable[[bytes], Entry]
    ) -> list[Entry | None]:
        """What `decode` makes of each payload, in the order of the keys; None for a miss.

        Args:
            keys: of the entries.
            decode: raises ValueError, TypeError, LookupError or AttributeError for what is none.
        """
        found: list[Entry | None] = []
        for key, entry in zip(keys, await self._cache.get_many(keys), strict=True):
            found.append(None if entry is None else self._checked(key, entry, decode))
        return found

    def put(self, payloads: Mapping[str, bytes]) -> None:
        """Store the payloads, in place of what was there."""
        self._cache.put({key: seal(key, payload) for key, payload in payloads.items()})

    def _checked(self, key: str, entry: bytes, decode: Callable[[bytes], Entry]) -> Entry | None:
        try:
            return decode(unseal(key, entry))
        except _NO_ENTRY:
            self._on_corrupt()
            return None
