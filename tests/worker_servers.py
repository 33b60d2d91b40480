"""Workers behind HTTP on a port of this machine, in the event loop of the test."""

import asyncio
from contextlib import asynccontextmanager

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware

from workers.config import GeneratorConfig, LanguageModel, SimilaritySettings
from workers.hooks import Hooks
from workers.protocol import Served
from workers.remote.server import HeadCheck, routes
from workers.remote.worker import connect_generator, connect_similarity_scorers

ANYWHERE = LanguageModel.of_id("embedded")


def make_app(get_served, secrets=(), **options):
    """The wire alone, without metrics and health."""
    check = Middleware(HeadCheck, secrets=secrets)
    return Starlette(routes=routes(get_served, **options), middleware=[check])


@asynccontextmanager
async def listening(app, **options):
    """Port of an ASGI application that is served while the context is open.

    It ends at once: `uvicorn.Server.serve` looks ten times a second whether it shall.
    """
    config = uvicorn.Config(app, **{"port": 0, "log_config": None, "lifespan": "off"} | options)
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    await server.startup()
    await server.on_tick(0)
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        await _end(server)


async def _end(server):
    """Close its connections; what it still answers has a second."""
    for listener in server.servers:
        listener.close()
    state = server.server_state
    for connection in list(state.connections):
        connection.shutdown()
    if state.tasks:
        _, late = await asyncio.wait(state.tasks, timeout=1)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
    for connection in list(state.connections):
        connection.transport.abort()
    while state.connections:  # noqa: ASYNC110
        await asyncio.sleep(0)


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
        async with running(await connect_generator(generation.checked(), Hooks())) as generator:
            yield generator


@asynccontextmanager
async def remote_similarity_scorers(similarity_scorers, nli=None, language_model=ANYWHERE):
    """Similarity scorers and the NLI model behind HTTP, over local ones that run."""
    served = Served(similarity_scorers=similarity_scorers, nli=nli)
    async with listening(make_app(lambda: served)) as port:
        servers = SimilaritySettings(url=f"http://127.0.0.1:{port}").checked()
        found, found_nli = await connect_similarity_scorers(servers, Hooks(), language_model)
        async with running(next(iter(found.values()))):
            yield found, found_nli
