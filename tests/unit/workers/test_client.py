"""What a gateway's client makes of a server that goes, and lines of a response."""

import asyncio
import gzip

import httpx
import pytest
from starlette.responses import Response

from tests.vanishing import vanishing
from tests.worker_servers import listening
from workers.client import Client, Unreachable, body_of, lines

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


async def test_an_endless_line_or_reply_ends_once_it_is_too_long():
    sent = []

    async def endless():
        while True:
            sent.append(b"x" * 1000)
            yield sent[-1]

    async def read_lines(response, max_bytes):
        return [line async for line in lines(response, max_bytes)]

    for read_all in (read_lines, body_of):
        sent.clear()
        response = httpx.Response(200, content=endless())
        with pytest.raises(Unreachable, match="longer than 10000 bytes"):
            await read_all(response, 10_000)
        assert len(sent) == 11


async def test_nothing_is_decompressed():
    asked = []

    async def compressing(scope, receive, send):
        asked.append(dict(scope["headers"])[b"accept-encoding"])
        packed = gzip.compress(bytes(10_000_000))
        await Response(packed, headers={"Content-Encoding": "gzip"})(scope, receive, send)

    async with (
        listening(compressing) as port,
        Client(base_url=f"http://127.0.0.1:{port}") as client,
        client.stream("GET", "/") as response,
    ):
        assert len(await body_of(response)) < 20_000
    assert asked == [b"identity"]


async def test_a_server_at_an_address_is_called_by_its_name():
    asked = []

    def answer(request):
        asked.append(request)
        return httpx.Response(200)

    named = {"named": "https://vllm-pods:8000", "base_url": "https://10.0.0.7:8000"}
    async with Client(**named, transport=httpx.MockTransport(answer)) as client:
        await client.post("/v1", extensions={"trace": None})
        async with client.stream("GET", "/v1"):
            pass

    for request in asked:
        assert request.url.host == "10.0.0.7"
        assert request.headers["Host"] == "vllm-pods:8000"
        assert request.extensions["sni_hostname"] == "vllm-pods"
