"""`Generator`, `SimilarityScorer` in another process of ours: `cocoa worker generation|similarity`.

Every reply names the weights that spoke. Where they are no longer those of `info`, the worker is
described anew, so that nothing of other weights is served under their name.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from types import MappingProxyType
from typing import Generic, TypeVar

from models.codec import to_json
from models.errors import InvalidRequest, SimilarityUnavailable
from models.images import images_of
from models.records import Generation, GenerationRequest, OnToken, Pair, RawPrompt, Tokenized
from models.similarity import OVER_NLI
from workers.calling import Listener, in_time
from workers.config import GeneratorConfig, LanguageModel, Role, SimilaritySettings
from workers.hooks import Hooks
from workers.protocol import (
    FirstTokenReply,
    Generator,
    GeneratorInfo,
    NliScorer,
    PairReply,
    PairScore,
    SimilarityInfo,
    SimilarityScorer,
    refuse_unheeded,
)
from workers.remote import wire
from workers.remote.client import NO_ANSWER, Client, Refused, Unreachable, body_of
from workers.remote.standing import Known, Server
from workers.remote.upstream import RemoteWorker, Upstream, session_of
from workers.remote.worker_replies import MAX_INFO_BYTES, bounded, refusal_of, result_of

Decoded = TypeVar("Decoded")
TextOrPair = TypeVar("TextOrPair", str, tuple[str, str])
Reply = TypeVar("Reply", Generation, FirstTokenReply)

_NOBODY = Listener(None)


class _Kind(Generic[Known]):
    """A process of ours, which describes itself."""

    def __init__(self, role: Role) -> None:
        self._role = role

    async def look_up(self, client: Client) -> Known:
        async with client.stream("GET", "/v1/info") as response:
            if response.status == 401:
                raise Refused("it wants another key")
            if response.status != 200:
                raise Unreachable(str(await refusal_of(response)))
            body = await body_of(response, MAX_INFO_BYTES)
        try:
            known: Known = wire.decode_info(self._role, body)
        except wire.Garbled as error:
            raise Unreachable(str(error)) from None
        return known

    async def try_out(self, client: Client, said: Known) -> Known:
        return said

    async def ask_again(self, client: Client, known: Known) -> Known:
        return await self.look_up(client)


class _OurWorker(RemoteWorker[Known]):
    """A worker behind a process of ours."""

    def __init__(self, upstream: Upstream[Known], hooks: Hooks) -> None:
        super().__init__(upstream)
        self._request_headers = hooks.headers

    async def _ask(
        self,
        path: str,
        body: bytes,
        decode: Callable[[bytes], Decoded],
        *,
        until: float | None = None,
        session: Mapping[str, str] = MappingProxyType({}),
        listener: Listener = _NOBODY,
        is_of: Callable[[Decoded], bool] = lambda reply: True,
    ) -> Decoded:
        """The reply to a call of the process; its tokens come before the result.

        Where an answer is not `is_of` the known weights, the process describes itself anew, and
        where that fails, its earlier description holds. `until` is the monotonic second of the
        deadline, `session` a header of the prompt.

        Raises:
            CocoaError: it did not answer, or as the worker raised it.
        """
        digest = wire.digest_of_call(path, body)

        async def send(server: Server[Known]) -> Decoded:
            headers = {wire.WIRE_HEADER: str(wire.VERSION), **self._request_headers(), **session}
            if until is not None:
                headers[wire.TIMEOUT_HEADER] = f"{max(0.0, until - time.monotonic()):.3f}"
            posting = server.client.stream("POST", path, body, headers=headers)
            async with posting as response:
                if response.status != 200:
                    raise await refusal_of(response)
                try:
                    reply = decode(await result_of(response, listener, digest))
                except wire.Garbled as error:
                    raise Unreachable(f"its answer is {error}") from None
            if not is_of(reply):
                server.doubt()
                with suppress(*NO_ANSWER):
                    await server.settled()
            return reply

        return await self.upstream.call(send, may_repeat=listener.has_heard_nothing)


class RemoteGenerator(_OurWorker[wire.GenerationInfo]):
    """A `Generator` behind a generation worker."""

    @property
    def info(self) -> GeneratorInfo:
        return self.upstream.known.generator

    async def generate(
        self, request: GenerationRequest, on_token: OnToken | None = None
    ) -> Generation:
        """As `Generator.generate`.

        Raises:
            GenerationUnavailable: no answer came; whatever the worker raises comes as it is.
        """
        if request.grammar is not None:
            refuse_unheeded("grammar", self.info.no_grammar)
        for field in dict(images_of(request.messages or ())):
            refuse_unheeded(field, self.info.no_images)
        began_at = time.monotonic()
        body = wire.encode_request(request, streams=on_token is not None)
        decode = partial(wire.decode_generation, request)
        listener = Listener(on_token)
        if on_token is not None and request.answer is None:
            listener = Listener(bounded(on_token, wire.most_tokens(request)))
        generation = await self._answer("/v1/generate", body, decode, request, listener)
        # Time on the way counts as time in the queue.
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
        body = wire.encode_request(request, groups=groups)
        decode = partial(wire.decode_first_token_reply, len(groups))
        return await self._answer("/v1/first-token-logprobs", body, decode, request, _NOBODY)

    async def tokenize(self, prompt: RawPrompt, *, special: bool = True) -> Tokenized:
        """Raises as `generate` does."""
        return await self._ask("/v1/tokenize", to_json((prompt, special)), wire.decode_tokenized)

    async def _answer(
        self,
        path: str,
        body: bytes,
        decode: Callable[[bytes], Reply],
        request: GenerationRequest,
        listener: Listener,
    ) -> Reply:
        async with in_time(request.timeout_s) as until:
            return await self._ask(
                path,
                body,
                decode,
                until=until,
                session=session_of(request),
                listener=listener,
                is_of=lambda reply: reply.identity == self.info.identity,
            )


class RemoteSimilarityScorer(_OurWorker[wire.SimilarityWorkerInfo]):
    """A `SimilarityScorer` of a similarity worker.

    Its name is that of the similarity function; None for the NLI model.
    """

    def __init__(
        self,
        upstream: Upstream[wire.SimilarityWorkerInfo],
        hooks: Hooks,
        language_model: LanguageModel,
        name: str | None,
        info: SimilarityInfo,
    ) -> None:
        super().__init__(upstream, hooks)
        self._name = name
        is_nli = name in (None, OVER_NLI)
        self._is_out_of_domain = language_model.is_unknown_to(info.model_id, is_nli=is_nli)
        self._known: wire.SimilarityWorkerInfo | None = None
        self._info = info

    @property
    def info(self) -> SimilarityInfo:
        if (known := self.upstream.known) is not self._known:
            self._known = known
            info = known.nli if self._name is None else known.similarity_scorers.get(self._name)
            if info is not None:  # else its calls say that the worker no longer has it
                self._info = replace(info, is_out_of_domain=self._is_out_of_domain)
        return self._info

    async def compare(self, pairs: Sequence[Pair]) -> PairReply:
        """As `SimilarityScorer.compare`.

        Raises:
            SimilarityUnavailable: no answer came, or the weights changed between two calls.
        """
        num_labels = len(self.info.labels)
        replies = await self._answers(
            "/v1/compare",
            list(dict.fromkeys(pairs)),
            partial(wire.encode_compare, self._name),
            partial(wire.decode_pair_reply, num_labels),
            is_of=lambda reply: reply.identity == self.info.identity,
        )
        identities = {reply.identity for reply in replies} or {self.info.identity}
        if len(identities) > 1:
            raise SimilarityUnavailable("the similarity model was replaced; repeat the request")
        scores: dict[Pair, PairScore] = {}
        for reply in replies:
            scores |= reply.scores
        return PairReply(scores, identities.pop())

    async def fit_contexts(self, texts: Sequence[Pair]) -> list[str]:
        """Raises as `compare` does."""

        def encode(part: Sequence[Pair]) -> bytes:
            return to_json({"similarity_scorer": self._name, "texts": part})

        return await self._of_each("/v1/fit-contexts", texts, encode, wire.decode_contexts)

    async def _of_each(
        self,
        path: str,
        texts: Sequence[TextOrPair],
        encode: Callable[[Sequence[TextOrPair]], bytes],
        decode: Callable[[Sequence[TextOrPair], bytes], list[Decoded]],
    ) -> list[Decoded]:
        distinct = list(dict.fromkeys(texts))
        replies = await self._answers(path, distinct, encode, decode)
        reply_to = dict(zip(distinct, chain.from_iterable(replies), strict=True))
        return list(map(reply_to.__getitem__, texts))

    async def _answers(
        self,
        path: str,
        texts: Sequence[TextOrPair],
        encode: Callable[[Sequence[TextOrPair]], bytes],
        decode: Callable[[Sequence[TextOrPair], bytes], Decoded],
        is_of: Callable[[Decoded], bool] = lambda reply: True,
    ) -> list[Decoded]:
        """The replies to calls of bounded size for all texts."""
        self.upstream.check_open()
        replies = []
        for part in wire.parts(texts):
            decoded = partial(decode, part)
            try:
                replies.append(await self._ask(path, encode(part), decoded, is_of=is_of))
            except InvalidRequest as error:  # a worker of other models; no client is at fault
                raise SimilarityUnavailable(error.message) from error
        return replies


class RemoteNli(RemoteSimilarityScorer):
    """A `NliScorer` of a similarity worker."""

    async def token_ends(self, texts: Sequence[str]) -> list[list[int]]:
        """Raises as `compare` does."""
        return await self._of_each("/v1/token-ends", texts, to_json, wire.decode_token_ends)


async def connect_generator(config: GeneratorConfig, hooks: Hooks) -> Generator:
    """The generator at its url, once the worker answers."""
    kind: _Kind[wire.GenerationInfo] = _Kind("generation")
    upstream = Upstream("generation", config, kind, hooks)
    await upstream.connect()
    return RemoteGenerator(upstream, hooks)


async def connect_similarity_scorers(
    config: SimilaritySettings, hooks: Hooks, language_model: LanguageModel
) -> tuple[Mapping[str, SimilarityScorer], NliScorer | None]:
    """The similarity scorers at their url and the NLI model among them, once the worker answers."""
    kind: _Kind[wire.SimilarityWorkerInfo] = _Kind("similarity")
    upstream = Upstream("similarity", config, kind, hooks)
    await upstream.connect()
    known, similarity_scorers = upstream.known, dict[str, SimilarityScorer]()
    for name, info in known.similarity_scorers.items():
        scorer = RemoteSimilarityScorer(upstream, hooks, language_model, name, info)
        similarity_scorers[name] = scorer
    if known.nli is None:
        return similarity_scorers, None
    return similarity_scorers, RemoteNli(upstream, hooks, language_model, None, known.nli)
