"""Workers behind HTTP on a port of this machine, in the event loop of the test."""

import asyncio
from contextlib import asynccontextmanager, nullcontext

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware

from workers.config import ComparerConfig, GeneratorConfig
from workers.hooks import Hooks
from workers.language_model import LanguageModel
from workers.remote import connect_comparers, connect_generator
from workers.server import HeadCheck, Served, routes

ANYWHERE = LanguageModel.of_id("embedded")


def make_app(get_served, secrets=(), **options):
    """The wire alone, without metrics and health."""
    check = Middleware(HeadCheck, secrets=secrets)
    return Starlette(routes=routes(get_served, **options), middleware=[check])


class _Server(uvicorn.Server):
    """Leaves signals to the test runner."""

    def capture_signals(self):
        return nullcontext()


@asynccontextmanager
async def listening(app, port=0, **options):
    """Port of an ASGI application that is served while the context is open."""
    config = uvicorn.Config(
        app, port=port, log_config=None, timeout_graceful_shutdown=1, lifespan="off", **options
    )
    server = _Server(config)
    task = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110
        await asyncio.sleep(0.005)
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        await task


@asynccontextmanager
async def running(worker):
    """A worker while its loop runs."""
    loop = asyncio.create_task(worker.run())
    await asyncio.sleep(0)
    try:
        yield worker
    finally:
        await worker.close()
        await asyncio.gather(loop, return_exceptions=True)


@asynccontextmanager
async def remote_generator(local, **settings):
    """A generator behind HTTP, over a local one that runs."""
    async with listening(make_app(lambda: Served(generator=local))) as port:
        generation = GeneratorConfig(url=f"http://127.0.0.1:{port}", **settings)
        async with running(await connect_generator(generation.place(), Hooks())) as generator:
            yield generator


@asynccontextmanager
async def remote_comparers(comparers, nli=None, language_model=ANYWHERE):
    """Comparers and the NLI model behind HTTP, over local ones that run."""
    served = Served(comparers=comparers, nli=nli)
    async with listening(make_app(lambda: served)) as port:
        servers = ComparerConfig(url=f"http://127.0.0.1:{port}").place()
        found, found_nli = await connect_comparers(servers, Hooks(), language_model)
        async with running(next(iter(found.values()))):
            yield found, found_nli
