"""Compressed bodies: what is refused is not unpacked first (see test_api_json.py, too)."""

import tracemalloc
import zlib

import pytest
from starlette.exceptions import HTTPException

from app.http.encodings import unpacked


def test_of_a_body_that_would_be_too_large_no_more_is_unpacked_than_may_be_read():
    body = zlib.compress(bytes(20_000_000))
    tracemalloc.start()
    with pytest.raises(HTTPException, match="exceeds 1024 bytes"):
        unpacked(body, "deflate", 1024)
    assert tracemalloc.get_traced_memory()[1] < 200_000
    tracemalloc.stop()
