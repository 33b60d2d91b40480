"""Keys and ports of real processes: limits that gateways share while Redis lets them."""

import asyncio
import json
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from typer.testing import CliRunner

from app.cli import app
from tests.chaos.cocoa_process import WITHIN_S, cocoa_serve, outcome, until
from tests.chaos.listening import listening
from tests.chaos.redis_server import running_redis
from tests.conftest import GENERATE
from tests.conftest import until as until_async
from tests.made_keys import bearer, key_of, keys_in, keys_toml

SHARED = "cocoa_key_limits_breaker_open"
FAKE = {"COCOA_GENERATION__ENGINE": "fake"}


@pytest.fixture
def redis_server(tmp_path):
    with running_redis(tmp_path) as server:
        yield server


@pytest.fixture
def gateways(tmp_path, redis_server):
    """Two gateways with the same keys and the same Redis."""
    keys = keys_in(tmp_path, hundred={"requests_per_minute": 100}, two={"max_concurrent": 2})
    environment = FAKE | {
        "COCOA_KEYS__FILE": keys.file,
        "COCOA_CACHE__URL": redis_server.url,
        "COCOA_CACHE__TIMEOUT_S": "0.5",  # generous: a busy machine is no fault
    }
    with ExitStack() as stack:
        made = [stack.enter_context(cocoa_serve(**environment)) for _ in range(2)]
        for gateway in made:
            gateway.wait_ready()
            gateway.wait_metric(SHARED, 0)
            gateway.wait_metric("cocoa_cache_breaker_open", 0)
        yield made


def passed(gateways, count, name="hundred"):
    """How many of so many requests pass, sent to the gateways in turn; the others are 429."""
    outcomes = []
    for number in range(count):
        response = gateways[number % len(gateways)].generate("Hi", bearer(name), seed=1)
        outcomes.append(outcome(response))
    assert set(outcomes) <= {(200, None), (429, "rate_limited")}
    return outcomes.count((200, None))


def test_two_gateways_share_a_limit_and_each_has_its_own_while_redis_is_gone(
    gateways, redis_server
):
    began_at = time.monotonic()
    within_limit = passed(gateways, 150)
    flows_in = 100 / 60 * (time.monotonic() - began_at) + 1
    assert 100 <= within_limit <= 100 + flows_in

    redis_server.kill()
    # Each has counted some fifty of its own; what is left is its own affair.
    began_at = time.monotonic()
    without_redis = passed(gateways, 150)
    flows_in = 2 * 100 / 60 * (time.monotonic() - began_at) + 2
    assert 80 <= without_redis <= 100 + flows_in + 2 * 100 / 60 * WITHIN_S
    for gateway in gateways:
        gateway.wait_metric(SHARED, 1)
        assert gateway.get("/readyz").status_code == 200

    redis_server.start()
    for gateway in gateways:
        gateway.wait_metric(SHARED, 0)
    # An empty Redis knows of nothing that was used, and each process of its own.
    assert passed(gateways, 2) <= 2


def test_a_redis_that_answers_nothing_costs_one_request_its_time_limit(gateways, redis_server):
    redis_server.stop()
    began_at = time.monotonic()
    assert passed(gateways, 20) == 20
    assert time.monotonic() - began_at < WITHIN_S / 2, "not one after another for each request"
    redis_server.cont()
    for gateway in gateways:
        gateway.wait_metric(SHARED, 0)


def test_a_service_does_not_start_with_keys_that_it_cannot_read(tmp_path):
    file = tmp_path / "keys.toml"
    file.write_text(keys_toml(one={"requests_per_second": 1}))
    with cocoa_serve(COCOA_KEYS__FILE=str(file), **FAKE) as process:
        assert process.exit_code() == 2
    [line] = [json.loads(line) for line in process.log]
    assert "COCOA_KEYS__FILE: entry 1: requests_per_second" in line["message"]


def test_ask_sends_the_key_of_its_environment_and_needs_none_of_its_own_models(
    tmp_path, monkeypatch
):
    keys = keys_in(tmp_path, one={})
    monkeypatch.setenv("COCOA_KEYS__FILE", keys.file)
    for name, value in FAKE.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("COCOA_SIMILARITY__NAME", "fake")
    with cocoa_serve(COCOA_KEYS__FILE=keys.file, **FAKE) as process:
        process.wait_ready()
        ask = ["ask", "Hi", "--url", process.url, "--max-new-tokens", "8"]
        assert "unauthorized" in CliRunner().invoke(app, ask).output
        asked = CliRunner().invoke(app, ask, env={"COCOA_ASK_KEY": key_of("one")})
        assert asked.exit_code == 0, asked.output
    assert CliRunner().invoke(app, ["ask", "Hi", "--max-new-tokens", "8"]).exit_code == 0


def test_operation_has_a_port_of_its_own_and_answers_there_until_the_last_request_is(tmp_path):
    gate = tmp_path / "gate"
    with (
        cocoa_serve(
            COCOA_GENERATION__ENGINE="gated", COCOA_TEST_GATE=str(gate), COCOA_OPS_PORT="0"
        ) as process,
        ThreadPoolExecutor(1) as threads,
    ):
        until(lambda: len(process.urls) == 2)
        ops = process.urls[1]

        def at_ops(path):
            return process.get(path, ops)

        until(lambda: at_ops("/readyz").status_code == 200)
        assert process.get("/livez").status_code == process.get("/metrics").status_code == 404
        assert process.get("/version").json() == at_ops("/version").json()
        request = threads.submit(process.generate, "wait")
        until(lambda: "\ncocoa_admitted_requests 1.0\n" in at_ops("/metrics").text)

        process.popen.terminate()
        until(lambda: at_ops("/readyz").status_code == 503)
        assert at_ops("/livez").status_code == 200
        process.wait_deaf()
        gate.touch()
        assert outcome(request.result(WITHIN_S)) == (200, None)
        assert process.exit_code() == 0


@pytest.mark.parametrize("dies", [False, True], ids=["a second signal", "a model that dies"])
def test_with_two_ports_the_process_ends_as_with_one(tmp_path, dies):
    with (
        cocoa_serve(
            COCOA_GENERATION__ENGINE="dying",
            COCOA_TEST_GATE=str(tmp_path / "gate"),
            COCOA_OPS_PORT="0",
            COCOA_DRAIN_S="1",
        ) as process,
        ThreadPoolExecutor(1) as threads,
    ):
        until(lambda: len(process.urls) == 2)
        until(lambda: process.get("/readyz", process.urls[1]).status_code == 200)
        request = threads.submit(process.generate, "die" if dies else "wait")
        if not dies:
            admitted = "\ncocoa_admitted_requests 1.0\n"
            until(lambda: admitted in process.get("/metrics", process.urls[1]).text)
            process.popen.terminate()
        assert outcome(request.result(WITHIN_S)) == (503, "not_ready")
        assert process.exit_code() == (1 if dies else 0)


@pytest.mark.anyio
async def test_streams_whose_readers_leave_free_the_places_and_turns_of_their_key(tmp_path):
    keys = keys_in(tmp_path, shared_rows=2, one={"max_concurrent": 20}, other={})
    body = json.dumps({"prompt": "Hi", "max_new_tokens": 8, "stream": True, "cache": False})
    head = f"POST {GENERATE} HTTP/1.1\r\nHost: cocoa\r\nContent-Type: application/json\r\n"
    head += f"Authorization: {bearer('one')['Authorization']}\r\n"
    request = f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode()
    async with listening(access={"keys": keys}) as (service, port, gate):
        for _ in range(3):
            connections = []
            for _ in range(20):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(request)
                connections.append(writer)
            await until_async(lambda: service.admission.num_admitted == 20)
            refused = await service.client.get("/version", headers=bearer("one"))
            assert outcome(refused) == (429, "rate_limited")
            for writer in connections:
                writer.close()
            await until_async(lambda: service.admission.num_admitted == 0)
            assert service.admission.num_waiting == 0
        gate.opened.set()
        answered = await service.client.post(
            GENERATE, json={"prompt": "Hi", "max_new_tokens": 8}, headers=bearer("one")
        )
        assert outcome(answered) == (200, None)
