"""The service before a real Redis that is killed, stopped or full.

No request feels it, and nothing partial stays.
"""

import itertools
import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from tests.chaos.cocoa_process import WITHIN_S, cocoa_serve, outcome, until
from tests.chaos.redis_server import running_redis
from tests.conftest import GENERATE

BREAKER = "cocoa_cache_breaker_open"


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory):
    with running_redis(tmp_path_factory.mktemp("redis")) as server:
        yield server


@contextmanager
def serving(redis_server, **environment):
    # The time limit of a lookup is generous here, so that a busy machine is no fault.
    with cocoa_serve(
        COCOA_CACHE__URL=redis_server.url, COCOA_CACHE__TIMEOUT_S="0.5", **environment
    ) as process:
        process.wait_ready()
        process.wait_metric(BREAKER, 0)
        yield process


@pytest.fixture(scope="module")
def process(redis_server):
    with serving(redis_server, COCOA_GENERATION__ENGINE="fake") as running:
        yield running


@contextmanager
def load_on(process):
    """Four clients that ask old and new questions in turn; every answer must be whole."""
    ended = threading.Event()

    def ask(client):
        outcomes = set()
        for i in itertools.count():
            outcomes.add(
                outcome(
                    process.generate(f"Question {client if i % 2 else i} of {client}", seed=i % 3)
                )
            )
            if ended.is_set():
                return outcomes

    with ThreadPoolExecutor(4) as threads:
        clients = [threads.submit(ask, client) for client in range(4)]
        try:
            yield
        finally:
            ended.set()
    assert set.union(*(client.result(WITHIN_S) for client in clients)) == {(200, None)}


def limit_memory(server, num_bytes):
    with server.client() as client:
        client.config_set("maxmemory", num_bytes)


# id: (what happens to Redis, what ends it)
FAULTS = {
    "killed": (lambda server: server.kill(), lambda server: server.start()),
    "stopped": (lambda server: server.stop(), lambda server: server.cont()),
    "full": (lambda server: limit_memory(server, 1), lambda server: limit_memory(server, 0)),
}


@pytest.mark.parametrize(("begin", "end"), FAULTS.values(), ids=list(FAULTS))
def test_every_request_is_answered_while_redis_fails_and_the_cache_serves_again_afterwards(
    process, redis_server, begin, end
):
    with load_on(process):
        begin(redis_server)
        process.wait_metric(BREAKER, 1)
        assert process.get("/readyz").status_code == 200
        end(redis_server)
        process.wait_metric(BREAKER, 0)
    until(lambda: process.generate("Which is asked again?", seed=1).json()["cached"])


def entries_of(process, server, prompt):
    """Names of all entries once those of this request are stored; then there are none."""
    assert process.generate(prompt, seed=1).json()["cached"] is False
    until(lambda: process.generate(prompt, seed=1).json()["cached"])
    with server.client() as client:
        names = {key for key in client.scan_iter() if not key.endswith(b":probe")}
        client.flushall()
    return names


def vanish(process, prompt):
    body = json.dumps({"prompt": prompt, "max_new_tokens": 8}).encode()
    head = f"POST {GENERATE} HTTP/1.1\r\nHost: cocoa\r\nContent-Type: application/json\r\n"
    connection = socket.create_connection(("127.0.0.1", process.port), WITHIN_S)
    connection.sendall(head.encode() + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
    return connection


def test_what_fails_or_is_given_up_leaves_nothing_in_redis_and_what_succeeds_does(tmp_path):
    gate = tmp_path / "gate"
    with (
        running_redis(tmp_path) as redis_server,
        serving(
            redis_server, COCOA_GENERATION__ENGINE="gated", COCOA_TEST_GATE=str(gate)
        ) as process,
        ThreadPoolExecutor(4) as threads,
    ):
        control = entries_of(process, redis_server, "a control")
        late = [threads.submit(process.generate, f"wait {i}", timeout_s=0.2) for i in range(4)]
        assert {outcome(request.result(WITHIN_S)) for request in late} == {
            (504, "deadline_exceeded")
        }
        failed = [threads.submit(process.generate, f"fail {i}") for i in range(4)]
        assert {outcome(request.result(WITHIN_S)) for request in failed} == {(503, "engine_error")}
        connections = [vanish(process, f"wait {i}") for i in range(4)]
        process.wait_admitted(4)
        for connection in connections:
            connection.close()
        process.wait_admitted(0)
        # Entries are stored in order: once the control's are there again, those of the others would
        # be.
        assert entries_of(process, redis_server, "a control") == control
