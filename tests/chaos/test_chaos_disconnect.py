"""Clients that leave, on a real socket: their work ends with them."""

import asyncio
import json
import threading

import pytest

from tests.chaos.listening import listening
from tests.conftest import GENERATE, until

pytestmark = pytest.mark.anyio

BODY = json.dumps(
    {"prompt": "What is the capital of France?", "max_new_tokens": 8, "cache": False}
).encode()
HEAD = f"POST {GENERATE} HTTP/1.1\r\nHost: cocoa\r\nContent-Type: application/json\r\n".encode()
REQUEST = HEAD + f"Content-Length: {len(BODY)}\r\n\r\n".encode() + BODY


async def send(port, data):
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    await writer.drain()
    return writer


def leave_by_close(writer):
    writer.close()


def leave_by_reset(writer):
    writer.transport.abort()


@pytest.mark.parametrize("leave", [leave_by_close, leave_by_reset], ids=["close", "reset"])
async def test_a_client_that_leaves_frees_its_place_and_ends_its_generation(leave):
    async with listening(admission_limit=1) as (service, port, gate):
        writer = await send(port, REQUEST)
        await until(lambda: gate.num_started == 1)
        assert (await service.generate()).status_code == 429
        leave(writer)
        await until(lambda: service.admission.num_admitted == 0)
        assert gate.num_cancelled == 1
        gate.opened.set()
        assert (await service.generate()).status_code == 200
        metrics = (await service.client.get("/metrics")).text
        assert f'cocoa_requests_total{{route="{GENERATE}",status="499"}} 1.0' in metrics
        assert 'cocoa_errors_total{code="overloaded"} 1.0' in metrics, "the 429"
        assert 'cocoa_errors_total{code="internal_error"} 0.0' in metrics


async def test_many_clients_that_leave_harm_none_that_stay():
    async with listening() as (service, port, gate):
        leaving = [await send(port, REQUEST) for _ in range(16)]
        staying = [asyncio.create_task(service.generate(seed=seed)) for seed in range(16)]
        await until(lambda: gate.num_started == 32)
        for writer in leaving:
            writer.close()
        await until(lambda: service.admission.num_admitted == 16)
        assert gate.num_cancelled == 16
        gate.opened.set()
        assert {(await request).status_code for request in staying} == {200}
        assert service.admission.num_admitted == 0


async def test_a_client_that_leaves_while_its_pairs_are_scored_frees_its_place():
    async with listening() as (service, port, gate):
        gate.opened.set()
        scoring, go_on, score = threading.Event(), threading.Event(), service.pair_model.score

        def held(pairs):
            scoring.set()
            assert go_on.wait(30)
            return score(pairs)

        service.pair_model.score = held
        writer = await send(port, REQUEST)
        await until(scoring.is_set)
        writer.close()
        await until(lambda: service.admission.num_admitted == 0)
        go_on.set()
        assert (await service.generate()).status_code == 200


async def test_a_client_that_leaves_in_the_middle_of_its_body_starts_no_work():
    async with listening() as (service, port, gate):
        writer = await send(port, REQUEST[:-10])
        writer.close()
        gate.opened.set()
        assert (await service.generate()).status_code == 200
        assert gate.num_started == 1


async def test_a_connection_serves_one_request_after_another():
    async with listening() as (service, _, gate):
        gate.opened.set()
        for seed in range(3):
            response = await service.generate(seed=seed)
            assert (response.status_code, response.json()["provenance"]["seed"]) == (200, seed)
