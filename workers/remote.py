"""`Generator` and `Comparer` in another process of ours: `cocoa worker generation|similarity`.

Every reply names the weights that spoke. Where they are no longer those of `info`, the worker is
asked anew what it is, so that nothing of other weights is served under their name.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import orjson

from models.errors import (
    GenerationUnavailable,
    InvalidRequest,
    NotReady,
    SimilarityUnavailable,
)
from models.records import Generation, GenerationRequest, OnToken, Pair
from models.similarity.protocol import ContextAndText
from workers import wire
from workers.config import Beside, WorkerConfig
from workers.deadlines import within
from workers.hooks import Hooks
from workers.peer import Peer
from workers.protocol import (
    Comparer,
    ComparerInfo,
    FirstTokenReply,
    Generator,
    GeneratorInfo,
    PairReply,
    PairScore,
)
from workers.upstream import Server, Unreachable

Decoded = TypeVar("Decoded")
Reply = TypeVar("Reply", Generation, FirstTokenReply)

_RETRY_AFTER_S = 1


class RemoteGenerator:
    """A `Generator` behind generation workers that all hold the same model."""

    def __init__(self, peer: Peer) -> None:
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

    def __init__(self, peer: Peer, name: str | None, *, is_out_of_domain: bool = False) -> None:
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
    peer = Peer("generation", config.generation, hooks)
    await peer.connect()
    return RemoteGenerator(peer)


async def connect_comparers(
    config: WorkerConfig, hooks: Hooks, beside: Beside
) -> tuple[Mapping[str, RemoteComparer], RemoteComparer | None]:
    """The comparers at their url and the NLI model among them, once a worker answers."""
    peer = Peer("similarity", config.similarity, hooks)
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


_generator: type[Generator] = RemoteGenerator  # mypy holds the classes to their protocols
_comparer: type[Comparer] = RemoteComparer
