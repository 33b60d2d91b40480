"""Connections of strangers, on real sockets: slow, greedy and strange ones harm nobody else."""

import asyncio
import json
import resource
import socket
from contextlib import ExitStack, asynccontextmanager, contextmanager

import httpx
import pytest

from app.http import connections
from app.settings import Limits
from tests.chaos.cocoa_process import cocoa_serve
from tests.chaos.cocoa_process import until as until_true
from tests.chaos.listening import listening
from tests.chaos.test_chaos_disconnect import BODY, REQUEST
from tests.conftest import GENERATE, until

pytestmark = pytest.mark.anyio

WITHIN_S = 30
HASTY = Limits(max_head_s=0.3, max_body_s=0.3)
LIVEZ = b"GET /livez HTTP/1.1\r\nHost: cocoa\r\n\r\n"


class Client:
    """One connection, byte by byte."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer

    async def send(self, data):
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self):
        """Status and body of the next response."""
        async with asyncio.timeout(WITHIN_S):
            head = await self.reader.readuntil(b"\r\n\r\n")
            lines = head.decode().lower().split("\r\n")
            (length,) = (line for line in lines if line.startswith("content-length: "))
            body = await self.reader.readexactly(int(length.split()[1]))
        return int(head.split()[1]), json.loads(body)

    async def status(self):
        """Of the next response, which has no body."""
        async with asyncio.timeout(WITHIN_S):
            head = await self.reader.readuntil(b"\r\n\r\n")
        return int(head.split()[1])

    async def error(self):
        """Status and code of the next response, which has the one shape."""
        status, content = await self.answer()
        error = content["error"]
        assert error.keys() == {"code", "message", "field", "details", "request_id"}
        return status, error["code"]

    async def closed(self):
        """What came until the connection was closed."""
        try:
            return await asyncio.wait_for(self.reader.read(), WITHIN_S)
        except ConnectionResetError:
            return b""


@asynccontextmanager
async def connected(port):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Client(reader, writer)
    finally:
        writer.transport.abort()


def post(*headers, body=BODY, framed=True):
    lines = [f"POST {GENERATE} HTTP/1.1", "Host: cocoa", *headers]
    if framed:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


def chunked(body, size):
    chunks = [body[start : start + size] for start in range(0, len(body), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"


# what is sent: bytes, and the error that ends the connection (none: it is closed without a word)
SLOW = {
    "nothing": (b"", None),
    "half a request line": (b"GET /live", (408, "request_timeout")),
    "half a head": (LIVEZ[:-2], (408, "request_timeout")),
    "empty lines": (b"\r\n" * 3, (408, "request_timeout")),
    "half a body": (REQUEST[:-5], (408, "request_timeout")),
    "half a chunk": (
        post("Transfer-Encoding: chunked", framed=False, body=b"ff\r\nabc"),
        (408, "request_timeout"),
    ),
    "half of too large a body": (
        post("Content-Length: 2000000", framed=False),
        (413, "body_too_large"),
    ),
}


@pytest.mark.parametrize(("sent", "error"), SLOW.values(), ids=SLOW)
async def test_a_client_that_sends_and_waits_is_told_and_its_connection_closed(sent, error):
    async with listening(limits=HASTY) as (_, port, gate), connected(port) as client:
        await client.send(sent)
        if error is not None:
            assert await client.error() == error
        assert await client.closed() == b""
        assert gate.num_started == 0


async def test_empty_lines_do_not_keep_a_connection_after_its_answer():
    async with listening(limits=HASTY) as (_, port, _), connected(port) as client:
        await client.send(LIVEZ)
        assert await client.answer() == (200, {"status": "alive"})
        await client.send(b"\r\n")
        await client.closed()


@pytest.mark.parametrize("path", ["/livez", "/", "/version", GENERATE])
async def test_head_is_answered_without_a_body(path):
    async with listening() as (_, port, _), connected(port) as client:
        await client.send(f"HEAD {path} HTTP/1.1\r\nHost: cocoa\r\n\r\n".encode())
        assert await client.status() == (405 if path == GENERATE else 200)
        await client.send(LIVEZ)
        assert (await client.answer())[0] == 200, "nothing else came before it"


async def test_a_client_of_http_1_0_gets_its_stream_without_chunks():
    body = json.dumps(json.loads(BODY) | {"stream": True}).encode()
    head = f"POST {GENERATE} HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: {len(body)}"
    async with listening() as (_, port, gate), connected(port) as client:
        gate.opened.set()
        await client.send(f"{head}\r\n\r\n".encode() + body)
        answered, _, events = (await client.closed()).partition(b"\r\n\r\n")
        assert answered.startswith(b"HTTP/1.1 200")
        assert b"connection: close" in answered
        assert b"transfer-encoding" not in answered
        assert events.startswith(b"event: token\ndata: {")
        assert events.endswith(b"}\n\n")


async def test_a_client_may_wait_as_long_as_its_answer_takes():
    async with listening(limits=HASTY) as (_, port, gate), connected(port) as client:
        await client.send(REQUEST)
        await client.send(LIVEZ[:10])
        await asyncio.sleep(3 * HASTY.max_head_s + 1)
        gate.opened.set()
        assert (await client.answer())[0] == 200
        await client.send(LIVEZ[10:])
        assert (await client.answer())[0] == 200


# what is sent
GREEDY = {
    "a header of 40 kB": post(f"X-Large: {'x' * 40_000}"),
    "a header of 1 MB without an end": b"GET / HTTP/1.1\r\nX-Large: " + b"x" * 1_000_000,
    "a target of 40 kB": b"GET /" + b"x" * 40_000 + b" HTTP/1.1\r\nHost: cocoa\r\n\r\n",
    "101 headers": post(*[f"X-{number}: 1" for number in range(99)]),
    "10,000 headers": post(*[f"X-{number}: 1" for number in range(10_000)]),
    "10,000 trailers": post(
        "Transfer-Encoding: chunked", framed=False, body=b"0\r\n" + b"X-Trailer: 1\r\n" * 10_000
    ),
    "a chunk's extension of 1 MB": post(
        "Transfer-Encoding: chunked", framed=False, body=b"1;a=" + b"x" * 1_000_000
    ),
}


@pytest.mark.parametrize("sent", GREEDY.values(), ids=GREEDY)
async def test_a_head_of_many_bytes_or_lines_is_refused_before_it_is_kept(sent):
    async with listening() as (_, port, gate), connected(port) as client:
        sending = asyncio.create_task(client.send(sent))
        assert await client.error() == (431, "head_too_large")
        await client.closed()
        await asyncio.wait([sending])
        assert gate.num_started == 0


async def test_a_head_within_the_limits_and_small_chunks_are_read():
    body = BODY + b" " * 5000
    headers = [f"X-{number}: {'x' * 250}" for number in range(97)]
    async with listening() as (_, port, gate), connected(port) as client:
        gate.opened.set()
        await client.send(post(*headers))
        assert (await client.answer())[0] == 200
        await client.send(post("Transfer-Encoding: chunked", framed=False, body=chunked(body, 1)))
        assert (await client.answer())[0] == 200


H2C = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk")
# what is sent
OFFERS = {
    "with a length": post(*H2C),
    "by chunks": post(*H2C, "Transfer-Encoding: chunked", framed=False, body=chunked(BODY, 10)),
    "to a websocket": post("Connection: Upgrade", "Upgrade: websocket"),
}


@pytest.mark.parametrize("sent", OFFERS.values(), ids=OFFERS)
@pytest.mark.parametrize("parts", [1, 2, 50])
async def test_a_post_that_offers_an_upgrade_keeps_its_body_and_its_connection(sent, parts):
    async with listening() as (_, port, gate), connected(port) as client:
        gate.opened.set()
        size = -(-len(sent) // parts)
        for start in range(0, len(sent), size):
            await client.send(sent[start : start + size])
            await asyncio.sleep(0.001)
        status, answer = await client.answer()
        assert (status, answer["text"] != "") == (200, True)
        await client.send(LIVEZ)
        assert await client.answer() == (200, {"status": "alive"})


async def test_a_get_that_offers_h2c_is_answered():
    async with listening() as (_, port, _), connected(port) as client:
        await client.send(LIVEZ[:-2] + "\r\n".join([*H2C, "", ""]).encode() + LIVEZ)
        for _ in range(2):
            assert await client.answer() == (200, {"status": "alive"})


@pytest.mark.parametrize(
    ("length", "error"),
    [("1" * 5000, (400, "invalid_http")), ("1" * 19, (413, "body_too_large"))],
    ids=["5,000 digits", "19 digits"],
)
async def test_a_length_that_no_body_has_is_refused(length, error):
    async with listening() as (_, port, _), connected(port) as client:
        await client.send(post(f"Content-Length: {length}", framed=False))
        assert await client.error() == error


@pytest.mark.parametrize("length", [5, len(BODY) - 1, 0], ids=["5", "one less", "none"])
async def test_a_body_that_is_longer_than_its_length_is_refused_in_words(length):
    async with listening() as (_, port, _), connected(port) as client:
        await client.send(post(f"Content-Length: {length}", framed=False))
        assert await client.error() == (400, "invalid_http")
        assert await client.closed() == b""


async def test_a_length_of_5000_zeros_is_no_length_at_all():
    async with listening() as (_, port, gate), connected(port) as client:
        gate.opened.set()
        await client.send(post(f"Content-Length: {'0' * 5000}{len(BODY)}", framed=False))
        assert (await client.answer())[0] == 200


async def test_2001_pipelined_requests_are_answered_in_their_order():
    async with listening() as (_, port, _), connected(port) as client:
        request = "GET /livez HTTP/1.1\r\nHost: cocoa\r\nX-Request-ID: {}\r\n\r\n"
        sent = "".join(request.format(f"id-{number}") for number in range(2001)).encode()
        sending = asyncio.create_task(client.send(sent))
        ids = []
        for _ in range(2001):
            head = await asyncio.wait_for(client.reader.readuntil(b"\r\n\r\n"), WITHIN_S)
            assert head.startswith(b"HTTP/1.1 200")
            ids.append(head.partition(b"x-request-id: ")[2].split()[0].decode())
            await client.reader.readexactly(len('{"status":"alive"}'))
        await sending
        assert ids == [f"id-{number}" for number in range(2001)]


async def test_a_client_that_does_not_read_is_closed(monkeypatch):
    monkeypatch.setattr(connections, "_WRITE_S", 0.2)
    async with listening() as (service, port, _), connected(port) as client:
        ask = b"GET /openapi.json HTTP/1.1\r\nHost: cocoa\r\n\r\n"
        sending = asyncio.create_task(client.send(ask * 3000))
        await until(lambda: closed(service, "slow_reader") == 1)
        sending.cancel()
        await asyncio.wait([sending])


def closed(service, reason):
    registry = service.telemetry.registry
    return registry.get_sample_value("cocoa_closed_connections_total", {"reason": reason})


def counted(service, status):
    labels = {"route": "none", "status": str(status)}
    return service.telemetry.registry.get_sample_value("cocoa_requests_total", labels)


async def test_where_too_many_are_open_the_oldest_that_is_idle_makes_room():
    async with listening(limits=Limits(max_connections=2)) as (service, port, _):  # noqa: SIM117
        async with connected(port) as first, connected(port) as second, connected(port) as third:
            assert await first.closed() == b""
            for client in (second, third):
                await client.send(LIVEZ)
                assert (await client.answer())[0] == 200
            assert closed(service, "evicted") == 1


async def test_where_all_have_a_request_under_way_only_health_checks_get_in():
    async with listening(limits=Limits(max_connections=3)) as (service, port, gate):
        async with connected(port) as a, connected(port) as b, connected(port) as c:
            for number, client in enumerate((a, b, c), start=1):
                await client.send(REQUEST)
                await until(lambda number=number: gate.num_started == number)
            async with connected(port) as health, connected(port) as fourth:
                await health.send(LIVEZ)
                assert await health.answer() == (200, {"status": "alive"})
                await fourth.send(REQUEST)
                assert await fourth.error() == (429, "overloaded")
                assert await fourth.closed() == b""
            assert counted(service, 429) == 1
            gate.opened.set()
            for client in (a, b, c):
                assert (await client.answer())[0] == 200
        assert gate.num_started == 3


@contextmanager
def few_files(number):
    """Processes that begin meanwhile may open so many files."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (number, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_400_idle_connections_leave_livez_to_a_process_of_256_files():
    with ExitStack() as idle:
        with few_files(256):
            process = idle.enter_context(cocoa_serve(COCOA_GENERATION__ENGINE="fake"))
        process.wait_ready()
        for _ in range(400):
            idle.enter_context(socket.create_connection(("127.0.0.1", process.port), WITHIN_S))
        until_answered(process)
        for _ in range(20):
            assert process.get("/livez").status_code == 200
        assert process.generate("Hello").status_code == 200


def until_answered(process):
    """What comes with the burst itself may find no file left, and be closed at once."""

    def answered():
        try:
            return process.get("/livez").status_code == 200
        except httpx.TransportError:
            return False

    until_true(answered)
