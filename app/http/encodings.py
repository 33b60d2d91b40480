"""Bodies that come compressed, unpacked under the limit of size. Pure."""

import zlib
from contextlib import suppress

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

# By the name of each encoding that is taken, what zlib calls the bits of its window.
_WINDOW_BITS = {"gzip": 31, "x-gzip": 31, "deflate": 15}


def unpacked(body: bytes, encoding: str, max_bytes: int) -> bytes:
    """The body that came with this Content-Encoding, of which no more is unpacked than may be read.

    Raises:
        HTTPException: 415, it is of another encoding, or of several; 413, it exceeds the limit.
        RequestValidationError: it is broken, or has bytes behind its end.
    """
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return body
    if name not in _WINDOW_BITS:
        message = f"Content-Encoding {name!r:.60} is not read: send gzip or deflate, or none"
        raise HTTPException(415, message, {"Accept-Encoding": "gzip, deflate"})
    stream, content = zlib.decompressobj(_WINDOW_BITS[name]), b""
    with suppress(zlib.error):
        content = stream.decompress(body, max_bytes + 1)
    if len(content) > max_bytes:
        raise HTTPException(413, f"the body exceeds {max_bytes} bytes once it is unpacked")
    if not stream.eof or stream.unused_data:
        message = f"the body is not whole {name}, or has bytes behind its end"
        raise RequestValidationError([{"type": "json_invalid", "msg": message}])
    return content
