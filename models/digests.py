"""Short names for what is too long to be one: hashes of values. No torch here."""

import hashlib
from typing import Any


def digest_of(*parts: Any) -> str:
    """SHA-256 in hexadecimal of plain values: numbers, strings, tuples, lists, dictionaries."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()
