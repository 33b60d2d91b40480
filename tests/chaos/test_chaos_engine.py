"""The real engine in a real process, whose steps raise or hang, and whose clients vanish."""

import json
import re
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from tests.chaos.cocoa_process import WITHIN_S, cocoa_serve, outcome, until
from tests.conftest import GENERATE

MARKER = "zanzibar-sentinel"
MANY = 12
# How the metrics call a request whose client has gone.
GONE = f'cocoa_requests_total{{route="{GENERATE}",status="499"}}'


@pytest.fixture
def fault(tmp_path):
    """The file that says how the engine misbehaves, while it exists."""
    return tmp_path / "fault"


@pytest.fixture
def threads():
    with ThreadPoolExecutor(MANY) as executor:
        yield executor


@contextmanager
def serving(fault, **environment):
    with cocoa_serve(
        COCOA_GENERATION__ENGINE="broken", COCOA_TEST_FAULT=str(fault), **environment
    ) as process:
        process.wait_ready()
        yield process


def ask_many(process, threads):
    """As many requests as there are threads, each of which decodes for a while."""
    requests = []
    for i in range(MANY):
        prompt = f"{MARKER} {i} Which country is Pirot in?"
        requests.append(threads.submit(process.generate, prompt, seed=i, cache=False))
    return requests


def somebody_else(process):
    """A connection on which a request has been sent that decodes 65 rows."""
    body = json.dumps(
        {"prompt": "Somebody else", "max_new_tokens": 400, "num_samples": 64, "cache": False}
    ).encode()
    head = f"POST {GENERATE} HTTP/1.1\r\nHost: cocoa\r\nContent-Type: application/json\r\n"
    request = head.encode() + f"Content-Length: {len(body)}\r\n\r\n".encode() + body
    connection = socket.create_connection(("127.0.0.1", process.port), WITHIN_S)
    connection.sendall(request)
    return connection


def vanish(process):
    """Requests whose clients go, the first at once, each further one when more has been done."""
    for i in range(8):
        with somebody_else(process):
            time.sleep(0.005 * i)


def test_neither_steps_that_raise_nor_clients_that_vanish_harm_the_requests_after_and_beside_them(
    fault, threads
):
    with serving(fault) as process:
        healthy = process.generate("What is the capital of France?", seed=7, cache=False).json()
        fault.write_text("raise")
        assert {outcome(request.result(WITHIN_S)) for request in ask_many(process, threads)} == {
            (503, "engine_error")
        }
        assert process.get("/readyz").status_code == 200
        fault.unlink()
        again = process.generate("What is the capital of France?", seed=7, cache=False).json()
        assert (again["text"], again["scores"]) == (
            healthy["text"],
            pytest.approx(healthy["scores"], abs=1e-4),
        )

        vanish(process)
        staying = ask_many(process, threads)
        vanish(process)
        assert {request.result(WITHIN_S).status_code for request in staying} == {200}
        # How far a request has come when its client goes is chance: until one was under way.
        until(lambda: GONE in process.get("/metrics").text or vanish(process))
        process.wait_admitted(0)
    assert MARKER not in "".join(process.log)


def test_a_step_that_hangs_ends_all_in_typed_errors_and_the_process_with_1(fault, threads):
    with serving(fault, COCOA_STALL_S="5") as process:
        fault.write_text("hang")
        hurried = threads.submit(process.generate, "Hello", timeout_s=0.5)
        requests = ask_many(process, threads)
        assert outcome(hurried.result(WITHIN_S)) == (504, "deadline_exceeded")
        assert {outcome(request.result(WITHIN_S)) for request in requests} == {(503, "not_ready")}
        assert process.exit_code() == 1
        log = "".join(process.log)
        assert re.search(r"generation(, [^\s,]+)* has died", log), "with what shares its thread"
        assert "in misbehave" in log, "where it hangs"
        assert MARKER not in log
