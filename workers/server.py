"""The worker's side of the wire: an ASGI application around workers of this process."""

import asyncio
import contextlib
import hmac
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from models.errors import CocoaError, EngineError, InvalidRequest, NotReady
from models.records import OnToken
from workers import wire
from workers.protocol import Comparer, Generator

# The longest deadline that a gateway may pass on, in seconds.
_MAX_TIMEOUT_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Served:
    """What one worker process serves: a generator, or comparers with or without an NLI model."""

    generator: Generator | None = None
    comparers: Mapping[str, Comparer] | None = None
    nli: Comparer | None = None


# What is served, once it is loaded; None before, and after a loop has died.
GetServed = Callable[[], Served | None]
Work = Callable[[OnToken], Awaitable[bytes]]
# Told of an exception that no error of ours is; its text may quote a prompt.
OnDefect = Callable[[Exception], None]


def routes(
    get_served: GetServed, secret: str, on_defect: OnDefect = lambda error: None
) -> list[Route]:
    """The routes of the wire.

    Args:
        get_served: what is asked.
        secret: that every caller must show as a bearer token; "" lets everybody in.
        on_defect: told of what is answered as an `EngineError` without its reason.
    """
    doors = _Doors(get_served, secret, on_defect)
    return [
        Route("/v1/info", doors.info, methods=["GET"]),
        Route("/v1/generate", doors.generate, methods=["POST"]),
        Route("/v1/first-token-logprobs", doors.first_token_logprobs, methods=["POST"]),
        Route("/v1/compare", doors.compare, methods=["POST"]),
        Route("/v1/fit-contexts", doors.fit_contexts, methods=["POST"]),
    ]


def make_app(get_served: GetServed, secret: str = "") -> Starlette:
    """The wire alone, without metrics and health, for whoever serves it in a process of tests."""
    return Starlette(routes=routes(get_served, secret))


class _Refusal(Exception):
    """A call that is not taken.

    Attributes:
        response: what is answered.
    """

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.response = _error(status, code, message)


class _Doors:
    """The handlers of the routes."""

    def __init__(self, get_served: GetServed, secret: str, on_defect: OnDefect) -> None:
        self._get_served = get_served
        self._on_defect = on_defect
        self._expected = f"Bearer {secret}".encode() if secret else b""

    async def info(self, request: Request) -> Response:
        """What this worker is."""
        try:
            served = self._admitted(request)
        except _Refusal as refusal:
            return refusal.response
        if served.generator is not None:
            body = wire.encode_info("generation", wire.GenerationInfo.of(served.generator.info))
        else:
            comparers = {name: one.info for name, one in (served.comparers or {}).items()}
            nli = None if served.nli is None else served.nli.info
            body = wire.encode_info("similarity", wire.SimilarityInfo(comparers, nli))
        return Response(body, media_type="application/json")

    async def generate(self, request: Request) -> Response:
        """Answer and samples."""

        def work(served: Served, body: bytes, timeout_s: float | None) -> Work:
            asked, streams = wire.decode_generate(body, timeout_s)
            generator = _generator_of(served)

            async def generated(on_token: OnToken) -> bytes:
                told = on_token if streams else None
                return wire.encode_generation(await generator.generate(asked, told))

            return generated

        return await self._answer(request, work)

    async def first_token_logprobs(self, request: Request) -> Response:
        """Log-probs of groups of first tokens."""

        def work(served: Served, body: bytes, timeout_s: float | None) -> Work:
            asked, groups = wire.decode_first_token(body, timeout_s)
            generator = _generator_of(served)

            async def read(on_token: OnToken) -> bytes:
                reply = await generator.first_token_logprobs(asked, groups)
                return wire.encode_first_token_reply(reply)

            return read

        return await self._answer(request, work)

    async def compare(self, request: Request) -> Response:
        """Scores of pairs."""

        def work(served: Served, body: bytes, timeout_s: float | None) -> Work:
            name, pairs = wire.decode_compare(body)
            comparer = _comparer_of(served, name)

            async def compared(on_token: OnToken) -> bytes:
                return wire.encode_pair_reply(pairs, await comparer.compare(pairs))

            return compared

        return await self._answer(request, work)

    async def fit_contexts(self, request: Request) -> Response:
        """Contexts that are not cut."""

        def work(served: Served, body: bytes, timeout_s: float | None) -> Work:
            name, texts = wire.decode_fit(body)
            comparer = _comparer_of(served, name)

            async def fitted(on_token: OnToken) -> bytes:
                return wire.encode_contexts(await comparer.fit_contexts(texts))

            return fitted

        return await self._answer(request, work)

    async def _answer(
        self,
        request: Request,
        prepare: Callable[[Served, bytes, float | None], Work],
    ) -> Response:
        """The lines of one call, or why it is not taken."""
        try:
            served = self._admitted(request)
            timeout_s = _timeout_of(request)
            if request.headers.get(wire.WIRE_HEADER) != str(wire.VERSION):
                message = f"this worker speaks version {wire.VERSION} of the wire"
                raise _Refusal(400, "wire_mismatch", message)
            work = prepare(served, await request.body(), timeout_s)
        except _Refusal as refusal:
            return refusal.response
        except wire.Garbled as error:
            return _error(400, "wire_mismatch", f"the body is {error}")
        except CocoaError as error:
            return JSONResponse(wire.error_to_json(error), 422)
        return StreamingResponse(_lines(work, self._on_defect), media_type="application/x-ndjson")

    def _admitted(self, request: Request) -> Served:
        """What is served to this caller.

        Raises:
            _Refusal: it shows no or another secret, or nothing is served now.
        """
        shown = request.headers.get("authorization", "").encode()
        if self._expected and not hmac.compare_digest(shown, self._expected):
            raise _Refusal(401, "unauthorized", "the caller does not show this worker's secret")
        if (served := self._get_served()) is None:
            raise _Refusal(503, NotReady.code, "the model is not ready")
        return served


async def _lines(work: Work, on_defect: OnDefect) -> AsyncIterator[bytes]:
    """What a call says as it goes on; whoever stops reading ends the work."""
    said: asyncio.Queue[bytes | None] = asyncio.Queue()
    task = asyncio.ensure_future(work(lambda token: said.put_nowait(wire.encode_token(token))))
    task.add_done_callback(lambda _: said.put_nowait(None))
    try:
        while True:
            try:
                line = await asyncio.wait_for(said.get(), wire.HEARTBEAT_S)
            except TimeoutError:
                yield wire.HEARTBEAT
                continue
            if line is None:
                break
            yield line
        yield _last_line(task, on_defect)
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await task


def _last_line(task: "asyncio.Future[bytes]", on_defect: OnDefect) -> bytes:
    try:
        return task.result()
    except CocoaError as error:
        return wire.encode_error(error)
    except asyncio.CancelledError:
        return wire.encode_error(NotReady("the model has stopped"))
    except Exception as error:
        on_defect(error)
        return wire.encode_error(EngineError(f"the worker failed: {type(error).__name__}"))


def _timeout_of(request: Request) -> float | None:
    """Seconds that are left to the gateway; None where it sets no deadline."""
    given = request.headers.get(wire.TIMEOUT_HEADER)
    if given is None:
        return None
    try:
        timeout_s = float(given)
    except ValueError:
        timeout_s = -1.0
    if not 0 <= timeout_s <= _MAX_TIMEOUT_S:  # NaN is not, either
        message = f"{wire.TIMEOUT_HEADER} must lie between 0 and {_MAX_TIMEOUT_S:g} seconds"
        raise _Refusal(400, "wire_mismatch", message)
    return timeout_s


def _generator_of(served: Served) -> Generator:
    if served.generator is None:
        raise InvalidRequest("this is no generation worker")
    return served.generator


def _comparer_of(served: Served, name: str | None) -> Comparer:
    comparer = served.nli if name is None else (served.comparers or {}).get(name)
    if comparer is None:
        raise InvalidRequest("this worker has no such comparer")
    return comparer


def _error(status: int, code: str, message: str) -> JSONResponse:
    body = {"code": code, "message": message, "field": None, "retry_after_s": None}
    return JSONResponse({"error": body}, status)
