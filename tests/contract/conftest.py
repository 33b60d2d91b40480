"""The generators that the contract of engines is tried on."""

import pytest

from tests.contract.generators import BUILDERS, REMOTE, SERVERS, over_server, running
from tests.worker_servers import remote_generator


@pytest.fixture(params=[*BUILDERS, *REMOTE, *SERVERS])
async def generator(request, anyio_backend):
    if request.param in SERVERS:
        async with over_server(**SERVERS[request.param]) as generator:
            yield generator
        return
    if request.param in BUILDERS:
        async with running(BUILDERS[request.param]) as worker:
            yield worker
        return
    async with running(REMOTE[request.param]) as worker, remote_generator(worker) as remote:
        remote._engine = worker._engine
        yield remote
