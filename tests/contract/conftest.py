"""The generators that the contract of engines is tried on."""

from contextlib import asynccontextmanager

import pytest

from tests.contract.generators import BUILDERS, REMOTE, SERVERS, over_server, running
from tests.worker_servers import remote_generator


@asynccontextmanager
async def made(name):
    if name in SERVERS:
        async with over_server(**SERVERS[name]) as generator:
            yield generator
    elif name in BUILDERS:
        async with running(BUILDERS[name]) as worker:
            yield worker
    else:
        async with running(REMOTE[name]) as worker, remote_generator(worker) as remote:
            remote.engine = worker.engine
            yield remote


@pytest.fixture(params=[*BUILDERS, *REMOTE, *SERVERS], scope="module")
async def generator(request, anyio_backend):
    """One for all tests of a file: finding out what a server is takes longer than to ask it."""
    async with made(request.param) as generator:
        yield generator


@pytest.fixture(params=[*BUILDERS, *REMOTE, *SERVERS])
async def closing_generator(request, anyio_backend):
    """One of its own for a test that ends it."""
    async with made(request.param) as generator:
        yield generator
