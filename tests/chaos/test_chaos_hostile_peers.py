"""What hostile bodies, replies and readers cost real processes: memory and stalls."""

import asyncio
import json
import socket
from contextlib import ExitStack, suppress

import pytest

from tests.chaos.cocoa_process import WITHIN_S, cocoa, cocoa_serve, outcome
from tests.chaos.hostile import MB, Watched, bomb, endless_line, serving_thread, worker_that_says
from tests.conftest import GENERATE

NUM_BODIES, BODY_BYTES = 20, 64 * 1024 * 1024
PIECE = bytes(MB)
NUM_READERS = 300
# Beside what is held, a busy machine lets freed pages stand for a while.
MAX_GROWTH_MB = 60
MAX_READER_KB = 40
STREAMED = f'cocoa_requests_total{{route="{GENERATE}",status="200"}}'
MAX_LINE_GROWTH_MB = 150  # of a line up to 64 MiB, which is joined from its chunks


def test_bodies_of_whom_a_worker_does_not_know_cost_it_nothing():
    settings = {"COCOA_GENERATION__ENGINE": "fake", "COCOA_WORKER__API_KEY": "a secret"}
    with cocoa("worker", "generation", **settings) as worker:
        worker.wait_ready()
        with Watched(worker) as watched:
            answers = asyncio.run(_bodies(worker.port))
    print(f"{NUM_BODIES} bodies without a secret: {watched}")
    # Whoever goes on sending to a closed connection may lose what it was answered.
    assert {answer[:13] for answer in answers} - {b""} == {b"HTTP/1.1 401 "}
    assert watched.peak_mb - watched.before_mb < MAX_GROWTH_MB


async def _bodies(port):
    """What each of the bodies is answered; none is sent to its last byte."""
    return await asyncio.gather(*(_body(port) for _ in range(NUM_BODIES)))


async def _body(port):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"POST /v1/generate HTTP/1.1\r\nHost: worker\r\nContent-Length: {BODY_BYTES}\r\n\r\n"
    writer.write(head.encode())
    left = BODY_BYTES - 1
    answered = asyncio.create_task(reader.read(1000))
    with suppress(ConnectionError):
        while left and not writer.is_closing():
            writer.write(PIECE[:left])
            left -= min(left, len(PIECE))
            await writer.drain()
    writer.close()
    with suppress(ConnectionError):
        return await answered
    return b""


@pytest.mark.parametrize(
    ("made", "headers", "max_growth_mb"),
    [(endless_line, {}, MAX_LINE_GROWTH_MB), (bomb, {"Content-Encoding": "gzip"}, MAX_GROWTH_MB)],
    ids=["an endless line", "a bomb of gzip"],
)
def test_a_reply_without_end_costs_a_gateway_no_more_than_its_bound(made, headers, max_growth_mb):
    with ExitStack() as stack:
        port = stack.enter_context(serving_thread(worker_that_says(made(), **headers)))
        url = f"http://127.0.0.1:{port}"
        gateway = stack.enter_context(cocoa_serve(COCOA_GENERATION__URL=url))
        gateway.wait_ready()
        with Watched(gateway) as watched:
            answered = gateway.generate("Hi")
        print(f"{made.__name__}: {watched}")
        assert outcome(answered) == (503, "generation_unavailable")
        assert watched.peak_mb - watched.before_mb < max_growth_mb
        assert gateway.get("/readyz").status_code == 200


def test_readers_that_read_nothing_cost_little_and_hold_nobody_up():
    settings = {"COCOA_GENERATION__ENGINE": "fake", "COCOA_GENERATION__ADMISSION_LIMIT": "400"}
    with cocoa_serve(**settings) as gateway, ExitStack() as stack:
        gateway.wait_ready()
        for number in range(20):  # what the first requests load is no reader's
            gateway.generate(f"Hi {number}", stream=True)
        with Watched(gateway) as watched:
            readers = [stack.enter_context(_stalled(gateway, i)) for i in range(NUM_READERS)]
            gateway.wait_metric(STREAMED, 20 + NUM_READERS)
            for number in range(20):
                assert outcome(gateway.generate(f"Ho {number}")) == (200, None)
        growth_kb = 1024 * (watched.peak_mb - watched.before_mb) / NUM_READERS
        print(f"{NUM_READERS} readers that read nothing: {watched}, {growth_kb:.0f} kB each")
        assert growth_kb < MAX_READER_KB
        assert all(reader.recv(12) == b"HTTP/1.1 200" for reader in readers)


def _stalled(process, number):
    """A connection that has asked for a stream, and reads nothing of it."""
    reader = socket.socket()
    reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    reader.settimeout(WITHIN_S)
    reader.connect(("127.0.0.1", process.port))
    body = {"prompt": f"Hello {number}", "stream": True, "return_samples": True, "cache": False}
    data = json.dumps(body | {"max_new_tokens": 64, "num_samples": 4}).encode()
    head = f"POST {GENERATE} HTTP/1.1\r\nHost: cocoa\r\nContent-Length: {len(data)}\r\n\r\n"
    reader.sendall(head.encode() + data)
    return reader
