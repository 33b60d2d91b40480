"""`Generator` and `Comparer` in another process of ours: `cocoa worker generation|similarity`.

Every reply names the weights that spoke. Where they are no longer those of `info`, the worker is
asked anew what it is, so that nothing of other weights is served under their name.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from models.engines.protocol import check_grammar, check_no_images
from models.errors import (
    InvalidRequest,
    NotReady,
    PromptTooLong,
    SimilarityUnavailable,
)
from models.images import images_of
from models.records import Generation, GenerationRequest, OnToken, Pair
from models.similarity import OVER_NLI
from models.similarity.protocol import ContextAndText
from workers import wire
from workers.asked_for import most_tokens
from workers.calling import Listener, deadline_of, in_time
from workers.client import NO_ANSWER, Refused, Unreachable, body_of, reason_of
from workers.config import OurComparers, OurGenerators, Role, Servers
from workers.hooks import Hooks
from workers.language_model import LanguageModel
from workers.protocol import (
    Comparer,
    ComparerInfo,
    FirstTokenReply,
    Generator,
    GeneratorInfo,
    NliComparer,
    PairReply,
    PairScore,
)
from workers.remote_worker import Known, RemoteWorker, prompt_key
from workers.upstream import Server, Upstream, session_of
from workers.worker_replies import MAX_INFO_BYTES, bounded, refusal_of, result_of

logger = logging.getLogger(__name__)

Decoded = TypeVar("Decoded")
Reply = TypeVar("Reply", Generation, FirstTokenReply)

_NOBODY = Listener(None)


class _OurWorker(RemoteWorker[Known]):
    """A worker behind processes of ours.

    Args:
        upstream: these processes.
        hooks: what it is tied to.
    """

    def __init__(self, upstream: Upstream[Known], hooks: Hooks) -> None:
        super().__init__(upstream, f"{upstream.role} worker")
        self._own_headers = hooks.headers

    async def _ask(
        self,
        path: str,
        body: bytes,
        decode: Callable[[Any], Decoded],
        *,
        until: float | None = None,
        key: str | None = None,
        listener: Listener = _NOBODY,
    ) -> tuple[Decoded, Server[Known]]:
        """What a process answers to a call, and which one it was.

        Args:
            path: of the call.
            body: of the call.
            decode: its result.
            until: monotonic second of the deadline; None where there is none.
            key: what the process is chosen by.
            listener: told the tokens that come before the result.

        Raises:
            CocoaError: none answered, or what the worker raised.
        """
        digest = wire.digest_of_call(path, body)

        async def send(server: Server[Known]) -> tuple[Decoded, Server[Known]]:
            headers = self._headers(until, key)
            posting = server.client.stream("POST", path, content=body, headers=headers)
            async with posting as response:
                if response.status_code != 200:
                    raise await refusal_of(response)
                try:
                    return decode(await result_of(response, listener, digest)), server
                except wire.Garbled as error:
                    raise Unreachable(f"its answer is {error}") from None

        return await self._call(send, key=key, may_repeat=listener.has_heard_nothing)

    async def _refresh(self, server: Server[Known]) -> None:
        """Ask one process anew what it is; where that fails, what it said before holds."""
        role = self.upstream.role
        try:
            await _look_up(role, server)
        except NO_ANSWER as error:
            reason = reason_of(error)
            logger.warning("%s at %s does not say what it is: %s", role, server.url, reason)

    def _headers(self, until: float | None, key: str | None) -> dict[str, str]:
        headers = {wire.WIRE_HEADER: str(wire.VERSION), **self._own_headers()}
        if until is not None:
            headers[wire.TIMEOUT_HEADER] = f"{max(0.0, until - time.monotonic()):.3f}"
        if key is not None:
            headers[wire.SESSION_HEADER] = session_of(key)
        return headers


class RemoteGenerator(_OurWorker[wire.GenerationInfo]):
    """A `Generator` behind generation workers that all hold the same model."""

    @property
    def info(self) -> GeneratorInfo:
        """What the worker last said."""
        return self._known.generator

    async def generate(
        self, request: GenerationRequest, on_token: OnToken | None = None
    ) -> Generation:
        """As `Generator.generate`.

        Raises:
            GenerationUnavailable: no worker answered; whatever the worker raises comes as it is.
        """
        if request.grammar is not None:
            check_grammar(self.info.no_grammar)
        check_no_images(dict(images_of(request.messages or ())), self.info.no_images)
        began_at = time.monotonic()
        body = wire.encode_generate(request, streams=on_token is not None)
        decode = partial(wire.decode_generation, request=request)
        listener = Listener(on_token)
        if on_token is not None and (request.answer is None or request.streamed):
            listener = Listener(bounded(on_token, most_tokens(request)))
        generation = await self._answer("/v1/generate", body, decode, request, listener)
        # What the way took is time in which nothing was computed.
        total_s = time.monotonic() - began_at
        generate_s = min(generation.generate_s, total_s)
        prompt_tokens = min(generation.prompt_tokens, self.info.max_context_tokens)
        return replace(
            generation,
            prompt_tokens=prompt_tokens,
            queue_s=total_s - generate_s,
            generate_s=generate_s,
        )

    async def first_token_logprobs(
        self, request: GenerationRequest, groups: Sequence[Sequence[str]]
    ) -> FirstTokenReply:
        """Raises as `generate` does."""
        body = wire.encode_first_token(request, groups)
        decode = partial(wire.decode_first_token_reply, num_groups=len(groups))
        return await self._answer("/v1/first-token-logprobs", body, decode, request, _NOBODY)

    async def _answer(
        self,
        path: str,
        body: bytes,
        decode: Callable[[Any], Reply],
        request: GenerationRequest,
        listener: Listener,
    ) -> Reply:
        asking = self._ask(
            path,
            body,
            decode,
            until=deadline_of(request.timeout_s),
            key=prompt_key(request),
            listener=listener,
        )
        try:
            async with in_time(request.timeout_s):
                reply, server = await asking
        except PromptTooLong as error:
            context = self.info.max_context_tokens
            message = f"prompt and new tokens exceed the model's context of {context} tokens"
            raise PromptTooLong(message, field=error.field) from None
        if reply.identity != self.info.identity:
            await self._refresh(server)
        return reply


class RemoteComparer(_OurWorker[wire.SimilarityInfo]):
    """A `Comparer` of a similarity worker, or of several that hold the same models.

    Args:
        upstream: the workers; at least one has this comparer.
        hooks: what it is tied to.
        language_model: whose answers it compares.
        name: of the similarity function; None for the NLI model.
        info: what the worker says of it now.
    """

    def __init__(
        self,
        upstream: Upstream[wire.SimilarityInfo],
        hooks: Hooks,
        language_model: LanguageModel,
        name: str | None,
        info: ComparerInfo,
    ) -> None:
        super().__init__(upstream, hooks)
        self._name = name
        is_nli = name is None or name in OVER_NLI
        self._is_out_of_domain = language_model.is_unknown_to(info.model_id, is_nli=is_nli)
        self._told: wire.SimilarityInfo | None = None
        self._info = info

    @property
    def info(self) -> ComparerInfo:
        """What the worker last said."""
        if (told := self._known) is not self._told:
            self._told = told
            found = told.nli if self._name is None else told.comparers.get(self._name)
            if found is not None:  # else its calls say that the worker no longer has it
                self._info = replace(found, is_out_of_domain=self._is_out_of_domain)
        return self._info

    async def compare(self, pairs: Sequence[Pair]) -> PairReply:
        """As `Comparer.compare`.

        Raises:
            SimilarityUnavailable: no worker answered, or its weights changed between two calls.
        """
        self._check_open()
        info = self.info
        reply = PairReply({}, info.identity)
        scores: dict[Pair, PairScore] = {}
        for part in wire.parts(list(dict.fromkeys(pairs))):
            body = wire.encode_compare(self._name, part)
            decode = partial(wire.decode_pair_reply, pairs=part, num_labels=len(info.labels))
            identity = reply.identity
            reply, server = await self._answer("/v1/compare", body, decode)
            if reply.identity != self.info.identity:
                await self._refresh(server)
            if scores and reply.identity != identity:
                raise SimilarityUnavailable("the similarity model was replaced; repeat the request")
            scores |= reply.scores
        return PairReply(scores, reply.identity)

    async def fit_contexts(self, texts: Sequence[ContextAndText]) -> list[str]:
        """Raises as `compare` does."""
        self._check_open()
        contexts: dict[ContextAndText, str] = {}
        for part in wire.parts(list(dict.fromkeys(texts))):
            body = wire.encode_fit(self._name, part)
            decode = partial(wire.decode_contexts, texts=part)
            found, _ = await self._answer("/v1/fit-contexts", body, decode)
            contexts |= zip(part, found, strict=True)
        return list(map(contexts.__getitem__, texts))

    async def _answer(
        self, path: str, body: bytes, decode: Callable[[Any], Decoded]
    ) -> tuple[Decoded, Server[wire.SimilarityInfo]]:
        try:
            return await self._ask(path, body, decode)
        except InvalidRequest as error:  # a worker of other models; no client is at fault
            raise SimilarityUnavailable(error.message) from error


class RemoteNli(RemoteComparer):
    """A `NliComparer` of a similarity worker."""

    async def token_ends(self, texts: Sequence[str]) -> list[list[int]]:
        """Raises as `compare` does."""
        self._check_open()
        ends: dict[str, list[int]] = {}
        for part in wire.parts([(text,) for text in dict.fromkeys(texts)]):
            asked = [text for (text,) in part]
            decode = partial(wire.decode_token_ends, texts=asked)
            found, _ = await self._answer("/v1/token-ends", wire.encode_texts(asked), decode)
            ends |= zip(asked, found, strict=True)
        return list(map(ends.__getitem__, texts))


async def connect_generator(servers: OurGenerators, hooks: Hooks) -> RemoteGenerator:
    """The generator at its url, once one of its workers answers."""
    upstream: Upstream[wire.GenerationInfo] = _upstream("generation", servers, hooks)
    await upstream.connect()
    return RemoteGenerator(upstream, hooks)


async def connect_comparers(
    servers: OurComparers, hooks: Hooks, language_model: LanguageModel
) -> tuple[Mapping[str, RemoteComparer], RemoteNli | None]:
    """The comparers at their url and the NLI model among them, once a worker answers."""
    upstream: Upstream[wire.SimilarityInfo] = _upstream("similarity", servers, hooks)
    await upstream.connect()
    if (told := upstream.known) is None:
        raise NotReady("no similarity worker has answered")
    comparer_of = partial(RemoteComparer, upstream, hooks, language_model)
    comparers = {name: comparer_of(name, info) for name, info in told.comparers.items()}
    if told.nli is None:
        return comparers, None
    return comparers, RemoteNli(upstream, hooks, language_model, None, told.nli)


def _upstream(role: Role, servers: Servers, hooks: Hooks) -> Upstream[Any]:
    return Upstream(role, servers, partial(_look_up, role), hooks)


async def _look_up(role: Role, server: Server[Any]) -> None:
    """Ask one process what it is.

    Raises:
        Unreachable, Refused: it does not say.
    """
    async with server.client.stream("GET", "/v1/info") as response:
        if response.status_code == 401:
            raise Refused("it wants another key")
        if response.status_code != 200:
            raise Unreachable(str(await refusal_of(response)))
        body = await body_of(response, MAX_INFO_BYTES)
    try:
        server.known = wire.decode_info(role, body)
    except wire.Garbled as error:
        raise Unreachable(str(error)) from None


_generator: type[Generator] = RemoteGenerator  # mypy holds the classes to their protocols
_comparer: type[Comparer] = RemoteComparer
_nli: type[NliComparer] = RemoteNli
