"""Our own client, synchronous and asynchronous, to be tried by the same tests."""

import asyncio
import functools
from contextlib import asynccontextmanager

from cocoa_client import AsyncClient, Client

from tests.worker_servers import listening

PROMPT = "What is the capital of France?"
OPTIONS = {"max_new_tokens": 16, "seed": 3}


class Waiting:
    """The synchronous client, on a thread."""

    def __init__(self, url, **settings):
        self._client = Client(url, **settings)

    def __getattr__(self, name):
        return functools.partial(asyncio.to_thread, getattr(self._client, name))

    async def tokens_and_result(self, *arguments, **options):
        def read():
            with self._client.stream(*arguments, **options) as answer:
                return list(answer), answer.result()

        return await asyncio.to_thread(read)

    async def first_token(self, *arguments, **options):
        def read():
            with self._client.stream(*arguments, **options) as answer:
                return next(iter(answer))

        return await asyncio.to_thread(read)

    async def aclose(self):
        self._client.close()


class Awaited(AsyncClient):
    """The asynchronous client."""

    async def tokens_and_result(self, *arguments, **options):
        async with self.stream(*arguments, **options) as answer:
            return [token async for token in answer], await answer.result()

    async def first_token(self, *arguments, **options):
        async with self.stream(*arguments, **options) as answer:
            return await anext(aiter(answer))

    async def aclose(self):
        await self.close()


KINDS = {"sync": Waiting, "async": Awaited}


@asynccontextmanager
async def asking(kind, app, **settings):
    """A client of an application that listens."""
    async with listening(app) as port:
        client = kind(f"http://127.0.0.1:{port}", **settings)
        try:
            yield client
        finally:
            await client.aclose()
