"""The client for programs on asyncio. `client.py` is generated from this file by `generate.py`."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from types import TracebackType
from typing import Any, Self, Unpack

import httpx

from cocoa_client import core
from cocoa_client.core import Answer, Attempts, Call, Reading, Response, ScoreItem
from cocoa_client.errors import CocoaError, Unreachable
from cocoa_client.models import (
    EstimatorList,
    FeedbackKept,
    GenerateResponse,
    ScoreOutcome,
    Status,
    Token,
    Version,
)
from cocoa_client.options import GenerateOptions, ScoreOptions
from cocoa_client.results import OnProgress, Progress, Results


class AsyncClient:
    """A service, asked call by call. One client may be shared by all that call it.

    Args:
        url: of the service, with its scheme: `http://localhost:8000`.
        api_key: where the deployment has keys.
        timeout_s: deadline of a call, in seconds, repetitions included; a call may name its own.
        max_retries: repetitions of a call that met 429, 503 or no connection.
        transport: of httpx, where the default does not serve.

    Every call raises `CocoaError`, in the class of its code.

    Raises:
        ValueError: the URL cannot be one of a service.
    """

    def __init__(
        self,
        url: str = "http://localhost:8000",
        *,
        api_key: str | None = None,
        timeout_s: float = core.DEFAULT_TIMEOUT_S,
        max_retries: int = 5,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._timeout_s = timeout_s
        self._max_retries = max_retries
        headers = core.headers_of(api_key)
        self._http = httpx.AsyncClient(
            base_url=core.checked_url(url), headers=headers, transport=transport
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        """The client, closed in the end."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close all connections."""
        await self.close()

    async def generate_with_uncertainty(
        self, prompt: str | None = None, **options: Unpack[GenerateOptions]
    ) -> GenerateResponse:
        """Answer a prompt, or `messages`, and say how sure the model is of it."""
        return await self._answer(core.generate(prompt, options))

    def stream(
        self, prompt: str | None = None, **options: Unpack[GenerateOptions]
    ) -> "AsyncAnswerStream":
        """The same, token by token: a context manager, to iterate over, with a `result()`."""
        call = core.stream(prompt, options)
        return AsyncAnswerStream(self._http, call, self._attempts(call))

    async def score(self, answer: str, **options: Unpack[ScoreOptions]) -> GenerateResponse:
        """Score an answer that exists already."""
        return await self._answer(core.score(answer, options))

    async def score_all(
        self,
        items: Sequence[ScoreItem],
        *,
        timeout_s: float | None = None,
        name: str = "answers",
        on_progress: OnProgress | None = None,
        num_at_once: int = core.MAX_ITEMS,
    ) -> Results[ScoreOutcome]:
        """Score answers, each on its own: a result or an error for each, in their order.

        Args:
            items: the answers.
            timeout_s: deadline of each call.
            name: of all, which their progress repeats.
            on_progress: is called with the `Progress` after each call.
            num_at_once: answers in a call, 64 at most; fewer tell more often how far they are.
        """
        results: Results[ScoreOutcome] = Results()
        for some in core.batches(items, num_at_once):
            scored = await self._answer(core.score_all(some, timeout_s))
            results += scored.results
            if on_progress is not None:
                on_progress(Progress(name, "scored", len(results), len(items)))
        return results

    async def feedback(
        self,
        id: str,
        *,
        correct: bool | None = None,
        quality: float | None = None,
        task: str | None = None,
        units: core.Units | None = None,
    ) -> FeedbackKept:
        """Label an answer by the `id` of its response: with one of `correct` and `quality`.

        With `units`, or with these alone: whether each field is right, by its path, or
        labels as the API has them, `[{"span": [0, 38], "grounded": False}]` of sentences.
        """
        return await self._answer(core.feedback(id, correct, quality, task, units))

    async def version(self) -> Version:
        """What runs there: models and limits."""
        return await self._answer(core.VERSION)

    async def estimators(self) -> EstimatorList:
        """Every estimator, and whether the deployment can compute it."""
        return await self._answer(core.ESTIMATORS)

    async def livez(self) -> Status:
        """Return once the process can become or be ready."""
        return await self._answer(core.LIVEZ)

    async def readyz(self) -> Status:
        """Return once requests are accepted; waits for it as any call does."""
        return await self._answer(core.READYZ)

    def _attempts(self, call: Call[Answer]) -> Attempts:
        timeout_s = self._timeout_s if call.timeout_s is None else call.timeout_s
        return Attempts(timeout_s, self._max_retries)

    async def _answer(self, call: Call[Answer]) -> Answer:
        attempts = self._attempts(call)
        while True:
            try:
                response = await _opened(self._http, call, attempts)
                async with aclosing(response):
                    return core.read_answer(call.kind, await _read(response, attempts))
            except CocoaError as error:
                await asyncio.sleep(attempts.wait_s(error))


class AsyncAnswerStream:
    """Tokens as they are written, and then the result.

    A context manager: what is under way ends with it.
    """

    def __init__(
        self, http: httpx.AsyncClient, call: Call[GenerateResponse], attempts: Attempts
    ) -> None:
        self._http = http
        self._call = call
        self._attempts = attempts
        self._reading = Reading()
        self._response: httpx.Response | None = None
        self._tokens = self._read_tokens()

    async def __aenter__(self) -> Self:
        """The stream, begun."""
        while self._response is None:
            try:
                self._response = await self._begun()
            except CocoaError as error:
                await asyncio.sleep(self._attempts.wait_s(error))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the connection, which gives up what is not read."""
        if self._response is not None:
            await self._response.aclose()

    def __aiter__(self) -> AsyncIterator[Token]:
        """The tokens that were not read yet."""
        return self._tokens

    async def result(self) -> GenerateResponse:
        """What a call that is no stream returns; reads all tokens that are left."""
        async for _ in self._tokens:
            pass
        return self._reading.ended()

    async def _begun(self) -> httpx.Response:
        response = await _opened(self._http, self._call, self._attempts)
        if response.is_success:
            return response
        async with aclosing(response):
            raise core.failure_of(await _read(response, self._attempts))

    def _begun_response(self) -> httpx.Response:
        if self._response is None:
            raise RuntimeError("a stream begins where its context is entered")
        return self._response

    async def _read_tokens(self) -> AsyncIterator[Token]:
        async for data in _pieces(self._begun_response(), self._attempts):
            for token in self._reading.tokens(data):
                yield token


async def _opened(http: httpx.AsyncClient, call: Call[Any], attempts: Attempts) -> httpx.Response:
    """The response to one attempt, its body unread."""
    body = call.body_within(attempts.remaining_s())
    timeout = attempts.http_timeout()
    request = http.build_request(call.method, call.path, json=body, timeout=timeout)
    try:
        return await http.send(request, stream=True)
    except httpx.TransportError as error:
        raise attempts.failure(error) from None
    except AttributeError as error:
        # On uvloop a connection that ends as it is made has no socket, at which httpx looks.
        raise Unreachable("the connection ended as it was made") from error


async def _read(response: httpx.Response, attempts: Attempts) -> Response:
    content = bytearray()
    async for piece in _pieces(response, attempts):
        content += piece
    return Response(response.status_code, response.headers, bytes(content))


async def _pieces(response: httpx.Response, attempts: Attempts) -> AsyncIterator[bytes]:
    """The body as it comes, within the deadline."""
    try:
        async for piece in response.aiter_bytes():
            attempts.check()
            yield piece
    except httpx.TransportError as error:
        raise attempts.failure(error) from None
