"""Pure: what kind of fault of Redis an exception is, in fixed words."""

import ssl

from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    ConnectionError,
    InvalidResponse,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
)

# The first that fits: several are subclasses of later ones.
_KINDS: tuple[tuple[type[Exception], str], ...] = (
    (AuthenticationError, "authentication refused"),
    (NoPermissionError, "permission refused"),
    (OutOfMemoryError, "out of memory"),
    (ReadOnlyError, "read-only"),
    (BusyLoadingError, "loading"),
    (TimeoutError, "too slow"),
    (ConnectionError, "unreachable"),
    (InvalidResponse, "no sense in its reply"),
    (ResponseError, "refused"),
)


def kind_of_fault(error: Exception) -> str:
    """Words for the log; the error's own text may hold a key, a value or the URL."""
    if isinstance(error.__context__, ssl.SSLError):
        return "TLS failed"
    return next((kind for of, kind in _KINDS if isinstance(error, of)), type(error).__name__)
