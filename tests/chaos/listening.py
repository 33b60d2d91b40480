"""The service behind uvicorn on a free port, with a gate before its generations."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace

import httpx

from app.http.connections import ConnectionLimits
from app.settings import Limits
from tests.conftest import serving
from tests.worker_servers import listening as served


class Gate:
    """Stands before every generation: counts who waits and who was cancelled."""

    def __init__(self, service):
        self.num_started = self.num_cancelled = 0
        self.opened = asyncio.Event()
        service.before_generating(self._pass)

    async def _pass(self, request):
        self.num_started += 1
        try:
            await self.opened.wait()
        except asyncio.CancelledError:
            self.num_cancelled += 1
            raise


@asynccontextmanager
async def listening(limits=None, **generation):
    """The service behind uvicorn on a free port: (service, port, gate before its generations)."""
    limits = limits or Limits()
    async with serving(limits=limits, **generation) as service:
        protocol = ConnectionLimits(limits, service.telemetry).protocol
        async with (
            served(service.app, http=protocol, ws="none", access_log=False) as port,
            httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30) as client,
        ):
            listened = replace(service, client=client)
            yield listened, port, Gate(listened)
