"""What a gateway's client makes of a server that goes, and lines of a response."""

import asyncio
import gzip
from collections import Counter
from contextlib import aclosing, asynccontextmanager, suppress

import pytest
from starlette.responses import Response as Answer

from models.errors import Overloaded
from tests.vanishing import vanishing
from tests.worker_servers import listening
from workers.remote import client as client_module
from workers.remote.calls import Calls
from workers.remote.client import Client, Response, Unconnected, Unreachable, body_of, lines
from workers.remote.pair_apis import PairServer, TeiApi
from workers.remote.refusals import Rejected

pytestmark = pytest.mark.anyio
NUM_CLIENTS, NUM_CALLS = 4, 20


async def get(client, path):
    async with client.stream("GET", path) as response:
        return await body_of(response)


@pytest.fixture
def anyio_backend():
    return "asyncio", {"use_uvloop": True}  # the event loop of the service


async def test_of_a_server_that_goes_again_and_again_a_call_is_unconnected_and_nothing_else():
    async def call(url):
        async with aclosing(Client(url, silence_s=0.05)) as client:
            for _ in range(NUM_CALLS):
                with pytest.raises(Unconnected):
                    await get(client, "/")

    with vanishing() as url:
        async with asyncio.timeout(60):
            await asyncio.gather(*(call(url) for _ in range(NUM_CLIENTS)))


async def read(*chunks):
    async def pieces():
        for chunk in chunks:
            yield chunk

    return [line async for line in lines(Response("GET /", 200, {}, pieces()))]


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
        response = Response("GET /", 200, {}, endless())
        with pytest.raises(Unreachable, match="longer than 10000 bytes"):
            await read_all(response, 10_000)
        assert len(sent) == 11


async def test_nothing_is_decompressed():
    asked = []

    async def compressing(scope, receive, send):
        asked.append(dict(scope["headers"])[b"accept-encoding"])
        packed = gzip.compress(bytes(10_000_000))
        await Answer(packed, headers={"Content-Encoding": "gzip"})(scope, receive, send)

    async with (
        listening(compressing) as port,
        aclosing(Client(f"http://127.0.0.1:{port}")) as client,
        client.stream("GET", "/") as response,
    ):
        assert len(await body_of(response)) < 20_000
    assert asked == [b"identity"]


@pytest.fixture
async def counted():
    """A server's URL, the calls of each connection, and events: three have come, /wait goes on."""
    calls: Counter[int] = Counter()
    arrived, go = asyncio.Event(), asyncio.Event()

    async def application(scope, receive, send):
        calls[scope["client"][1]] += 1
        if len(calls) == 3:
            arrived.set()
        if scope["path"] == "/wait":
            await go.wait()
        await Answer("ok")(scope, receive, send)

    async with listening(application) as port:
        yield f"http://127.0.0.1:{port}", calls, arrived, go
        go.set()


async def test_calls_at_once_have_a_connection_each_and_later_ones_take_these(counted):
    url, calls, arrived, go = counted
    async with aclosing(Client(url, silence_s=30)) as client:
        waiting = [asyncio.create_task(get(client, "/wait")) for _ in range(3)]
        async with asyncio.timeout(30):
            await arrived.wait()
        await get(client, "/")
        go.set()
        await asyncio.gather(*waiting)
        for _ in range(5):
            await get(client, "/")
    assert len(calls) == 4
    assert calls.total() == 9


async def test_a_connection_that_was_at_rest_for_too_long_is_not_used_again(counted, monkeypatch):
    url, calls, _, _ = counted
    monkeypatch.setattr(client_module, "_KEEPALIVE_S", 0.5)
    async with aclosing(Client(url, silence_s=30)) as client:
        await get(client, "/")
        await get(client, "/")
        assert list(calls.values()) == [2]
        await asyncio.sleep(0.6)
        await get(client, "/")
    assert list(calls.values()) == [2, 1]


async def test_a_call_that_fails_or_is_given_up_leaves_no_connection_to_the_next(counted):
    url, calls, _, _ = counted
    async with aclosing(Client(url, silence_s=30)) as client:
        await get(client, "/")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await get(client, "/wait")
        with pytest.raises(RuntimeError, match="of the caller"):
            async with client.stream("GET", "/"):
                raise RuntimeError("of the caller")
        assert await get(client, "/") == b"ok"
    assert sorted(calls.values()) == [2, 2]


_EVENTS = b'data: {"choices": []}\n\ndata: [DONE]\n\n'
_SCORES = b'[[{"label": "0", "score": 0.25}], [{"label": "0", "score": 0.5}]]'


async def _whole(calls):
    return await calls.post("/", {})


async def _get(calls):
    return await calls.get("/")


async def _stream(calls):
    return await calls.post_for_events("/", {}, lambda event: None, 10_000)


async def _pairs(calls):
    server = PairServer("reranker", "1", 512, 32)
    return await TeiApi().score(calls, server, [("a", "b"), ("c", "d")])


@asynccontextmanager
async def answering(status, content):
    """Calls of a server that answers each request in one piece, on connections that are kept."""
    head = f"HTTP/1.1 {status} -\r\nContent-Length: {len(content)}\r\n\r\n".encode()

    async def serve(reader, writer):
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                lines = (await reader.readuntil(b"\r\n\r\n")).lower().split(b"\r\n")
                lengths = [line[15:] for line in lines if line.startswith(b"content-length:")]
                await reader.readexactly(int((lengths or [b"0"])[0]))
                writer.write(head + content)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with aclosing(Client(f"http://127.0.0.1:{port}", silence_s=30)) as client:
            yield Calls(client, until=0.0)


@pytest.mark.parametrize("call", [_whole, _get, _stream, _pairs])
@pytest.mark.parametrize("status", [200, 400, 429, 502])
async def test_a_call_given_up_at_any_step_of_the_loop_leaves_a_client_that_answers(call, status):
    content = {_stream: _EVENTS, _pairs: _SCORES}.get(call, b"{}")
    async with answering(status, content) as calls:

        async def outcome():
            try:
                return await call(calls)
            except (Unreachable, Rejected, Overloaded) as error:
                return type(error)

        async with asyncio.timeout(60):
            expected = await outcome()
            num_steps, has_ended = 0, False
            while not has_ended:
                given_up = asyncio.create_task(call(calls))
                for _ in range(num_steps):
                    await asyncio.sleep(0)
                has_ended = given_up.done()
                given_up.cancel()
                await asyncio.gather(given_up, return_exceptions=True)
                assert await outcome() == expected
                num_steps += 1
    assert num_steps > 4


@pytest.mark.parametrize("excepted", ["", "127.0.0.1"])
async def test_calls_go_by_the_proxy_that_the_environment_names(counted, monkeypatch, excepted):
    url, calls, _, go = counted
    go.set()
    monkeypatch.setenv("http_proxy", url)
    monkeypatch.setenv("no_proxy", excepted)
    async with aclosing(Client("http://127.0.0.1:1", silence_s=30)) as client:
        if excepted:
            with pytest.raises(Unconnected, match="no connection can be made"):
                await get(client, "/")
        else:
            assert await get(client, "/") == b"ok"
    assert calls.total() == (not excepted)
