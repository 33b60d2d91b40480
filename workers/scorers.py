"""A `Comparer` over vLLM's `/score` or text-embeddings-inference's `/predict`."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import httpx

from models.digests import digest_of
from models.errors import CocoaError, NotReady, SimilarityUnavailable
from models.locations import public_name
from models.records import Pair
from models.similarity.pairs import PairRules
from models.similarity.protocol import ContextAndText
from workers.asking import Failed, Rejected
from workers.batching import BatchFailed, MicroBatcher
from workers.concurrently import both
from workers.config import Beside, ComparerConfig, WorkerConfig
from workers.hooks import Hooks
from workers.protocol import Comparer, ComparerInfo, PairReply, PairScore
from workers.scorer_apis import Api, Scorer, TeiApi, VllmApi
from workers.standing import Standing
from workers.upstream import Refused, Server, Unreachable, Upstream

_NAME = "cross_encoder"
_FIXED = (("Paris", "It is Paris."), ("The answer is 42.", "There is no answer."))
# Between two scores of one pair, at most.
_APART = 1e-4
_STOPPED = "the similarity model has stopped"
_RETRY_AFTER_S = 1

Reply = TypeVar("Reply")


class _Trial:
    """How a scorer is tried out; see `workers.standing.Trial`."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def look_up(self, client: httpx.AsyncClient) -> Mapping[str, Any]:
        """See `Trial.look_up`."""
        try:
            return await self._api.look_up(client)
        except (Rejected, Failed) as error:
            raise Unreachable(f"it does not say what it is ({error})") from None

    async def try_out(self, client: httpx.AsyncClient, said: Mapping[str, Any]) -> Scorer:
        """See `Trial.try_out`."""
        scorer = self._api.scorer(said)
        return replace(scorer, scores=tuple(await self._api.score(client, scorer, _FIXED)))

    async def ask_again(self, client: httpx.AsyncClient, known: Scorer) -> Scorer | None:
        """See `Trial.ask_again`."""
        scores = await self._api.score(client, known, _FIXED)
        if any(abs(a - b) > _APART for a, b in zip(scores, known.scores, strict=True)):
            return None
        said = self._api.scorer(await self.look_up(client))
        return known if replace(said, scores=known.scores) == known else None


class ScorerComparer:
    """A `Comparer` over servers that all hold the same cross-encoder; to be connected first.

    Args:
        config: where they are, and what counts as known without them.
        api: how they are asked.
        hooks: what it is tied to.
        beside: the language model whose answers it compares.
    """

    def __init__(self, config: ComparerConfig, api: Api, hooks: Hooks, beside: Beside) -> None:
        self._api = api
        self._rules = PairRules(config.strip, config.exact_match)
        self._beside = beside
        self._upstream = Upstream("similarity", config, self._check, on_call=hooks.on_call)
        self._standings: dict[str, Standing[Scorer]] = {}
        for server in self._upstream.servers:
            self._standings[server.url] = Standing(server, _Trial(api))
        # Each score with the identity of what gave it.
        self._pairs: MicroBatcher[Pair, tuple[PairScore, str]] = MicroBatcher(
            self._score, max_batch=config.max_batch_pairs, on_batch=hooks.on_batch
        )

    async def connect(self) -> None:
        """Wait until a server has been tried out."""
        await self._upstream.connect()

    @property
    def info(self) -> ComparerInfo:
        """See `Comparer.info`; of the first server that is up, as it was last tried out."""
        scorer = self._scorer
        return ComparerInfo(
            identity=self._identity(scorer),
            model_id=public_name(scorer.model_id),
            revision=scorer.revision or scorer.identity[:12],
            labels=("similarity",),
            max_pair_tokens=scorer.max_pair_tokens,
            rules=self._rules,
            is_out_of_domain=self._beside.is_lost_on(public_name(scorer.model_id)),
        )

    @property
    def busy_since(self) -> float | None:
        """See `Worker.busy_since`; nothing here blocks."""
        return None

    async def run(self) -> None:
        """See `Worker.run`."""
        loops = [asyncio.create_task(one) for one in (self._pairs.run(), self._upstream.run())]
        try:
            await asyncio.gather(*loops)
        finally:
            self._pairs.close()
            for loop in loops:
                loop.cancel()
            await asyncio.gather(*loops, return_exceptions=True)

    async def warm_up(self) -> None:
        """See `Worker.warm_up`; trying it out has warmed the server up."""

    async def close(self) -> None:
        """See `Worker.close`."""
        self._pairs.close()
        await self._upstream.close()
        for standing in self._standings.values():
            await standing.close()

    async def compare(self, pairs: Sequence[Pair]) -> PairReply:
        """See `Comparer.compare`."""
        self._check_open()
        if not pairs:
            return PairReply({}, self.info.identity)
        try:
            found = await self._pairs.submit(pairs)
        except Rejected as error:
            message = f"the server of the similarity model refuses a pair ({error})"
            raise SimilarityUnavailable(message) from None
        identities = {identity for _, identity in found.values()}
        if len(identities) > 1:
            raise SimilarityUnavailable("the similarity model was replaced; repeat the request")
        return PairReply({pair: score for pair, (score, _) in found.items()}, identities.pop())

    async def fit_contexts(self, texts: Sequence[ContextAndText]) -> list[str]:
        """See `Comparer.fit_contexts`; cut between words."""
        self._check_open()
        if not texts:
            return []
        distinct = list(dict.fromkeys(texts))

        async def send(server: Server) -> list[str]:
            scorer = await self._standings[server.url].settled()
            return await both(*(self._fitted(server, scorer, *one) for one in distinct))

        contexts = dict(zip(distinct, await self._call(send), strict=True))
        return [contexts[one] for one in texts]

    async def _check(self, server: Server) -> None:
        await self._standings[server.url].check()

    async def _score(self, pairs: list[Pair]) -> list[tuple[PairScore, str]]:
        async def send(server: Server) -> list[tuple[PairScore, str]]:
            standing = self._standings[server.url]
            for _ in range(2):
                scorer = await standing.settled()
                calls = []
                for start in range(0, len(pairs), scorer.max_call_pairs):
                    part = pairs[start : start + scorer.max_call_pairs]
                    calls.append(self._scored(server, scorer, part, standing.doubt))
                scores = [score for part in await both(*calls) for score in part]
                if (await standing.settled()).identity == scorer.identity:
                    return [(score, self._identity(scorer)) for score in scores]
            raise SimilarityUnavailable("the similarity model was replaced; repeat the request")

        try:
            return await self._call(send)
        except SimilarityUnavailable as error:
            raise BatchFailed(error) from None

    async def _scored(
        self,
        server: Server,
        scorer: Scorer,
        pairs: Sequence[Pair],
        on_open: Callable[[], None],
    ) -> list[PairScore]:
        scores = await self._api.score(server.client, scorer, pairs, on_open)
        cut = await both(*(self._is_cut(server, scorer, pair) for pair in pairs))
        return [((score,), is_cut) for score, is_cut in zip(scores, cut, strict=True)]

    async def _is_cut(self, server: Server, scorer: Scorer, pair: Pair) -> bool:
        """Whether a pair is longer than the model reads; counted only where it may be."""
        # A token has at least one byte, and a pair at most four special ones.
        if sum(len(text.encode()) for text in pair) + 4 <= scorer.max_pair_tokens:
            return False
        counts = [await self._api.count(server.client, scorer, text) for text in pair]
        return sum(counts) > scorer.max_pair_tokens

    async def _fitted(self, server: Server, scorer: Scorer, context: str, text: str) -> str:
        """The longest right part of a context, in words, whose pair is not cut."""

        async def fits(kept: str) -> bool:
            whole = f"{kept} {text}"
            return not await self._is_cut(server, scorer, (whole, whole))

        if await fits(context):
            return context
        words = context.split(" ")
        least, most = 1, len(words)  # words that are left out: too few, and enough
        while least < most:
            middle = (least + most) // 2
            if await fits(" ".join(words[middle:])):
                most = middle
            else:
                least = middle + 1
        return " ".join(words[least:])

    async def _call(self, send: Callable[[Server], Awaitable[Reply]]) -> Reply:
        """What a server answers.

        Raises:
            Rejected: it does not take this body, maybe for one of its pairs.
            SimilarityUnavailable: anything else went wrong.
        """
        try:
            return await self._upstream.call(send)
        except CocoaError as error:
            raise SimilarityUnavailable(error.message, retry_after_s=error.retry_after_s) from None
        except (Unreachable, Refused, Failed, httpx.TransportError) as error:
            reason = str(error) or type(error).__name__
            raise SimilarityUnavailable(
                f"no server of the similarity model has answered: {reason}",
                retry_after_s=_RETRY_AFTER_S,
            ) from None

    def _check_open(self) -> None:
        if self._upstream.is_closed:
            raise NotReady(_STOPPED)

    @property
    def _scorer(self) -> Scorer:
        for server in sorted(self._upstream.servers, key=lambda server: not server.is_up):
            if (scorer := self._standings[server.url].tried) is not None:
                return scorer
        raise NotReady("no server of the similarity model has answered")

    def _identity(self, scorer: Scorer) -> str:
        return digest_of(scorer.identity, self._rules.strip, self._rules.exact_match)


async def connect_comparers(
    config: WorkerConfig, hooks: Hooks, beside: Beside
) -> tuple[Mapping[str, Comparer], None]:
    """The comparer at its url, once a server has been tried out; no NLI model."""
    similarity = config.similarity
    model = "" if similarity.model == ComparerConfig().model else similarity.model
    api = VllmApi(model) if similarity.api == "vllm" else TeiApi()
    comparer = ScorerComparer(similarity, api, hooks, beside)
    await comparer.connect()
    return {_NAME: comparer}, None


_: type[Comparer] = ScorerComparer  # mypy holds the class to its protocol
