"""The service over embedded models, in the test's own process."""

from contextlib import asynccontextmanager

import httpx
import pytest

from app.main import create_app
from app.settings import Settings


@asynccontextmanager
async def embedded_service(settings=None, plugins=None):
    """A client of the service, once it is ready; `client.app` is the application."""
    settings = settings or Settings()
    app = create_app(settings, lambda: pytest.fail("a model has died"), plugins)
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://cocoa", timeout=60) as client,
    ):
        await app.state.service.supervisor.ready.wait()
        client.app = app
        yield client
