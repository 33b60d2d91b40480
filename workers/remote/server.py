"""The worker's side of the wire: an ASGI application around workers of this process."""

import asyncio
import contextlib
import hmac
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from models.codec import to_json
from models.errors import CocoaError, EngineError, InvalidRequest, NotReady
from models.records import OnToken
from workers.protocol import Generator, Served, SimilarityScorer
from workers.remote import wire

# The longest deadline that a gateway may pass on, in seconds.
_MAX_TIMEOUT_S = 86_400.0
_VERSION = str(wire.VERSION)

# The workers, once they are loaded; None before, and after a loop has died.
GetServed = Callable[[], Served | None]
# Awaited, it is the result of a call.
Work = Callable[[OnToken], Awaitable[Any]]
# Called with an exception that is no error of ours; its text may quote a prompt.
OnDefect = Callable[[Exception], None]


def routes(get_served: GetServed, on_defect: OnDefect = lambda error: None) -> list[Route]:
    """The routes of the wire, to be served behind a `HeadCheck`."""
    answer = partial(_answer, get_served, on_defect)
    calls = [Route(path, answer, methods=["POST"]) for path in _CALLS]
    return [Route("/v1/info", partial(_info, get_served), methods=["GET"]), *calls]


class HeadCheck:
    """Refuses a call of the wire by its head, before anything of its body is read.

    Every caller must show one of the secrets as a bearer token, where there are any.
    """

    def __init__(self, app: ASGIApp, secrets: Sequence[str]) -> None:
        self._app = app
        self._expected = [f"Bearer {secret}".encode() for secret in secrets]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = self._app
        if scope["type"] == "http" and scope["path"].startswith("/v1/"):
            answer = self._refusal(Request(scope)) or self._app
        await answer(scope, receive, send)

    def _refusal(self, request: Request) -> Response | None:
        shown = request.headers.get("authorization", "").encode()
        closing = {"Connection": "close"}  # what is left of the body is not read
        if self._expected and not any(map(partial(hmac.compare_digest, shown), self._expected)):
            message = "the caller does not show this worker's secret"
            return refused(401, "unauthorized", message, closing)
        if request.method == "POST" and request.headers.get(wire.WIRE_HEADER) != _VERSION:
            message = f"this worker speaks version {_VERSION} of the wire"
            return refused(400, "wire_mismatch", message, closing)
        return None


async def _info(get_served: GetServed, request: Request) -> Response:
    if (served := get_served()) is None:
        return not_ready()
    if served.generator is not None:
        body = to_json(wire.GenerationInfo(served.generator.info))
    else:
        similarity_scorers = {
            name: similarity_scorer.info
            for name, similarity_scorer in served.similarity_scorers.items()
        }
        nli = None if served.nli is None else served.nli.info
        body = to_json(wire.SimilarityWorkerInfo(similarity_scorers, nli))
    return Response(body, media_type="application/json")


async def _answer(get_served: GetServed, on_defect: OnDefect, request: Request) -> Response:
    if (served := get_served()) is None:
        return not_ready()
    try:
        timeout_s = _timeout_of(request)
        prepare = _CALLS[request.scope["path"]]
        body = await request.body()
        work = prepare(served, body, timeout_s)
        digest = wire.digest_of_call(request.scope["path"], body)
    except wire.Garbled as error:
        return refused(400, "wire_mismatch", str(error))
    except CocoaError as error:
        return JSONResponse({"error": wire.error_to_json(error)}, 422)
    return StreamingResponse(_lines(work, digest, on_defect), media_type="text/plain")


def refused(
    status: int, code: str, message: str, headers: Mapping[str, str] | None = None
) -> Response:
    body = {"code": code, "message": message, "field": None, "retry_after_s": None}
    return JSONResponse({"error": body}, status, headers)


def not_ready(message: str = "the model is not ready") -> Response:
    return refused(503, NotReady.code, message, {"Retry-After": "1"})


def _generate(served: Served, body: bytes, timeout_s: float | None) -> Work:
    call, generator = wire.decode_generate(body), _generator_of(served)
    request = replace(call.request, timeout_s=timeout_s)
    return lambda on_token: generator.generate(request, on_token if call.streams else None)


def _first_token_logprobs(served: Served, body: bytes, timeout_s: float | None) -> Work:
    call, generator = wire.decode_first_token(body), _generator_of(served)
    request = replace(call.request, timeout_s=timeout_s)
    return lambda _: generator.first_token_logprobs(request, call.groups)


def _tokenize(served: Served, body: bytes, timeout_s: float | None) -> Work:
    (prompt, special), generator = wire.decode_tokenize(body), _generator_of(served)
    return lambda _: generator.tokenize(prompt, special=special)


def _compare(served: Served, body: bytes, timeout_s: float | None) -> Work:
    name, pairs = wire.decode_compare(body)
    similarity_scorer = _similarity_scorer_of(served, name)

    async def work(on_token: OnToken) -> Any:
        reply = await similarity_scorer.compare(pairs)
        scores = list(map(reply.scores.__getitem__, pairs))
        return {"scores": scores, "identity": reply.identity}

    return work


def _fit_contexts(served: Served, body: bytes, timeout_s: float | None) -> Work:
    call = wire.decode_fit(body)
    similarity_scorer = _similarity_scorer_of(served, call.similarity_scorer)
    return lambda _: similarity_scorer.fit_contexts(call.texts)


def _token_ends(served: Served, body: bytes, timeout_s: float | None) -> Work:
    texts = wire.decode_texts(body)
    if (nli := served.nli) is None:
        raise InvalidRequest("this worker has no such similarity scorer")
    return lambda _: nli.token_ends(texts)


# Readers of calls: each checks a body, and returns the work to await.
_CALLS: Mapping[str, Callable[[Served, bytes, float | None], Work]] = {
    "/v1/generate": _generate,
    "/v1/first-token-logprobs": _first_token_logprobs,
    "/v1/tokenize": _tokenize,
    "/v1/compare": _compare,
    "/v1/fit-contexts": _fit_contexts,
    "/v1/token-ends": _token_ends,
}


async def _lines(work: Work, digest: bytes, on_defect: OnDefect) -> AsyncIterator[bytes]:
    """The lines of a call as it goes on; whoever stops reading ends the work."""
    queue: asyncio.Queue[bytes | None] = asyncio.Queue()
    task = asyncio.ensure_future(work(lambda token: queue.put_nowait(wire.line_of("token", token))))
    task.add_done_callback(lambda _: queue.put_nowait(None))
    try:
        while True:
            try:
                async with asyncio.timeout(wire.HEARTBEAT_S):
                    line = await queue.get()
            except TimeoutError:
                yield wire.HEARTBEAT
                continue
            if line is None:
                break
            yield digest + line
        yield digest + _last_line(task, on_defect)
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await task


def _last_line(task: "asyncio.Future[Any]", on_defect: OnDefect) -> bytes:
    try:
        return wire.line_of("result", task.result())
    except CocoaError as error:
        failure: CocoaError = error
    except asyncio.CancelledError:
        failure = NotReady("the model has stopped")
    except Exception as error:
        on_defect(error)
        failure = EngineError(f"the worker failed: {type(error).__name__}")
    return wire.line_of("error", wire.error_to_json(failure))


def _timeout_of(request: Request) -> float | None:
    """Seconds that are left to the gateway; None where it sets no deadline."""
    header = request.headers.get(wire.TIMEOUT_HEADER)
    if header is None:
        return None
    try:
        timeout_s = float(header)
    except ValueError:
        timeout_s = -1.0
    if not 0 <= timeout_s <= _MAX_TIMEOUT_S:  # NaN is not, either
        message = f"{wire.TIMEOUT_HEADER} must lie between 0 and {_MAX_TIMEOUT_S:g} seconds"
        raise wire.Garbled(message)
    return timeout_s


def _generator_of(served: Served) -> Generator:
    if served.generator is None:
        raise InvalidRequest("this is no generation worker")
    return served.generator


def _similarity_scorer_of(served: Served, name: str | None) -> SimilarityScorer:
    similarity_scorer: SimilarityScorer | None = served.nli
    if name is not None:
        similarity_scorer = served.similarity_scorers.get(name)
    if similarity_scorer is None:
        raise InvalidRequest("this worker has no such similarity scorer")
    return similarity_scorer
