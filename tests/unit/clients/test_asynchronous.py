"""What our own client makes of a service that goes."""

import asyncio

import pytest
from cocoa_client import AsyncClient, errors

from tests.vanishing import vanishing

pytestmark = pytest.mark.anyio
NUM_CLIENTS, NUM_CALLS = 4, 20


@pytest.fixture
def anyio_backend():
    return "asyncio", {"use_uvloop": True}


async def test_a_connection_that_ends_as_it_is_made_is_an_unreachable_service():
    async def call(url):
        met = []
        async with AsyncClient(url, max_retries=0, timeout_s=1) as client:
            for _ in range(NUM_CALLS):
                with pytest.raises((errors.Unreachable, errors.DeadlineExceeded)) as caught:
                    await client.version()
                met.append(caught.value)
        return met

    ended = []
    with vanishing() as url:
        async with asyncio.timeout(60):
            while not ended:
                for met in await asyncio.gather(*(call(url) for _ in range(NUM_CLIENTS))):
                    ended += [one for one in met if isinstance(one.__cause__, AttributeError)]
    assert str(ended[0]) == "unreachable: the connection ended as it was made"
