"""What a gateway asks of a worker, and how often it connects for it."""

import pytest

from models.engines.fake import FakeEngine
from models.records import GenerationRequest, SamplingParams
from tests.worker_servers import listening, running
from workers.config import GeneratorConfig, WorkerConfig
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
            config = WorkerConfig(generation=GeneratorConfig(url=f"http://127.0.0.1:{port}"))
            async with running(await connect_generator(config, Hooks())) as remote:
                for _ in range(4):
                    await remote.generate(REQUEST, on_token)

    assert len(clients) > 4
    assert len(set(clients)) == 1
