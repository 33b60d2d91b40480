"""The service behind uvicorn on a free port, with a gate before its generations."""

import asyncio
import socket
from contextlib import asynccontextmanager
from dataclasses import replace

import httpx
import uvicorn

from app.http.connections import ConnectionLimits
from app.settings import Limits
from tests.conftest import serving, until


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
        with socket.create_server(("127.0.0.1", 0)) as listener:
            server = uvicorn.Server(
                uvicorn.Config(
                    service.app,
                    http=ConnectionLimits(limits, service.telemetry).protocol,
                    lifespan="off",
                    ws="none",
                    log_config=None,
                    access_log=False,
                )
            )
            running = asyncio.create_task(server.serve(sockets=[listener]))
            port = listener.getsockname()[1]
            await until(lambda: server.started)
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
                listened = replace(service, client=client)
                yield listened, port, Gate(listened)
            server.should_exit = True
            await running
