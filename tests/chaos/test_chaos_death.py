"""A model that dies: nobody hangs, health turns red, the process is told once."""

import asyncio
import threading

import httpx
import pytest

from app.main import create_app
from app.scoring import scorer
from app.settings import Settings
from models.engines import ENGINES
from models.errors import ModelLost
from tests.conftest import Service, serving, until
from tests.fakes.engine import FakeEngine
from workers.config import GeneratorConfig, SimilaritySettings

pytestmark = pytest.mark.anyio


async def assert_dead(service):
    await until(lambda: service.deaths)
    for path in ("/readyz", "/livez"):
        response = await service.client.get(path)
        assert (response.status_code, response.json()["error"]["code"]) == (503, "not_ready")
    response = await service.generate()
    assert (response.status_code, response.json()["error"]["code"]) == (503, "not_ready")
    assert service.deaths == ["died"]
    assert service.admission.num_admitted == 0


async def test_a_dying_engine_fails_all_who_wait_and_turns_health_red():
    async with serving() as service, asyncio.timeout(60):
        service.engine_dies()
        responses = await asyncio.gather(*(service.generate() for _ in range(16)))
        assert {response.status_code for response in responses} == {503}
        assert {response.json()["error"]["code"] for response in responses} == {"not_ready"}
        await assert_dead(service)


async def test_a_lost_pair_model_fails_all_who_wait_and_turns_health_red():
    async with serving() as service, asyncio.timeout(60):

        def lose(pairs):
            raise ModelLost("device")

        service.pair_model.score = lose
        responses = await asyncio.gather(*(service.generate(seed=seed) for seed in range(16)))
        assert {response.status_code for response in responses} == {503}
        assert "not_ready" in {response.json()["error"]["code"] for response in responses}
        await assert_dead(service)


async def test_an_engine_that_dies_while_pairs_are_scored_leaves_a_result_or_a_typed_error():
    async with serving() as service, asyncio.timeout(60):
        score = service.pair_model.score

        def score_after_death(pairs):
            loop.call_soon_threadsafe(end)
            return score(pairs)

        def end():
            """End the generation worker's loop, as a lost model would."""
            tasks = service.core.supervisor._tasks
            next(task for task in tasks if task.get_name() == "generation").cancel()

        loop = asyncio.get_running_loop()
        service.pair_model.score = score_after_death
        response = await service.generate()
        assert response.status_code in {200, 503}
        await assert_dead(service)


async def test_a_pair_model_that_hangs_leaves_each_its_deadline_and_then_turns_health_red():
    go_on, deaths = threading.Event(), []
    settings = Settings(
        generation=GeneratorConfig(engine="fake"),
        similarity=SimilaritySettings(name="fake"),
        stall_s=2,
    )
    app = create_app(settings, on_death=lambda: deaths.append("died"))
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://cocoa") as client,
        asyncio.timeout(60),
    ):
        service = Service(app, client, deaths)
        await service.core.supervisor.ready.wait()
        service.pair_model.score = lambda pairs: go_on.wait(60)
        hurried = await service.generate(timeout_s=0.2, seed=0)
        assert (hurried.status_code, hurried.json()["error"]["code"]) == (504, "deadline_exceeded")
        patient = await asyncio.gather(*(service.generate(seed=seed) for seed in range(16)))
        assert {response.status_code for response in patient} == {503}
        assert {response.json()["error"]["code"] for response in patient} == {"not_ready"}
        await assert_dead(service)
        go_on.set()


async def test_an_added_estimator_that_hangs_leaves_each_its_deadline_and_then_turns_health_red(
    monkeypatch,
):
    go_on, deaths = threading.Event(), []
    settings = Settings(
        generation=GeneratorConfig(engine="fake"),
        similarity=SimilaritySettings(name="fake"),
        stall_s=1,
    )
    monkeypatch.setattr(scorer, "scored", lambda *_: go_on.wait(60))
    app = create_app(settings, on_death=lambda: deaths.append("died"))
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://cocoa") as client,
        asyncio.timeout(60),
    ):
        service = Service(app, client, deaths)
        await service.core.supervisor.ready.wait()
        hurried = await service.generate(timeout_s=0.2, estimators=["lexical_similarity"])
        assert (hurried.status_code, hurried.json()["error"]["code"]) == (504, "deadline_exceeded")
        await assert_dead(service)
        go_on.set()


class Unloadable(FakeEngine):
    @classmethod
    def load(cls, config):
        raise OSError("no such checkpoint")


class ColdForever(FakeEngine):
    """Its warm-up fails."""

    def step(self, incoming):
        raise RuntimeError("no kernel")


class DeadOnArrival(FakeEngine):
    """Its loop dies with its first step."""

    def step(self, incoming):
        raise ModelLost("no device")


@pytest.mark.parametrize(
    "engine", [Unloadable, ColdForever, DeadOnArrival], ids=lambda engine: engine.__name__
)
async def test_a_start_that_fails_is_told_once_and_never_ready(monkeypatch, engine):
    monkeypatch.setitem(ENGINES, "bad", f"{__name__}:{engine.__name__}")
    deaths = asyncio.Queue()
    app = create_app(
        Settings(
            generation=GeneratorConfig(engine="bad"), similarity=SimilaritySettings(name="fake")
        ),
        on_death=lambda: deaths.put_nowait("died"),
    )
    async with app.router.lifespan_context(app), asyncio.timeout(30):
        assert await deaths.get() == "died"
        assert app.state.service.supervisor.state == "dead"
        assert not app.state.service.supervisor.ready.is_set()
    assert deaths.empty()


async def test_an_unknown_engine_is_a_start_that_fails():
    died = asyncio.Event()
    settings = Settings(
        generation=GeneratorConfig(engine="nosuch"), similarity=SimilaritySettings(name="fake")
    )
    app = create_app(settings, on_death=died.set)
    async with app.router.lifespan_context(app):
        await asyncio.wait_for(died.wait(), 30)
