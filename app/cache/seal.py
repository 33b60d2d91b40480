"""Pure: what tells an entry that was stored under its name from everything else.

The digest keeps off what was damaged, moved to another name, or stored by somebody else under ours.
It has no secret: whoever may write and knows this file can seal whatever they like.
"""

import hashlib

_DIGEST_BYTES = 16


def seal(name: str, payload: bytes) -> bytes:
    """The payload behind a digest of name and payload."""
    return _digest(name, payload) + payload


def unseal(name: str, entry: bytes) -> bytes:
    """The payload that `seal` was given for this name.

    Raises:
        ValueError: it was given no such payload.

    >>> unseal("a", seal("a", b"1"))
    b'1'
    """
    digest, payload = entry[:_DIGEST_BYTES], entry[_DIGEST_BYTES:]
    if digest != _digest(name, payload):
        raise ValueError("not what was stored under this name")
    return payload


def _digest(name: str, payload: bytes) -> bytes:
    # Names hold no NUL, so that none can end in the middle of a payload.
    return hashlib.blake2b(b"%b\0%b" % (name.encode(), payload), digest_size=_DIGEST_BYTES).digest()
