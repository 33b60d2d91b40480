"""The keys that are good now; their file may change while they are used."""

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from app.plugins.keys.records import Key, KeysFileInvalid, digest_of, parse_keys

logger = logging.getLogger(__name__)

_POLL_S = 1.0


class KeyRing:
    """The keys of one file.

    Args:
        path: of the file, which is read at once.
        on_change: called at each later change, with whether it could be read.

    Raises:
        KeysFileInvalid: the file cannot be used.
    """

    def __init__(self, path: Path, on_change: Callable[[bool], None]) -> None:
        self._path = path
        self._on_change = on_change
        self._content = _read(path)
        try:
            self._use(self._content)
        except KeysFileInvalid as error:
            raise KeysFileInvalid(f"COCOA_KEYS__FILE: {error}") from None

    def find(self, key: str) -> Key | None:
        """The entry of a key; None for an unknown key.

        Keys are looked up by their hashes. How long that takes may tell something of a hash, but
        nobody can choose a key by what its hash should be.
        """
        return self._by_digest.get(digest_of(key))

    async def run(self) -> None:
        """Follow the file until cancelled; while it cannot be used, the keys stay as they were."""
        while True:
            await asyncio.sleep(_POLL_S)
            content = await asyncio.to_thread(_read, self._path)
            if content == self._content:
                continue
            self._content = content
            try:
                self._use(content)
            except KeysFileInvalid as error:
                logger.error("keys: the file cannot be used, the earlier ones stay: %s", error)
                self._on_change(False)
            else:
                logger.info("keys: the file has changed, and holds %d now", len(self.keys))
                self._on_change(True)

    def _use(self, content: bytes | str) -> None:
        if isinstance(content, str):
            raise KeysFileInvalid(content)
        self.keys = parse_keys(content)
        self._by_digest = {digest: key for key in self.keys for digest in key.sha256}


def is_expired(key: Key) -> bool:
    return key.expires is not None and key.expires <= datetime.now(UTC)


def _read(path: Path) -> bytes | str:
    """The content of the file, or in words the reason why it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        return f"{path.absolute()}: {error.strerror or type(error).__name__}"
