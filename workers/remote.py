"""`Generator` and `Comparer` in another process of ours: `cocoa worker generation|similarity`.

Every reply names the weights that spoke. Where they are no longer those of `info`, the worker is
asked anew what it is, so that nothing of other weights is served under their name.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import httpx
import orjson

from models.errors import (
    CocoaError,
    EngineError,
    GenerationUnavailable,
    InvalidRequest,
    NotReady,
    SimilarityUnavailable,
)
from models.records import Generation, GenerationRequest, OnToken, Pair, Token
from models.similarity.protocol import ContextAndText
from workers import wire
from workers.config import Beside, Role, UpstreamConfig, WorkerConfig
from workers.deadlines import seconds_left, within
from workers.hooks import Hooks
from workers.lines import lines
from workers.protocol import (
    Comparer,
    ComparerInfo,
    FirstTokenReply,
    Generator,
    GeneratorInfo,
    PairReply,
    PairScore,
)
from workers.upstream import (
    Refused,
    Server,
    Unreachable,
    Upstream,
    session_of,
)

logger = logging.getLogger(__name__)

Decoded = TypeVar("Decoded")
Reply = TypeVar("Reply", Generation, FirstTokenReply)

_RETRY_AFTER_S = 1


class _Peer:
    """One worker as its gateway sees it: its info, and calls of it.

    Attributes:
        upstream: its servers.
        info: what it last said it is.
    """

    def __init__(self, role: Role, config: UpstreamConfig, hooks: Hooks) -> None:
        self.upstream = Upstream(role, config, self._check, on_call=hooks.on_call)
        self.info: Any = None
        self._role = role
        self._request_id = hooks.request_id

    async def connect(self) -> None:
        """Wait until a server has said what it is."""
        await self.upstream.connect()

    async def ask(
        self,
        path: str,
        body: bytes,
        decode: Callable[[Any], Decoded],
        *,
        timeout_s: float | None = None,
        key: str | None = None,
        on_token: OnToken | None = None,
    ) -> tuple[Decoded, Server]:
        """What a server answers to a call, and which one it was.

        Raises:
            Unreachable: none answered.
            CocoaError: what the worker raised.
        """
        began_at = time.monotonic()
        num_streamed = 0

        def stream(token: Token) -> None:
            nonlocal num_streamed
            num_streamed += 1
            if on_token is not None:
                on_token(token)

        async def send(server: Server) -> tuple[Decoded, Server]:
            headers = {wire.WIRE_HEADER: str(wire.VERSION)}
            if (left_s := seconds_left(timeout_s, began_at)) is not None:
                headers[wire.TIMEOUT_HEADER] = f"{left_s:.3f}"
            if key is not None:
                headers[wire.SESSION_HEADER] = session_of(key)
            if (request_id := self._request_id()) is not None:
                headers[wire.REQUEST_ID_HEADER] = request_id
            posting = server.client.stream("POST", path, content=body, headers=headers)
            async with posting as response:
                if response.status_code != 200:
                    raise await _refusal(response)
                try:
                    return decode(await _result(response, stream)), server
                except wire.Garbled as error:
                    raise Unreachable(f"its answer is {error}") from None

        return await self.upstream.call(send, key=key, may_repeat=lambda: not num_streamed)

    async def refresh(self, server: Server) -> None:
        """Ask one server anew what it is; where that fails, what it said before holds."""
        try:
            await self._check(server)
        except (Unreachable, Refused, httpx.TransportError) as error:
            reason = str(error) or type(error).__name__
            logger.warning("%s at %s says not what it is: %s", self._role, server.url, reason)

    async def _check(self, server: Server) -> None:
        response = await server.client.get("/v1/info")
        if response.status_code == 401:
            raise Refused("it wants another key")
        if response.status_code != 200:
            raise await _refusal(response)
        try:
            info = wire.decode_info(self._role, response.content)
        except wire.Garbled as error:
            raise Unreachable(str(error)) from None
        # Of several servers whose weights differ for a while, the first one that is up is told.
        first = next((one for one in self.upstream.servers if one.is_up), server)
        if self.info is None or server is first:
            self.info = info


class RemoteGenerator:
    """A `Generator` behind generation workers that all hold the same model."""

    def __init__(self, peer: _Peer) -> None:
        self._peer = peer

    @property
    def info(self) -> GeneratorInfo:
        """See `Generator.info`; of the worker as it last said."""
        info: wire.GenerationInfo = self._peer.info
        return info.generator

    @property
    def num_waiting(self) -> int:
        """See `Generator.num_waiting`; 0, since the worker's own metrics tell."""
        return 0

    @property
    def busy_since(self) -> float | None:
        """See `Worker.busy_since`; None, since the worker has a watchdog of its own."""
        return None

    async def run(self) -> None:
        """See `Worker.run`."""
        await self._peer.upstream.run()

    async def warm_up(self) -> None:
        """See `Worker.warm_up`; the worker has done that itself."""

    async def close(self) -> None:
        """See `Worker.close`."""
        await self._peer.upstream.close()

    async def generate(
        self, request: GenerationRequest, on_token: OnToken | None = None
    ) -> Generation:
        """See `Generator.generate`.

        Raises:
            GenerationUnavailable: no worker answered; whatever the worker raises comes as it is.
        """
        began_at = time.monotonic()
        body = wire.encode_generate(request, streams=on_token is not None)
        generation = await self._ask(
            "/v1/generate",
            body,
            lambda value: wire.decode_generation(value, request),
            request,
            on_token,
        )
        # What the way took is time in which nothing was computed.
        queue_s = time.monotonic() - began_at - generation.generate_s
        return replace(generation, queue_s=max(0.0, queue_s))

    async def first_token_logprobs(
        self, request: GenerationRequest, groups: Sequence[Sequence[str]]
    ) -> FirstTokenReply:
        """See `Generator.first_token_logprobs`; raises as `generate` does."""
        return await self._ask(
            "/v1/first-token-logprobs",
            wire.encode_first_token(request, groups),
            lambda value: wire.decode_first_token_reply(value, len(groups)),
            request,
        )

    async def _ask(
        self,
        path: str,
        body: bytes,
        decode: Callable[[Any], Reply],
        request: GenerationRequest,
        on_token: OnToken | None = None,
    ) -> Reply:
        if self._peer.upstream.is_closed:
            raise NotReady("the language model has stopped")
        asking = self._peer.ask(
            path,
            body,
            decode,
            timeout_s=request.timeout_s,
            key=_key_of(request),
            on_token=on_token,
        )
        try:
            reply, server = await within(request.timeout_s, asking)
        except Unreachable as error:
            raise GenerationUnavailable(
                f"no generation worker has answered: {error}", retry_after_s=_RETRY_AFTER_S
            ) from error
        if reply.identity != self.info.identity:
            await self._peer.refresh(server)
        return reply


class RemoteComparer:
    """A `Comparer` of a similarity worker, or of several that hold the same models.

    Args:
        peer: the workers; at least one has this comparer.
        name: of the similarity function; None for the NLI model.
        is_out_of_domain: whether the embedded model would compare another language model's answers.
    """

    def __init__(self, peer: _Peer, name: str | None, *, is_out_of_domain: bool = False) -> None:
        self._peer = peer
        self._name = name
        self._is_out_of_domain = is_out_of_domain
        self._told: wire.SimilarityInfo | None = None
        self._info: ComparerInfo

    @property
    def info(self) -> ComparerInfo:
        """See `Comparer.info`; of the worker as it last said."""
        if self._peer.info is not self._told:
            self._told = self._peer.info
            found = _info_in(self._told, self._name)
            if found is not None:  # else its calls say that the worker no longer has it
                self._info = replace(found, is_out_of_domain=self._is_out_of_domain)
        return self._info

    @property
    def busy_since(self) -> float | None:
        """See `Worker.busy_since`; None, since the worker has a watchdog of its own."""
        return None

    async def run(self) -> None:
        """See `Worker.run`."""
        await self._peer.upstream.run()

    async def warm_up(self) -> None:
        """See `Worker.warm_up`; the worker has done that itself."""

    async def close(self) -> None:
        """See `Worker.close`."""
        await self._peer.upstream.close()

    async def compare(self, pairs: Sequence[Pair]) -> PairReply:
        """See `Comparer.compare`.

        Raises:
            SimilarityUnavailable: no worker answered, or its weights changed between two calls.
        """
        self._check_open()
        info = self.info
        if not pairs:
            return PairReply({}, info.identity)
        scores: dict[Pair, PairScore] = {}
        identity = ""
        for part in wire.parts(list(dict.fromkeys(pairs))):
            reply = await self._compare(part, len(info.labels))
            if scores and reply.identity != identity:
                raise SimilarityUnavailable("the similarity model was replaced; repeat the request")
            identity = reply.identity
            scores |= reply.scores
        return PairReply(scores, identity)

    async def fit_contexts(self, texts: Sequence[ContextAndText]) -> list[str]:
        """See `Comparer.fit_contexts`; raises as `compare` does."""
        self._check_open()
        contexts: dict[ContextAndText, str] = {}
        for part in wire.parts(list(dict.fromkeys(texts))):
            body = wire.encode_fit(self._name, part)
            found, _ = await self._ask("/v1/fit-contexts", body, _contexts_of(part))
            contexts |= zip(part, found, strict=True)
        return [contexts[one] for one in texts]

    async def _compare(self, pairs: Sequence[Pair], num_labels: int) -> PairReply:
        body = wire.encode_compare(self._name, pairs)
        reply, server = await self._ask(
            "/v1/compare", body, lambda value: wire.decode_pair_reply(value, pairs, num_labels)
        )
        if reply.identity != self.info.identity:
            await self._peer.refresh(server)
        return reply

    async def _ask(
        self, path: str, body: bytes, decode: Callable[[Any], Decoded]
    ) -> tuple[Decoded, Server]:
        try:
            return await self._peer.ask(path, body, decode)
        except Unreachable as error:
            raise SimilarityUnavailable(
                f"no similarity worker has answered: {error}", retry_after_s=_RETRY_AFTER_S
            ) from error
        except InvalidRequest as error:  # a worker of other models; no client is at fault
            raise SimilarityUnavailable(error.message, retry_after_s=_RETRY_AFTER_S) from error

    def _check_open(self) -> None:
        if self._peer.upstream.is_closed:
            raise NotReady("the similarity model has stopped")


async def connect_generator(config: WorkerConfig, hooks: Hooks) -> RemoteGenerator:
    """The generator at its url, once one of its workers answers."""
    peer = _Peer("generation", config.generation, hooks)
    await peer.connect()
    return RemoteGenerator(peer)


async def connect_comparers(
    config: WorkerConfig, hooks: Hooks, beside: Beside
) -> tuple[Mapping[str, RemoteComparer], RemoteComparer | None]:
    """The comparers at their url and the NLI model among them, once a worker answers."""
    peer = _Peer("similarity", config.similarity, hooks)
    await peer.connect()
    told: wire.SimilarityInfo = peer.info
    comparers = {}
    for name, info in told.comparers.items():
        comparers[name] = RemoteComparer(
            peer, name, is_out_of_domain=beside.is_lost_on(info.model_id)
        )
    if told.nli is None:
        return comparers, None
    is_lost = beside.is_lost_on(told.nli.model_id)
    return comparers, RemoteComparer(peer, None, is_out_of_domain=is_lost)


def _info_in(told: wire.SimilarityInfo, name: str | None) -> ComparerInfo | None:
    return told.nli if name is None else told.comparers.get(name)


def _contexts_of(texts: Sequence[ContextAndText]) -> Callable[[Any], list[str]]:
    return lambda value: wire.decode_contexts(value, texts)


def _key_of(request: GenerationRequest) -> str:
    """Equal for requests that share their prompt, so that its cache is found."""
    if request.prompt is not None:
        return request.prompt
    messages = [dict(one) for one in request.messages or ()]
    return orjson.dumps(messages).decode()


async def _result(response: httpx.Response, on_token: OnToken) -> Any:
    """The result at the end of the lines; tokens are told as they come.

    It is read to its end: a connection with unread bytes cannot be used again.

    Raises:
        Unreachable: the lines end without one, or the worker has stopped.
        Garbled: a line is none of ours, or comes after the result.
        CocoaError: what the worker raised.
    """
    result = None
    async for line in lines(response):
        if result is not None:
            raise wire.Garbled("longer than its result")
        try:
            value = orjson.loads(line)
        except ValueError:
            raise wire.Garbled("no JSON") from None
        if not isinstance(value, dict) or len(value) != 1:
            raise wire.Garbled("no line of ours")
        [(kind, content)] = value.items()
        if kind == "token":
            on_token(wire.decode_token(content))
        elif kind == "result":
            result = content
        elif kind == "error":
            raise _of_worker(wire.decode_error(content))
        else:
            raise wire.Garbled("no line of ours")
    if result is None:
        raise Unreachable("its answer ends in the middle")
    return result


async def _refusal(response: httpx.Response) -> Exception:
    """What a reply without an answer means.

    A worker that is not ready, or a proxy without one, is passed over like one that cannot be
    reached.
    """
    body = await response.aread()
    try:
        return _of_worker(wire.decode_error(orjson.loads(body)["error"]))
    except (wire.Garbled, ValueError, LookupError, TypeError):
        return Unreachable(f"it answers with status {response.status_code}")


def _of_worker(error: CocoaError) -> Exception:
    """A worker whose model has stopped has none; a defect of it is its model's failure here."""
    if isinstance(error, NotReady):
        return Unreachable("its model is not ready")
    return EngineError(error.message) if type(error) is CocoaError else error


_generator: type[Generator] = RemoteGenerator  # mypy holds the classes to their protocols
_comparer: type[Comparer] = RemoteComparer
