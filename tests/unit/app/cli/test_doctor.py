"""`cocoa doctor` against services that live, and against broken parts of them."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from pydantic import SecretStr
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route
from typer.testing import CliRunner

from app.cache.protocol import CacheConfig
from app.cli import app
from app.cli.doctor import examine, own_url
from app.scoring.capabilities import Capability
from app.scoring.scorer import Scorer
from app.settings import Settings
from app.worker import create_worker_app
from tests.chaos.listening import listening
from tests.chaos.redis_server import free_port, running_redis
from tests.worker_servers import listening as worker_listening
from tests.worker_servers import make_app
from workers.config import GeneratorConfig
from workers.protocol import Served

pytestmark = pytest.mark.anyio


async def wrong(settings, port, patience_s=1.0):
    """Words of what is wrong, by what it is."""
    url = f"http://127.0.0.1:{port}"
    found = [one async for one in examine(settings, url, None, patience_s)]
    return {one.what: one.words for one in found if not one.is_well}


@asynccontextmanager
async def split_service():
    """A gateway, its port, and its settings, which name its workers."""
    async with listening(placement="remote") as (service, port, _):
        yield service, port, service.app.state.settings


async def test_a_deployment_that_is_well_is_told_arrow_by_arrow():
    async with split_service() as (_, port, settings):
        url = f"http://127.0.0.1:{port}"
        found = [one async for one in examine(settings, url, None, 5)]
    assert all(one.is_well for one in found), found
    told = {one.what for one in found}
    assert told >= {"service", "version", "generation", "similarity", "identity"}


async def test_the_exit_code_and_the_lines_say_whether_something_is_wrong():
    async with split_service() as (_, port, settings):
        environment = {"COCOA_GENERATION__URL": settings.generation.url, "COCOA_PORT": str(port)}
        ran = [await asyncio.to_thread(CliRunner().invoke, app, ["doctor"], env=environment)]
        environment["COCOA_GENERATION__URL"] = f"http://127.0.0.1:{free_port()}"
        command = ["doctor", "--patience-s", "1"]
        ran.append(await asyncio.to_thread(CliRunner().invoke, app, command, env=environment))
    assert [one.exit_code for one in ran] == [0, 1], [one.output for one in ran]
    assert f"ok    service     http://127.0.0.1:{port} is ready" in ran[0].output
    assert "WRONG generation" in ran[1].output
    assert "nobody listens there" in ran[1].output


async def test_a_service_at_another_port_is_found_by_an_option_that_the_finding_names():
    assert "--url names a service elsewhere" in (await wrong(Settings(), free_port()))["service"]


@pytest.mark.parametrize("is_ready", [True, False], ids=["ready", "stopped"])
async def test_ask_asks_the_service_that_is_ready_here_and_says_so(is_ready):
    async with listening() as (service, port, gate):
        gate.opened.set()
        if not is_ready:
            await service.core.supervisor.stop()
        # To load the model here would be an error.
        here = {"COCOA_PORT": str(port), "COCOA_GENERATION__MODEL": "/no/such-model"}
        command = ["ask", "Hi", "--json", "--seed", "7"]
        ran = await asyncio.to_thread(CliRunner().invoke, app, command, env=here)
    assert ran.exit_code == (0 if is_ready else 2)
    assert (f"asked the service at http://127.0.0.1:{port}" in ran.stderr) == is_ready
    assert ('"seed":7' in ran.stdout) == is_ready


async def test_a_worker_is_taken_for_no_service(monkeypatch):
    monkeypatch.setenv("COCOA_GENERATION__MODEL", "/no/such-model")
    worker = create_worker_app("generation", Settings(), on_death=lambda: None)
    state = worker.state.service
    state.supervisor.state, state.served = "ready", Served(generator=object())
    async with worker_listening(worker) as port:
        told = (await wrong(Settings(), port))["service"]
        monkeypatch.setenv("COCOA_PORT", str(port))
        ran = await asyncio.to_thread(CliRunner().invoke, app, ["ask", "Hi"])
    assert f"http://127.0.0.1:{port} is a generation worker, which gateways ask; --url" in told
    assert f"a generation worker answers at http://127.0.0.1:{port}, and no service" in ran.stderr
    assert ran.exit_code == 2, "the model that it loads here is none"


@pytest.mark.parametrize("version", [{"version": "0.11.0"}, [], 1.0, None], ids=str)
async def test_another_server_at_the_url_is_told_to_be_another(version):
    async def tell(_):
        return JSONResponse(version, 200 if version is not None else 404)

    async with worker_listening(Starlette(routes=[Route("/version", tell)])) as port:
        told = (await wrong(Settings(), port))["service"]
    assert told == "something else than Cocoa answers there; --url names a service elsewhere"


async def test_what_is_told_beside_readiness_is_a_finding(monkeypatch):
    monkeypatch.setattr(Scorer, "passing_nothing", lambda self: ["nothing"])
    async with split_service() as (_, port, settings):
        url = f"http://127.0.0.1:{port}"
        found = [one async for one in examine(settings, url, None, 5)]
    assert (True, "service", "nothing") in found


async def test_a_service_that_is_away_and_one_that_is_not_ready_are_told_apart():
    assert "nobody listens there" in (await wrong(Settings(), free_port()))["service"]
    async with split_service() as (service, port, settings):
        await service.core.supervisor.stop()
        assert "not ready: the service is stopped" in (await wrong(settings, port))["service"]


@pytest.mark.parametrize("is_there", [False, True], ids=["dead", "not ready"])
async def test_nothing_is_well_of_what_could_not_be_asked(is_there):
    async with listening() as (service, port, _):
        service.core.scorer = None  # its models are not loaded
        port = port if is_there else free_port()
        found = [one async for one in examine(Settings(), f"http://127.0.0.1:{port}", None, 1)]
    assert [one.what for one in found if one.is_well] == ["version"] * is_there


async def test_the_model_of_a_server_is_not_called_the_service_s_where_that_is_away():
    async with split_service() as (_, _, settings):
        url = f"http://127.0.0.1:{free_port()}"
        found = [one async for one in examine(settings, url, None, 5)]
    told = {one.what for one in found if one.is_well}
    assert "generation" in told
    assert "identity" not in told


async def test_what_is_set_and_cannot_be_had_is_told_with_its_reason(monkeypatch):
    async with split_service() as (service, port, settings):
        lost = {"calibrator": Capability("another model", "COCOA_CALIBRATOR")}
        monkeypatch.setattr(service.core, "capabilities", lambda: lost)
        told = await wrong(settings, port)
    assert told == {"settings": "COCOA_CALIBRATOR cannot be had: another model"}


async def test_a_server_of_another_model_than_the_service_is_told():
    async with split_service() as (service, port, settings):
        local = service.elsewhere.generator
        other = replace(local.info, identity="other", revision="2")
        stranger = type("Stranger", (), {"info": other})()
        async with worker_listening(make_app(lambda: Served(generator=stranger))) as second:
            url = f"http://127.0.0.1:{second}"
            changed = settings.model_copy(update={"generation": GeneratorConfig(url=url)})
            assert "the service serves another one" in (await wrong(changed, port))["identity"]


async def test_a_redis_is_told_before_and_after_it_goes(tmp_path):
    async with listening() as (_, port, _):
        with running_redis(tmp_path) as redis:
            cache = CacheConfig(url=SecretStr(redis.url))
            settings = Settings(cache=cache)
            assert await wrong(settings, port) == {}
            redis.kill()
            told = await wrong(settings, port)
    assert told == {
        "redis": "COCOA_CACHE__URL: unreachable (nobody listens there, or the name is unknown)"
    }


async def test_the_service_is_asked_where_operation_is():
    assert own_url(Settings(host="0.0.0.0", port=1)) == "http://127.0.0.1:1"
    assert own_url(Settings(ops_port=2, ops_host="10.0.0.1")) == "http://10.0.0.1:2"
