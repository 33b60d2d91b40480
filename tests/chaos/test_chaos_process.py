"""`cocoa serve` as a process: how it ends.

It ends when asked to, when a model dies or hangs, and when none can be loaded.
"""

import signal
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.chaos.cocoa_process import WITHIN_S, cocoa_serve, outcome, until
from tests.conftest import GENERATE

MARKER = "zanzibar-sentinel"
MANY = 24


@pytest.fixture
def gate(tmp_path):
    return tmp_path / "gate"


@pytest.fixture
def threads():
    with ThreadPoolExecutor(MANY) as executor:
        yield executor


def test_asked_to_end_it_answers_all_that_run_accepts_no_more_and_exits_with_0(gate, threads):
    with cocoa_serve(COCOA_GENERATION__ENGINE="gated", COCOA_TEST_GATE=str(gate)) as process:
        process.wait_ready()
        requests = [threads.submit(process.generate, f"wait {i}") for i in range(MANY)]
        process.wait_admitted(MANY)
        process.popen.send_signal(signal.SIGTERM)
        process.wait_deaf()
        assert not any(request.done() for request in requests)
        gate.touch()
        assert [request.result(WITHIN_S).status_code for request in requests] == [200] * MANY
        assert process.exit_code() == 0


def test_requests_that_outlast_drain_s_end_in_typed_errors_and_the_process_with_0(gate, threads):
    with cocoa_serve(
        COCOA_GENERATION__ENGINE="gated", COCOA_TEST_GATE=str(gate), COCOA_DRAIN_S="1"
    ) as process:
        process.wait_ready()
        requests = [threads.submit(process.generate, f"wait {i}") for i in range(MANY)]
        process.wait_admitted(MANY)
        process.popen.send_signal(signal.SIGTERM)
        assert {outcome(request.result(WITHIN_S)) for request in requests} == {(503, "not_ready")}
        assert process.exit_code() == 0


def ask_until_refused(process):
    """Statuses of one request after another on a kept connection.

    It ends when the process accepts no more requests.
    """
    statuses = []
    with httpx.Client(base_url=process.url, timeout=WITHIN_S) as client:
        while True:
            try:
                response = client.post(
                    GENERATE, json={"prompt": "Hello", "max_new_tokens": 8, "cache": False}
                )
            except httpx.TransportError:
                return statuses
            statuses.append(response.status_code)


def test_asked_to_end_under_load_it_answers_in_full_or_not_at_all_and_exits_with_0(threads):
    with cocoa_serve(COCOA_GENERATION__ENGINE="fake") as process:
        process.wait_ready()
        clients = [threads.submit(ask_until_refused, process) for _ in range(8)]
        until(
            lambda: (
                f'cocoa_requests_total{{route="{GENERATE}",status="200"}}'
                in process.get("/metrics").text
            )
        )
        process.popen.send_signal(signal.SIGTERM)
        assert {status for client in clients for status in client.result(WITHIN_S)} == {200}
        assert process.exit_code() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_asked_to_end_while_its_models_load_it_does_not_wait_for_them(gate, number):
    with cocoa_serve(COCOA_GENERATION__ENGINE="loading", COCOA_TEST_GATE=str(gate)) as process:
        process.wait_listening()
        assert process.get("/readyz").status_code == 503
        process.popen.send_signal(number)
        assert process.exit_code() == 0


def test_when_its_engine_dies_all_get_503_and_it_exits_with_1_and_logs_why_but_no_prompt(
    gate, threads
):
    with cocoa_serve(
        COCOA_GENERATION__ENGINE="dying", COCOA_TEST_GATE=str(gate), COCOA_LOG_LEVEL="debug"
    ) as process:
        process.wait_ready()
        assert process.generate(MARKER).status_code == 200
        requests = [threads.submit(process.generate, f"{MARKER} wait {i}") for i in range(MANY)]
        process.wait_admitted(MANY)
        assert outcome(process.generate(f"{MARKER} die")) == (503, "not_ready")
        gate.touch()
        assert {outcome(request.result(WITHIN_S)) for request in requests} == {(503, "not_ready")}
        assert process.exit_code() == 1
        assert "generation has died" in "".join(process.log)
        assert MARKER not in "".join(process.log)


def test_when_its_similarity_model_hangs_all_get_503_and_it_exits_with_1(threads):
    with cocoa_serve(
        COCOA_GENERATION__ENGINE="fake", COCOA_SIMILARITY__NAME="hanging", COCOA_STALL_S="2"
    ) as process:
        process.wait_ready()
        requests = [threads.submit(process.generate, f"{MARKER} {i}") for i in range(MANY)]
        assert {outcome(request.result(WITHIN_S)) for request in requests} == {(503, "not_ready")}
        assert process.exit_code() == 1
        log = "".join(process.log)
        assert "similarity-hanging" in log
        assert "in score" in log, "where it hangs"
        assert MARKER not in log


def test_stopped_for_longer_than_stall_s_it_goes_on_where_it_was(threads):
    with cocoa_serve(
        COCOA_GENERATION__ENGINE="fake", COCOA_SIMILARITY__NAME="slow", COCOA_STALL_S="4"
    ) as process:
        process.wait_ready()
        request = threads.submit(process.generate, "Hello")
        process.wait_admitted()
        time.sleep(0.5)
        process.popen.send_signal(signal.SIGSTOP)
        time.sleep(6)
        process.popen.send_signal(signal.SIGCONT)
        assert request.result(WITHIN_S).status_code == 200
        assert process.get("/livez").status_code == 200


def test_when_a_model_cannot_be_loaded_it_says_so_in_one_line_and_exits_with_2():
    with cocoa_serve(COCOA_GENERATION__MODEL="/nosuch/checkpoint") as process:
        assert process.exit_code() == 2
        [line] = [line for line in process.log if '"critical"' in line]
        assert "COCOA_GENERATION__MODEL=checkpoint: no such folder: /nosuch/checkpoint;" in line
