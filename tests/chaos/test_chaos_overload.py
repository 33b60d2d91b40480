"""More requests than places: each ends at once in a result or a 429, and the service goes on."""

import asyncio

import pytest

from tests.conftest import serving, until

pytestmark = pytest.mark.anyio


def hold(service):
    """Every generation waits for the returned event."""
    gate = asyncio.Event()
    service.before_generating(lambda request: gate.wait())
    return gate


async def test_of_200_requests_at_once_32_are_answered_and_the_others_told_to_come_back():
    async with serving(admission_limit=32) as service, asyncio.timeout(60):
        gate = hold(service)
        requests = [asyncio.create_task(service.generate(seed=seed)) for seed in range(200)]
        await until(lambda: sum(request.done() for request in requests) == 168)
        assert service.admission.num_admitted == 32
        gate.set()
        responses = await asyncio.gather(*requests)
        statuses = [response.status_code for response in responses]
        assert (statuses.count(200), statuses.count(429)) == (32, 168)
        refusals = [response for response in responses if response.status_code == 429]
        assert all(response.json()["error"]["code"] == "overloaded" for response in refusals)
        assert all(1 <= int(response.headers["retry-after"]) <= 60 for response in refusals)
        assert service.admission.num_admitted == 0
        assert (await service.generate()).status_code == 200


async def test_a_full_service_still_answers_health_checks_and_metrics():
    async with serving(admission_limit=1) as service, asyncio.timeout(60):
        gate = hold(service)
        request = asyncio.create_task(service.generate())
        await until(lambda: service.admission.num_admitted == 1)
        for path in ("/livez", "/readyz", "/version", "/estimators"):
            assert (await service.client.get(path)).status_code == 200
        assert "cocoa_admitted_requests 1.0" in (await service.client.get("/metrics")).text
        gate.set()
        assert (await request).status_code == 200


async def test_requests_that_pass_their_deadline_free_their_places():
    async with serving(admission_limit=4) as service, asyncio.timeout(60):
        hold(service)
        for _ in range(2):
            responses = await asyncio.gather(*(service.generate(timeout_s=0.02) for _ in range(4)))
            assert [response.status_code for response in responses] == [504] * 4
        assert service.admission.num_admitted == 0
