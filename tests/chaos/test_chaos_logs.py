"""`cocoa serve` as a process whose log nobody reads, or nobody can."""

import fcntl
import os
import signal
import subprocess
from contextlib import contextmanager

import httpx
import pytest

from tests.chaos.cocoa_process import PROGRAM, WITHIN_S, environment_of, until
from tests.chaos.redis_server import free_port
from tests.conftest import GENERATE

BODY = {"prompt": "Hello", "max_new_tokens": 8}
NUM_REQUESTS = 100
PIPE_BYTES = 4096


@contextmanager
def unread_serve(stderr, **options):
    """A process that is ready, and a client of it."""
    port = free_port()
    command = [*PROGRAM, "serve", "--port", str(port)]
    environment = environment_of(COCOA_GENERATION__ENGINE="fake", COCOA_LOG_LEVEL="debug")
    with (
        subprocess.Popen(command, env=environment, stderr=stderr, **options) as popen,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=WITHIN_S) as client,
    ):
        try:
            until(lambda: is_ready(client))
            yield popen, client
        finally:
            popen.kill()


def is_ready(client):
    try:
        return client.get("/readyz").status_code == 200
    except httpx.TransportError:
        return False


def test_a_reader_that_does_not_read_holds_up_neither_requests_nor_the_end():
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    try:
        with unread_serve(writing) as (popen, client):
            for seed in range(NUM_REQUESTS):
                assert client.post(GENERATE, json=BODY | {"seed": seed}).status_code == 200
                assert client.get("/livez").status_code == 200
            popen.send_signal(signal.SIGTERM)
            assert popen.wait(WITHIN_S) == 0
        assert len(os.read(reading, 2 * PIPE_BYTES)) >= PIPE_BYTES // 2, "it was full"
    finally:
        os.close(reading)
        os.close(writing)


@pytest.mark.parametrize("closed", ["by its reader", "from the start"])
def test_a_closed_stderr_harms_nothing_and_its_lines_are_counted(closed):
    reading, writing = os.pipe()
    os.close(reading)
    options = {"preexec_fn": lambda: os.close(2)} if closed == "from the start" else {}
    try:
        with unread_serve(writing, **options) as (popen, client):
            assert client.post(GENERATE, json=BODY).status_code == 200
            until(lambda: num_lost(client) > 0)
            popen.send_signal(signal.SIGTERM)
            assert popen.wait(WITHIN_S) == 0
    finally:
        os.close(writing)


def num_lost(client):
    lines = client.get("/metrics").text.splitlines()
    (told,) = (line for line in lines if line.startswith("cocoa_lost_log_lines_total "))
    return float(told.split()[1])
