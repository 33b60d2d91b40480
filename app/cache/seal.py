"""Pure: what tells an entry that was stored under its name from everything else.

The digest keeps off what was damaged, moved to another name, or stored by somebody else under ours.
It has no secret: whoever may write and knows this file can seal whatever they like.
"""

import hashlib

_DIGEST_BYTES = 16


def seal(name: str, payload: bytes) -> bytes:
    """The payload behind a digest of name and payload."""
    # Names hold no NUL, so that none can end in the middle of a payload.
    named = b"%b\0%b" % (name.encode(), payload)
    return hashlib.blake2b(named, digest_size=_DIGEST_BYTES).digest() + payload


def unseal(name: str, entry: bytes) -> bytes:
    """The payload that `seal` was given for this name.

    Raises:
        ValueError: it was given no such payload.

    >>> unseal("a", seal("a", b"1"))
    b'1'
    """
    payload = entry[_DIGEST_BYTES:]
    if entry != seal(name, payload):
        raise ValueError("not what was stored under this name")
    return payload
