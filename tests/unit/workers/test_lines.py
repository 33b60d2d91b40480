"""Lines of a response."""

import httpx
import pytest

from workers.lines import lines

pytestmark = pytest.mark.anyio


async def read(*chunks):
    async def pieces():
        for chunk in chunks:
            yield chunk

    return [line async for line in lines(httpx.Response(200, content=pieces()))]


async def test_lines_end_at_line_feeds_alone_wherever_the_chunks_end():
    text = 'data: "a\u2028b\x85c"'.encode()
    assert await read(text + b"\r\n\r\n" + text + b"\n") == [text, text]
    whole = text + b"\n\n" + text + b"\n"
    assert await read(*(whole[i : i + 1] for i in range(len(whole)))) == [text, text]


async def test_what_was_cut_off_is_no_line():
    assert await read(b"one\ntw") == [b"one"]
    assert await read() == []
