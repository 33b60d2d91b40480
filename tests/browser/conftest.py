"""One browser and one service for all tests of a process."""

import pytest

from tests.browser.chromium import chromium
from tests.browser.pages import embedded_service


@pytest.fixture(scope="session")
async def browser(anyio_backend):
    async with chromium() as running:
        yield running


@pytest.fixture(scope="session")
async def url(anyio_backend, browser):
    """URL of the service, over the embedded models."""
    async with embedded_service() as running:
        yield running
