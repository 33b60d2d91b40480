"""A server in a thread of the test that stands where a worker should, and what it costs others."""

import gzip
import re
import socket
import threading
import time
from contextlib import contextmanager
from itertools import repeat
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from models.codec import to_json
from tests.fakes.engine import FakeEngine
from workers.generation import GenerationWorker
from workers.remote import wire

MB = 1_000_000


@contextmanager
def serving_thread(app):
    """Port of an application that a thread serves."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = server.force_exit = True
            thread.join()


def worker_that_says(pieces, **headers):
    """An application that says what a worker is, and answers calls with what `pieces` yields."""
    info = to_json(wire.GenerationInfo(GenerationWorker(FakeEngine()).info))

    async def tell(request: Request) -> Response:
        return Response(info)

    async def answer(request: Request) -> Response:
        digest = wire.digest_of_call("/v1/generate", await request.body())

        async def said():
            if not headers:
                yield digest
            for piece in pieces():
                yield piece

        return StreamingResponse(said(), headers=headers)

    return Starlette(
        routes=[Route("/v1/info", tell), Route("/v1/generate", answer, methods=["POST"])]
    )


def endless_line():
    """Says a line of 2 GB."""
    return lambda: repeat(b"x" * MB, 2000)


def bomb():
    """Says 600 kB of gzip that stand for 600 MB."""
    packed = gzip.compress(bytes(600 * MB))
    return lambda: [packed]


class Watched:
    """What a process uses while the context is open.

    Attributes:
        before_mb: resident memory as it begins.
        peak_mb: the most since then.
        longest_s: that `/livez` took, asked every 5 ms.
    """

    def __init__(self, process):
        self._process = process
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._ask)
        self.longest_s = self.peak_mb = 0.0

    def __enter__(self):
        self._process.get("/livez")
        self.before_mb = self._resident_mb("VmRSS")
        # From here on VmHWM is the peak of what follows.
        Path(f"/proc/{self._process.popen.pid}/clear_refs").write_text("5")
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()
        self.peak_mb = self._resident_mb("VmHWM")

    def __str__(self):
        return f"{self.before_mb:.0f} → {self.peak_mb:.0f} MB, /livez {self.longest_s:.2f} s"

    def _ask(self):
        while not self._over.wait(0.005):
            began_at = time.monotonic()
            self._process.get("/livez")
            self.longest_s = max(self.longest_s, time.monotonic() - began_at)

    def _resident_mb(self, name):
        status = Path(f"/proc/{self._process.popen.pid}/status").read_text()
        return int(re.search(rf"{name}:\s+(\d+) kB", status)[1]) / 1024
