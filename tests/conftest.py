"""Shared by all tests: the service over fake models.

asyncio is the event loop of `@pytest.mark.anyio`.
"""

import asyncio
import os
import tomllib
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from importlib.metadata import entry_points
from pathlib import Path

import httpx
import hypothesis
import pytest
from fastapi import FastAPI

from app.installed import hand_over, installed
from app.main import create_app
from app.settings import settings_class
from cocoa_lab.loading import running_workers
from models.errors import ModelLost
from models.similarity.protocol import NliConfig
from tests import fakes
from tests.worker_servers import listening, make_app
from workers.build import build_workers
from workers.config import GeneratorConfig, SimilaritySettings, WorkerConfig
from workers.protocol import Served, Workers
from workers.remote.wire import GenerationInfo

fakes.register()
hand_over(installed())

# Each client reads the authorities of TLS anew, 20 ms for all of a machine: here is one.
os.environ["SSL_CERT_FILE"] = str(Path(__file__).parent / "data" / "nobody.pem")
os.environ["SSL_CERT_DIR"] = os.devnull

AllSettings = settings_class(installed())
GENERATE = "/generate-with-uncertainty"

# An installation for development has the entry points of its day.
_PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
for _group, _named in _PROJECT["entry-points"].items():
    _ours = {point.name for point in entry_points(group=_group)}
    assert _ours >= _named.keys(), "install the project anew: pip install --no-deps -e . -e lab"


# A test measures no time: on a busy machine any example may take long.
_SLOW = [hypothesis.HealthCheck.too_slow]
hypothesis.settings.register_profile(
    "untimed", deadline=None, suppress_health_check=_SLOW, max_examples=50
)
hypothesis.settings.load_profile("untimed")


@pytest.fixture(scope="session")
def anyio_backend():
    return "asyncio"


@pytest.fixture
def without_lab(monkeypatch):
    """As where the lab is not installed."""
    ours = tuple(plugin for plugin in installed() if plugin.name != "lab")
    monkeypatch.setattr("app.main.installed", lambda: ours)
    hand_over(ours)
    yield
    hand_over(installed())


@dataclass
class Service:
    """The application over fake models and a client of it, without a socket.

    `deaths` counts calls of `on_death`; `elsewhere` are the workers where they are behind HTTP.
    """

    app: FastAPI
    client: httpx.AsyncClient
    deaths: list[str] = field(default_factory=list)
    elsewhere: Workers | None = None

    @property
    def core(self):
        return self.app.state.service

    @property
    def workers(self):
        return self.elsewhere or self.core.scorer.workers

    @property
    def admission(self):
        return self.core.scorer.admission

    @property
    def telemetry(self):
        return self.core.telemetry

    def metric(self, name, **labels):
        """The value of a metric now."""
        return self.telemetry.registry.get_sample_value(name, labels)

    @property
    def generator(self):
        return self.workers.generator

    @property
    def engine(self):
        return self.generator.engine

    @property
    def pair_model(self):
        return self.workers.similarity_scorers["fake"]._model

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
        """Have each generation take so much longer; returns what undoes it."""
        return self.before_generating(lambda request: asyncio.sleep(delay_s))

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
        self.generator.info = replace(info, statistics=info.statistics - set(names))
        if self.elsewhere is not None:  # a running worker does not change what it is
            gateways = self.core.scorer.workers.generator
            gateways.upstream.server.known = GenerationInfo(self.generator.info)

    async def generate(self, **body):
        """POST `body`, with a prompt unless it has one.

        Unless the body has its own, `max_new_tokens` is one for which the fake engine has room.
        """
        defaults = {} if "messages" in body else {"prompt": "What is the capital of France?"}
        return await self.client.post(GENERATE, json={"max_new_tokens": 64, **defaults, **body})


FAKE_SIMILARITY = {
    "similarity": SimilaritySettings(name="fake"),
    "nli": NliConfig(name="fake_nli", model="fake"),
}


@asynccontextmanager
async def workers_elsewhere(config):
    """Workers behind HTTP: they themselves, and the settings of a gateway that asks them."""
    async with AsyncExitStack() as stack:
        workers = await stack.enter_async_context(running_workers(build_workers(config)))
        pair_models = Served(similarity_scorers=workers.similarity_scorers, nli=workers.nli)
        urls = []
        for one in (Served(generator=workers.generator), pair_models):
            port = await stack.enter_async_context(listening(make_app(lambda one=one: one)))
            urls.append(f"http://127.0.0.1:{port}")
        limit = config.generation.admission_limit
        yield (
            workers,
            {
                "generation": GeneratorConfig(url=urls[0], admission_limit=limit),
                "similarity": SimilaritySettings(url=urls[1], name=config.similarity.name),
            },
        )


@asynccontextmanager
async def serving(*, ready=True, placement="embedded", probes=None, access=None, **options):
    """A `Service` under its lifespan.

    Args:
        ready: False leaves it as it is before its models are loaded.
        placement: "embedded" has the models in its process, "remote" behind HTTP.
        probes: settings of them.
        access: settings of who gets in, and where: keys, ports and origins.
        **options: groups of settings; what is none is a setting of the generation.
    """
    groups = {name: options.pop(name) for name in list(options) if name in AllSettings.model_fields}
    # That of the embedded models is not the fakes', and takes longer to read than they to answer.
    given = {"calibrator": ""} | {name: one for name, one in groups.items() if one} | (access or {})
    generation = replace(GeneratorConfig(engine="fake"), **options)
    models = {"generation": generation, **({"probes": probes} if probes else {}), **FAKE_SIMILARITY}
    if placement == "embedded":
        async with _serving(AllSettings(**models | given), ready) as service:
            yield service
        return
    async with (
        workers_elsewhere(WorkerConfig(**models)) as (workers, urls),
        _serving(AllSettings(**urls, **given), ready) as service,
    ):
        service.elsewhere = workers
        yield service


@asynccontextmanager
async def _serving(settings, ready):
    deaths = []
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
def placement():
    """Where the models of `service` are: in its process, or behind HTTP."""
    return "embedded"


def pytest_generate_tests(metafunc):
    """Each test of a service runs once for each of the `PLACEMENTS` of its module, if any."""
    placements = getattr(metafunc.module, "PLACEMENTS", None)
    if placements and "placement" in metafunc.fixturenames:
        metafunc.parametrize("placement", placements)


@pytest.fixture
async def service(anyio_backend, placement):
    """The service, ready."""
    async with serving(placement=placement) as running:
        yield running
