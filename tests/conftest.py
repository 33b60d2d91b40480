"""Shared by all tests: the service over fake models.

asyncio is the event loop of `@pytest.mark.anyio`.
"""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import httpx
import pytest
from fastapi import FastAPI

from app.main import create_app
from app.settings import Settings
from models.errors import ModelLost
from models.similarity.protocol import NliConfig
from workers.config import ComparerConfig, GeneratorConfig

GENERATE = "/generate-with-uncertainty"


@pytest.fixture
def anyio_backend():
    return "asyncio"


@dataclass
class Service:
    """The application over fake models and a client of it, without a socket.

    `deaths` counts calls of `on_death`.
    """

    app: FastAPI
    client: httpx.AsyncClient
    deaths: list[str] = field(default_factory=list)

    @property
    def core(self):
        return self.app.state.service

    @property
    def workers(self):
        return self.core.scorer.workers

    @property
    def admission(self):
        return self.core.scorer.admission

    @property
    def telemetry(self):
        return self.core.telemetry

    @property
    def generator(self):
        return self.workers.generator

    @property
    def engine(self):
        return self.generator._engine

    @property
    def pair_model(self):
        return self.workers.comparers["fake"]._model

    @property
    def nli_model(self):
        return self.workers.nli._model

    def before_generating(self, wait):
        """Have `wait(request)` awaited before each generation; returns what undoes it."""
        generate = self.generator.generate

        async def waiting(request, on_token=None):
            await wait(request)
            return await generate(request, on_token)

        self.generator.generate = waiting
        return lambda: delattr(self.generator, "generate")

    def generation_takes(self, delay_s):
        """Have each generation take so much longer."""
        self.before_generating(lambda request: asyncio.sleep(delay_s))

    def generation_raises(self, error):
        """Have each generation raise; returns what undoes it."""

        async def fail(request):
            raise error

        return self.before_generating(fail)

    def engine_dies(self):
        """Have the next step lose the model."""

        def lose(incoming):
            raise ModelLost("device")

        self.engine.step = lose

    def without_statistics(self, *names):
        """Have the generator supply all but these."""
        info = self.generator.info
        self.generator._info = replace(info, statistics=info.statistics - set(names))

    async def generate(self, **body):
        """POST `body`, with a prompt unless it has one.

        Unless the body has its own, `max_new_tokens` is one for which the fake engine has room.
        """
        defaults = {} if "messages" in body else {"prompt": "What is the capital of France?"}
        return await self.client.post(GENERATE, json={"max_new_tokens": 64, **defaults, **body})


@asynccontextmanager
async def serving(
    *,
    ready=True,
    limits=None,
    probes=None,
    cache=None,
    calibrator=None,
    escalation=None,
    feedback=None,
    **generation,
):
    """A `Service` under its lifespan; with `ready=False` as it is before its models are loaded."""
    deaths = []
    settings = Settings(
        generation=replace(GeneratorConfig(engine="fake"), **generation),
        similarity=ComparerConfig(name="fake"),
        nli=NliConfig(name="fake_nli", model="fake"),
        **({"limits": limits} if limits else {}),
        **({"probes": probes} if probes else {}),
        **({"cache": cache} if cache else {}),
        **({"calibrator": calibrator} if calibrator else {}),
        **({"feedback": feedback} if feedback else {}),
        **({"escalation": escalation} if escalation else {}),
    )
    app = create_app(settings, on_death=lambda: deaths.append("died"))
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://cocoa"
    ) as client:
        if not ready:
            yield Service(app, client, deaths)
            return
        async with app.router.lifespan_context(app):
            await app.state.service.supervisor.ready.wait()
            yield Service(app, client, deaths)


async def until(condition):
    """Wait for what tells nobody of its changes."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


@pytest.fixture
async def service(anyio_backend):
    """The service, ready."""
    async with serving() as running:
        yield running
