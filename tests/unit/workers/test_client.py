"""What a gateway's client makes of a server that goes, and lines of a response."""

import asyncio

import httpx
import pytest

from tests.vanishing import vanishing
from workers.client import Client, lines

pytestmark = pytest.mark.anyio
NUM_CLIENTS, NUM_CALLS = 4, 20


@pytest.fixture
def anyio_backend():
    return "asyncio", {"use_uvloop": True}  # the event loop of the service


async def test_a_connection_that_ends_as_it_is_made_is_one_that_could_not_be_made():
    async def call(url):
        errors = []
        async with Client(base_url=url, timeout=0.05) as client:
            for _ in range(NUM_CALLS):
                with pytest.raises(httpx.TransportError) as caught:
                    await client.post("/", content=b"Hello")
                errors.append(caught.value)
        return errors

    ended = []
    with vanishing() as url:
        async with asyncio.timeout(60):
            while not ended:
                for errors in await asyncio.gather(*(call(url) for _ in range(NUM_CLIENTS))):
                    ended += [one for one in errors if isinstance(one.__cause__, AttributeError)]
    assert {(type(one), str(one)) for one in ended} == {
        (httpx.ConnectError, "the connection ended as it was made")
    }


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
