"""What a gateway asks of a worker, how often it connects for it, and what it makes of a refusal."""

from dataclasses import replace

import pytest
from pydantic import SecretStr
from starlette.responses import JSONResponse

from models.errors import EngineError, GenerationUnavailable
from models.records import GenerationRequest, SamplingParams
from tests.fakes.engine import FakeEngine
from tests.worker_servers import listening, running
from workers import wire
from workers.config import GeneratorConfig
from workers.generation import GenerationWorker
from workers.hooks import Hooks
from workers.remote import connect_generator
from workers.server import Served, make_app

pytestmark = pytest.mark.anyio
REQUEST = GenerationRequest("Hello", sampling=SamplingParams(num_samples=2, max_new_tokens=8))


@pytest.mark.parametrize("on_token", [None, lambda token: None], ids=["whole", "streamed"])
async def test_calls_one_after_another_share_a_connection(on_token):
    clients = []
    async with running(GenerationWorker(FakeEngine())) as local:
        app = make_app(lambda: Served(generator=local))

        async def watched(scope, receive, send):
            clients.append(scope["client"])
            await app(scope, receive, send)

        async with listening(watched) as port:
            servers = GeneratorConfig(url=f"http://127.0.0.1:{port}").place()
            async with running(await connect_generator(servers, Hooks())) as remote:
                for _ in range(4):
                    await remote.generate(REQUEST, on_token)

    assert len(clients) > 4
    assert len(set(clients)) == 1


async def test_a_worker_that_wants_another_key_is_unavailable_and_no_client_is_to_blame():
    async with running(GenerationWorker(FakeEngine())) as local:
        apps = [make_app(lambda: Served(generator=local), "first")]

        async def current(scope, receive, send):
            await apps[-1](scope, receive, send)

        async with listening(current) as port:
            url, key = f"http://127.0.0.1:{port}", SecretStr("first")
            servers = GeneratorConfig(url=url, api_key=key).place()
            async with running(await connect_generator(servers, Hooks())) as remote:
                assert (await remote.generate(REQUEST)).answer.text
                apps.append(make_app(lambda: Served(generator=local), "second"))
                with pytest.raises(GenerationUnavailable, match="it wants another key"):
                    await remote.generate(REQUEST)


async def test_a_worker_of_new_weights_answers_though_it_fails_to_say_what_it_is():
    async with running(GenerationWorker(FakeEngine())) as local:
        is_failing = False
        app = make_app(lambda: Served(generator=local))

        async def failing(scope, receive, send):
            if is_failing and scope["path"] == "/v1/info":
                error = wire.error_to_json(EngineError("the device is lost"))
                await JSONResponse(error, 500)(scope, receive, send)
            else:
                await app(scope, receive, send)

        async with listening(failing) as port:
            servers = GeneratorConfig(url=f"http://127.0.0.1:{port}").place()
            async with running(await connect_generator(servers, Hooks())) as remote:
                local.info = replace(local.info, identity="new weights")
                is_failing = True
                generation = await remote.generate(REQUEST)
                assert generation.identity == "new weights" != remote.info.identity
                is_failing = False
                await remote.generate(REQUEST)
                assert remote.info.identity == "new weights"
