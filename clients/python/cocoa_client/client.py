"""The client for programs that wait."""

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from types import TracebackType
from typing import Any, Self, Unpack

import httpx

from cocoa_client import core
from cocoa_client.core import Answer, Attempts, Call, Reading, Response, ScoreItem
from cocoa_client.errors import CocoaError
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


class Client:
    """A service, asked call by call; may be shared by threads.

    Args:
        url: of the service.
        api_key: where the deployment has keys.
        timeout_s: deadline of a call, in seconds, repetitions included; a call may name its own.
        max_retries: repetitions of a call that met 429, 503 or no connection.
        transport: of httpx, where the default does not serve.

    Every call raises `CocoaError`, in the class of its code.
    """

    def __init__(
        self,
        url: str = "http://localhost:8000",
        *,
        api_key: str | None = None,
        timeout_s: float = core.DEFAULT_TIMEOUT_S,
        max_retries: int = 5,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._timeout_s = timeout_s
        self._max_retries = max_retries
        headers = core.headers_of(api_key)
        self._http = httpx.Client(base_url=url, headers=headers, transport=transport)

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def __enter__(self) -> Self:
        """The client, closed in the end."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close all connections."""
        self.close()

    def generate_with_uncertainty(
        self, prompt: str | None = None, **options: Unpack[GenerateOptions]
    ) -> GenerateResponse:
        """Answer a prompt, or `messages`, and say how sure the model is of it."""
        return self._answer(core.generate(prompt, options))

    def stream(
        self, prompt: str | None = None, **options: Unpack[GenerateOptions]
    ) -> "AnswerStream":
        """The same, token by token: `with client.stream(…) as answer: for token in answer: …`."""
        call = core.stream(prompt, options)
        return AnswerStream(self._http, call, self._attempts(call))

    def score(self, answer: str, **options: Unpack[ScoreOptions]) -> GenerateResponse:
        """Score an answer that exists already."""
        return self._answer(core.score(answer, options))

    def score_all(
        self, items: Sequence[ScoreItem], *, timeout_s: float | None = None
    ) -> list[ScoreOutcome]:
        """Score up to 64 answers in one call, each on its own: a result or an error for each."""
        return self._answer(core.score_all(items, timeout_s)).results

    def feedback(
        self,
        id: str,
        *,
        correct: bool | None = None,
        quality: float | None = None,
        task: str | None = None,
    ) -> FeedbackKept:
        """Label an answer by the `id` of its response: with one of `correct` and `quality`."""
        return self._answer(core.feedback(id, correct, quality, task))

    def version(self) -> Version:
        """What runs there: models and limits."""
        return self._answer(core.VERSION)

    def estimators(self) -> EstimatorList:
        """Every estimator, and whether the deployment can compute it."""
        return self._answer(core.ESTIMATORS)

    def livez(self) -> Status:
        """Return once the process can become or be ready."""
        return self._answer(core.LIVEZ)

    def readyz(self) -> Status:
        """Return once requests are accepted; waits for it as any call does."""
        return self._answer(core.READYZ)

    def _attempts(self, call: Call[Answer]) -> Attempts:
        timeout_s = self._timeout_s if call.timeout_s is None else call.timeout_s
        return Attempts(timeout_s, self._max_retries)

    def _answer(self, call: Call[Answer]) -> Answer:
        attempts = self._attempts(call)
        while True:
            try:
                with closing(_opened(self._http, call, attempts)) as response:
                    return core.read_answer(call.kind, _read(response, attempts))
            except CocoaError as error:
                time.sleep(attempts.wait_s(error))


class AnswerStream:
    """Tokens as they are written, and then the result.

    A context manager: what is under way ends with it.
    """

    def __init__(
        self, http: httpx.Client, call: Call[GenerateResponse], attempts: Attempts
    ) -> None:
        self._http = http
        self._call = call
        self._attempts = attempts
        self._reading = Reading()
        self._response: httpx.Response | None = None
        self._tokens = self._read_tokens()

    def __enter__(self) -> Self:
        """The stream, begun."""
        while self._response is None:
            try:
                self._response = self._begun()
            except CocoaError as error:
                time.sleep(self._attempts.wait_s(error))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the connection, which gives up what is not read."""
        if self._response is not None:
            self._response.close()

    def __iter__(self) -> Iterator[Token]:
        """The tokens that were not read yet."""
        return self._tokens

    def result(self) -> GenerateResponse:
        """What a call that is no stream returns; reads all tokens that are left."""
        for _ in self._tokens:
            pass
        return self._reading.ended()

    def _begun(self) -> httpx.Response:
        response = _opened(self._http, self._call, self._attempts)
        if response.is_success:
            return response
        with closing(response):
            raise core.failure_of(_read(response, self._attempts))

    def _begun_response(self) -> httpx.Response:
        if self._response is None:
            raise RuntimeError("a stream begins where its context is entered")
        return self._response

    def _read_tokens(self) -> Iterator[Token]:
        for data in _pieces(self._begun_response(), self._attempts):
            yield from self._reading.tokens(data)


def _opened(http: httpx.Client, call: Call[Any], attempts: Attempts) -> httpx.Response:
    """The response to one attempt, its body unread."""
    body = call.body_within(attempts.remaining_s())
    timeout = attempts.http_timeout()
    request = http.build_request(call.method, call.path, json=body, timeout=timeout)
    try:
        return http.send(request, stream=True)
    except httpx.TransportError as error:
        raise attempts.failure(error) from None


def _read(response: httpx.Response, attempts: Attempts) -> Response:
    content = b"".join(_pieces(response, attempts))
    return Response(response.status_code, response.headers, content)


def _pieces(response: httpx.Response, attempts: Attempts) -> Iterator[bytes]:
    """The body as it comes, within the deadline."""
    try:
        for piece in response.iter_bytes():
            attempts.check()
            yield piece
    except httpx.TransportError as error:
        raise attempts.failure(error) from None
