"""One browser for the tests of a file."""

import pytest

from tests.browser.chromium import chromium


@pytest.fixture(scope="module")
def anyio_backend():
    return "asyncio"


@pytest.fixture(scope="module")
async def browser(anyio_backend):
    async with chromium() as running:
        yield running
