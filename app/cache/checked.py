"""A cache whose entries are checked whole before any is used: what a cache returns is not trusted.

A Redis is shared, and others may write to it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from app.cache.protocol import CLAIM_S, Cache
from app.cache.seal import seal, unseal

Entry = TypeVar("Entry")

# Between two looks at what another process computes.
_POLL_S = 0.02
# What comes of reading JSON of another shape.
_NO_ENTRY = (ValueError, TypeError, LookupError, AttributeError)


class CheckedCache:
    """Payloads by key, over a `Cache`. Whatever is not what was put is a miss.

    Args:
        cache: holds the entries.
        on_corrupt: told of each entry that was found and is none.
        namespace: whose entries these are; nobody finds those of another one.
    """

    def __init__(self, cache: Cache, on_corrupt: Callable[[], None], namespace: str = "") -> None:
        self._cache = cache
        self._on_corrupt = on_corrupt
        self._prefix = f"{namespace}:" if namespace else ""

    def of(self, namespace: str) -> "CheckedCache":
        """The same cache, as it is for one namespace."""
        return CheckedCache(self._cache, self._on_corrupt, namespace)

    async def look_up(
        self, keys: Sequence[str], decode: Callable[[bytes], Entry]
    ) -> list[Entry | None]:
        """What `decode` makes of each payload, in the order of the keys; None for a miss.

        Args:
            keys: of the entries.
            decode: raises ValueError, TypeError, LookupError or AttributeError for what is none.
        """
        found: list[Entry | None] = []
        names = [self._prefix + key for key in keys]
        for name, entry in zip(names, await self._cache.get_many(names), strict=True):
            found.append(None if entry is None else self._checked(name, entry, decode))
        return found

    async def wait_for_others(
        self, key: str, decode: Callable[[bytes], Entry | None]
    ) -> Entry | None:
        """What another process is computing under this key; None once the caller is to do it.

        The claim is the caller's then, to be kept with `keeping`.
        """
        has_waited = False
        while not await self._cache.claim(self._prefix + key):
            has_waited = True
            await asyncio.sleep(_POLL_S)
            if (found := await self._find(key, decode)) is not None:
                return found
        # Who computed it may have been done just before the claim was free.
        found = await self._find(key, decode) if has_waited else None
        if found is not None:
            self._cache.release(self._prefix + key)
        return found

    @asynccontextmanager
    async def keeping(self, key: str) -> AsyncIterator[None]:
        """Hold the claim of a key for as long as the context is open."""
        keeper = asyncio.create_task(self._keep(key))
        try:
            yield
        finally:
            keeper.cancel()
            self._cache.release(self._prefix + key)

    def put(self, payloads: Mapping[str, bytes]) -> None:
        """Store the payloads, in place of what was there."""
        named = ((self._prefix + key, payload) for key, payload in payloads.items())
        self._cache.put({name: seal(name, payload) for name, payload in named})

    async def _find(self, key: str, decode: Callable[[bytes], Entry | None]) -> Entry | None:
        [found] = await self.look_up([key], decode)
        return found

    async def _keep(self, key: str) -> None:
        while True:
            await asyncio.sleep(CLAIM_S / 3)
            self._cache.keep(self._prefix + key)

    def _checked(self, name: str, entry: bytes, decode: Callable[[bytes], Entry]) -> Entry | None:
        try:
            return decode(unseal(name, entry))
        except _NO_ENTRY:
            self._on_corrupt()
            return None
