"""A `SimilarityScorer` over a server that scores pairs of texts (`workers.remote.pair_apis`)."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from models.digests import digest_of
from models.errors import Overloaded, SimilarityUnavailable
from models.locations import public_name
from models.records import Pair
from models.similarity.pairs import PairRules
from models.similarity.protocol import SimilarityConfig
from workers.batching import BatchFailed, MicroBatcher
from workers.calling import gather
from workers.config import LanguageModel, SimilaritySettings
from workers.hooks import Hooks
from workers.protocol import PairReply, PairScore, SimilarityInfo, SimilarityScorer
from workers.remote.calls import Calls
from workers.remote.pair_apis import APIS, PairApi, PairServer
from workers.remote.refusals import Failed, Rejected
from workers.remote.standing import Server
from workers.remote.upstream import RemoteWorker, Upstream

Reply = TypeVar("Reply")


class PairServerScorer(RemoteWorker[PairServer]):
    """A `SimilarityScorer` over a server that holds the cross-encoder; to be connected first."""

    def __init__(
        self, config: SimilaritySettings, hooks: Hooks, language_model: LanguageModel
    ) -> None:
        is_default = config.model == SimilarityConfig().model
        self._api: PairApi = APIS[config.api]("" if is_default else config.model)
        super().__init__(Upstream("similarity", config, self._api, hooks, whose="others"))
        self._rules = PairRules.of(name_of(config), config)
        self._language_model = language_model
        # Each score with the identity of what gave it.
        self._pairs: MicroBatcher[Pair, tuple[PairScore, str]] = MicroBatcher(
            self._score, max_batch=config.max_batch_pairs, on_batch=hooks.on_batch
        )

    @property
    def info(self) -> SimilarityInfo:
        """Of the server as it was last tried out."""
        server = self.upstream.known
        model_id = public_name(server.model_id)
        return SimilarityInfo(
            identity=self._identity(server),
            model_id=model_id,
            revision=server.revision or server.identity[:12],
            labels=("similarity",),
            max_pair_tokens=server.max_pair_tokens,
            rules=self._rules,
            is_out_of_domain=self._language_model.is_unknown_to(model_id, is_nli=False),
        )

    async def run(self) -> None:
        """Watch the server and score what comes in, until closed."""
        try:
            await gather(self._pairs.run(), self.upstream.run())
        finally:
            self._pairs.close()

    async def close(self) -> None:
        """End `run`, and fail all who wait."""
        self._pairs.close()
        await super().close()

    async def compare(self, pairs: Sequence[Pair]) -> PairReply:
        self.upstream.check_open()
        if not pairs:
            return PairReply({}, self.info.identity)
        try:
            replies = await self._pairs.submit(pairs)
        except Rejected as error:
            message = f"the server of the similarity model refuses a pair ({error})"
            raise SimilarityUnavailable(message) from None
        scores = {pair: score for pair, (score, _) in replies.items()}
        identities = {identity for _, identity in replies.values()}
        if len(identities) > 1:
            raise SimilarityUnavailable("the similarity model was replaced; repeat the request")
        reply = PairReply(scores, identities.pop())
        reply.check_finite()
        return reply

    async def fit_contexts(self, texts: Sequence[Pair]) -> list[str]:
        """Cut between words."""
        self.upstream.check_open()
        if not texts:
            return []
        distinct = list(dict.fromkeys(texts))

        async def send(server: Server[PairServer], known: PairServer) -> list[str]:
            calls = Calls(server.client)
            return await gather(*(self._fitted(calls, known, *pair) for pair in distinct))

        contexts = dict(zip(distinct, await self._ask(send), strict=True))
        return list(map(contexts.__getitem__, texts))

    async def _score(self, pairs: list[Pair]) -> list[tuple[PairScore, str]]:
        async def send(
            server: Server[PairServer], known: PairServer
        ) -> list[tuple[PairScore, str]]:
            scores, counts = Calls(server.client, doubt=server.doubt), Calls(server.client)
            scoring = []
            for start in range(0, len(pairs), known.max_call_pairs):
                part = pairs[start : start + known.max_call_pairs]
                scoring.append(self._scored(scores, counts, known, part))
            return [score for part in await gather(*scoring) for score in part]

        try:
            return await self._ask(send)
        except SimilarityUnavailable as error:
            raise BatchFailed(error) from None

    async def _scored(
        self, calls: Calls, counts: Calls, known: PairServer, pairs: Sequence[Pair]
    ) -> list[tuple[PairScore, str]]:
        scores = await self._api.score(calls, known, pairs)
        cut = await gather(*(self._is_cut(counts, known, pair) for pair in pairs))
        identity = self._identity(known)
        return [(((score,), is_cut), identity) for score, is_cut in zip(scores, cut, strict=True)]

    async def _is_cut(self, calls: Calls, known: PairServer, pair: Pair) -> bool:
        """True where a pair is longer than the model reads; counted only where it may be."""
        if known.max_pair_tokens is None:
            return False
        # A token has at least one byte, and a pair at most four special ones.
        if len("".join(pair).encode()) + 4 <= known.max_pair_tokens:
            return False
        counts = [await self._api.count(calls, known, text) for text in pair]
        return sum(counts) > known.max_pair_tokens

    async def _fitted(self, calls: Calls, known: PairServer, context: str, text: str) -> str:
        """The longest right part of a context, in words, whose pair is not cut."""

        async def fits(kept: str) -> bool:
            joined = f"{kept} {text}"
            return not await self._is_cut(calls, known, (joined, joined))

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

    async def _ask(
        self, send: Callable[[Server[PairServer], PairServer], Awaitable[Reply]]
    ) -> Reply:
        """The server's reply; `Rejected` may be for one of the pairs, any other error is not."""
        try:
            return await self._unchanged(send)
        except Overloaded as error:
            raise SimilarityUnavailable(error.message, retry_after_s=error.retry_after_s) from None
        except Failed as error:
            message = f"the server of the similarity model failed: {error}"
            raise SimilarityUnavailable(message) from None

    def _identity(self, server: PairServer) -> str:
        return digest_of(server.identity, *self._rules.identity)


async def connect_similarity_scorers(
    config: SimilaritySettings, hooks: Hooks, language_model: LanguageModel
) -> tuple[Mapping[str, SimilarityScorer], None]:
    """The similarity scorer at its url, once the server has been tried out; no NLI model."""
    similarity_scorer = PairServerScorer(config, hooks, language_model)
    await similarity_scorer.upstream.connect()
    return {name_of(config): similarity_scorer}, None


def name_of(config: SimilaritySettings) -> str:
    """The name of the similarity function that the server computes."""
    return "embedding" if config.api == "embeddings" else "cross_encoder"
