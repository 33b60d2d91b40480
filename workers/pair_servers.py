"""A `Comparer` over servers that score pairs of texts, and how each kind of them is asked.

They are vLLM's `/score`, text-embeddings-inference's `/predict`, and `/v1/embeddings`.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Annotated, Any, NotRequired, TypeVar

import numpy as np
from annotated_types import Ge, MinLen
from pydantic import AllowInfNan, Strict, TypeAdapter
from typing_extensions import TypedDict

from models.digests import digest_of
from models.errors import Overloaded, SimilarityUnavailable
from models.locations import public_name
from models.ranges import PROBABILITIES
from models.records import Array, Pair
from models.similarity import reads_added
from models.similarity.pairs import PairRules
from models.similarity.protocol import ContextAndText, SimilarityConfig
from models.similarity.vectors import MOST_FLOOR, UNLIKE, floor_of, vector_similarity
from workers.batching import BatchFailed, MicroBatcher
from workers.calling import together
from workers.calls import Calls, Failed, Rejected, listed_model, read
from workers.client import Client, Refused, Unreachable
from workers.config import ComparerConfig, LanguageModel
from workers.hooks import Hooks
from workers.protocol import Comparer, ComparerInfo, PairReply, PairScore
from workers.standing import Server, unchanged
from workers.upstream import RemoteWorker, Upstream

# Pairs by which a server is known, and what two scores of one may differ by.
_FIXED = (("Paris", "It is Paris."), ("The answer is 42.", "There is no answer."))
_APART = 1e-4
_DIGITS = 4
# Pairs of one call, where a server does not say how many it takes.
_VLLM_CALL, _TEI_CALL = 256, 32
# Texts of one call: TEI takes 32 where it is not told another number.
_EMBEDDINGS_CALL = 32
# RoBERTa has two positions that no token may take, which vLLM does not know.
_ROBERTA_LENGTHS = range(513, 515)

_Count = Annotated[int, Strict(), Ge(1)]


class _Score(TypedDict):
    score: Annotated[float, Strict(), AllowInfNan(False)]
    index: NotRequired[int]


class _Scores(TypedDict):
    data: list[_Score]


class _Embedding(TypedDict):
    embedding: Annotated[list[Annotated[float, AllowInfNan(False)]], MinLen(1)]
    index: int


class _Embeddings(TypedDict):
    data: list[_Embedding]


_OBJECT, _COUNT = TypeAdapter(dict[str, Any]), TypeAdapter(_Count)
_NUM_TOKENS = TypeAdapter(Annotated[int, Strict()])
_SCORES, _EMBEDDINGS = TypeAdapter(_Scores), TypeAdapter(_Embeddings)
# One pair alone comes without the list of pairs around it.
_ROWS = TypeAdapter(list[list[_Score]] | list[_Score])
_TOKENS = TypeAdapter(tuple[list[Any]])
_OF_MODEL = "what it says of its model"


@dataclass(frozen=True, slots=True)
class PairServer:
    """One server as it was tried out.

    Attributes:
        model_id, revision: as the server says them.
        max_pair_tokens: beyond which it cuts a pair; None for one that refuses what is too long.
        max_call_pairs: of one call.
        floor: see `models.similarity.vectors`; 0 for a server that scores pairs itself.
        scores: of two fixed pairs.
        flags: what else it says that decides its scores.
    """

    model_id: str
    revision: str
    max_pair_tokens: int | None
    max_call_pairs: int
    floor: float = 0.0
    scores: tuple[float, ...] = ()
    flags: tuple[str, ...] = ()

    @property
    def identity(self) -> str:
        """Digest of all that decides its scores, as far as it can be known from outside."""
        parts = (self.model_id, self.revision, self.max_pair_tokens, self.flags, self.floor)
        return digest_of(*parts, [round(score, _DIGITS) + 0.0 for score in self.scores])


class PairApi(ABC):
    """How one kind of server is asked, and found out: see `workers.standing.Kind`.

    Args:
        model: its name there; "" for the first that is listed, or the only one.
    """

    def __init__(self, model: str = "") -> None:
        self._model = model

    async def look_up(self, client: Client) -> PairServer:
        try:
            return await self.said(Calls(client, is_trial=True))
        except (Rejected, Failed) as error:
            raise Unreachable(f"it does not say what it is ({error})") from None

    async def try_out(self, client: Client, said: PairServer) -> PairServer:
        calls = Calls(client, is_trial=True)
        server = await self.fitted(calls, said)
        return replace(server, scores=tuple(await self.score(calls, server, _FIXED)))

    async def ask_again(self, client: Client, known: PairServer) -> PairServer | None:
        scores = await self.score(Calls(client, is_trial=True), known, _FIXED)
        for score, before in zip(scores, known.scores, strict=True):
            if abs(score - before) > _APART:
                return None
        said = await self.look_up(client)
        return known if replace(said, scores=known.scores, floor=known.floor) == known else None

    @abstractmethod
    async def said(self, calls: Calls) -> PairServer:
        """What a server says it is."""

    async def fitted(self, calls: Calls, server: PairServer) -> PairServer:
        """The same with what is measured before its first pair is scored."""
        return server

    @abstractmethod
    async def score(self, calls: Calls, server: PairServer, pairs: Sequence[Pair]) -> list[float]:
        """Score of each pair in [0, 1]; what is too long is cut by the server."""

    async def count(self, calls: Calls, server: PairServer, text: str) -> int:
        """Tokens of a text, special ones included; 0 where nothing is cut."""
        return 0


class VllmApi(PairApi):
    """vLLM's `/score`, of a model that was served with `--runner pooling`."""

    async def said(self, calls: Calls) -> PairServer:
        entry = await listed_model(calls, self._model)
        length = read(_COUNT, entry.get("max_model_len"), _OF_MODEL)
        if length in _ROBERTA_LENGTHS:
            length = 512
        return PairServer(entry["id"], "", length, _VLLM_CALL, flags=(str(entry.get("root")),))

    async def score(self, calls: Calls, server: PairServer, pairs: Sequence[Pair]) -> list[float]:
        firsts, seconds = zip(*pairs, strict=True)
        body = {
            "model": server.model_id,
            "text_1": firsts,
            "text_2": seconds,
            "truncate_prompt_tokens": server.max_pair_tokens,
        }
        reply = read(_SCORES, await calls.post("/score", body), "its answer")
        found = sorted(reply["data"], key=lambda one: one.get("index", 0))
        return _scores(found, len(pairs))

    async def count(self, calls: Calls, server: PairServer, text: str) -> int:
        reply = await calls.post("/tokenize", {"model": server.model_id, "prompt": text})
        what = "its count of tokens"
        return read(_NUM_TOKENS, read(_OBJECT, reply, what).get("count"), what)


class TeiApi(PairApi):
    """text-embeddings-inference's `/predict`."""

    async def said(self, calls: Calls) -> PairServer:
        said = read(_OBJECT, await calls.get("/info"), _OF_MODEL)
        if "embedding" in str(said.get("model_type")):
            raise Refused(
                "its model gives embeddings, and no scores of pairs: serve a cross-encoder, "
                "or set COCOA_SIMILARITY__API=embeddings"
            )
        most = said.get("max_client_batch_size")
        if type(most) is not int or most < 1:
            most = _TEI_CALL
        return PairServer(
            str(said.get("model_id") or ""),
            str(said.get("model_sha") or ""),
            read(_COUNT, said.get("max_input_length"), _OF_MODEL),
            most,
            flags=(str(said.get("model_dtype")), str(said.get("version"))),
        )

    async def score(self, calls: Calls, server: PairServer, pairs: Sequence[Pair]) -> list[float]:
        body = {"inputs": pairs, "raw_scores": False, "truncate": True}
        rows: Any = read(_ROWS, await calls.post("/predict", body), "its answer")
        if rows and not isinstance(rows[0], list):
            rows = [rows]
        if set(map(len, rows)) - {1}:
            raise Refused("its model has more labels than one, or none")
        return _scores([row[0] for row in rows], len(pairs))

    async def count(self, calls: Calls, server: PairServer, text: str) -> int:
        [tokens] = read(_TOKENS, await calls.post("/tokenize", {"inputs": text}), "its tokens")
        return len(tokens)


class EmbeddingsApi(PairApi):
    """The `/v1/embeddings` of any OpenAI-compatible server; see `models.similarity.vectors`."""

    async def said(self, calls: Calls) -> PairServer:
        entry = await listed_model(calls, self._model)
        return PairServer(entry["id"], "", None, _VLLM_CALL, flags=(str(entry.get("root")),))

    async def fitted(self, calls: Calls, server: PairServer) -> PairServer:
        floor = floor_of(await self._vectors(calls, server, UNLIKE))
        if floor > MOST_FLOOR:
            raise Refused("its model makes the same vector of texts that mean different things")
        return replace(server, floor=floor)

    async def score(self, calls: Calls, server: PairServer, pairs: Sequence[Pair]) -> list[float]:
        texts = list(dict.fromkeys(chain.from_iterable(pairs)))
        rows = {text: row for row, text in enumerate(texts)}
        vectors = await self._vectors(calls, server, texts)
        first, second = np.array([(rows[a], rows[b]) for a, b in pairs]).T
        found: list[float] = vector_similarity(
            vectors[first], vectors[second], server.floor
        ).tolist()
        return found

    async def _vectors(self, calls: Calls, server: PairServer, texts: Sequence[str]) -> Array:
        """Of each text (N, d)."""
        parts = [texts[i : i + _EMBEDDINGS_CALL] for i in range(0, len(texts), _EMBEDDINGS_CALL)]
        found = await together(*(self._part(calls, server, part) for part in parts))
        return np.concatenate(found)

    async def _part(self, calls: Calls, server: PairServer, texts: Sequence[str]) -> Array:
        # No text may be empty for OpenAI.
        body = {"model": server.model_id, "input": [text or " " for text in texts]}
        reply = read(_EMBEDDINGS, await calls.post("/v1/embeddings", body), "its vectors")
        rows = sorted(reply["data"], key=lambda one: one["index"])
        vectors = [one["embedding"] for one in rows]
        if len(vectors) != len(texts) or len(set(map(len, vectors))) != 1:
            raise Unreachable("it answers no vector of the same length for each text")
        return np.array(vectors)


_APIS: Mapping[str, Callable[[str], PairApi]] = {
    "vllm": VllmApi,
    "tei": TeiApi,
    "embeddings": EmbeddingsApi,
}


def _scores(found: Sequence[_Score], num: int) -> list[float]:
    """The scores themselves, one a pair.

    Raises:
        Unreachable: there are more, or fewer.
        Refused: one lies outside [0, 1].
    """
    if len(found) != num:
        raise Unreachable(f"it answers {len(found)} scores in place of {num}")
    scores = [one["score"] for one in found]
    if min(scores) < PROBABILITIES[0] or max(scores) > PROBABILITIES[1]:
        raise Refused("its scores are not all in [0, 1], as those of a model that gives logits")
    return scores


Reply = TypeVar("Reply")


class PairServerComparer(RemoteWorker[PairServer]):
    """A `Comparer` over servers that all hold the same cross-encoder; to be connected first."""

    def __init__(
        self, servers: ComparerConfig, hooks: Hooks, language_model: LanguageModel
    ) -> None:
        is_default = servers.model == SimilarityConfig().model
        self._api: PairApi = _APIS[servers.api]("" if is_default else servers.model)
        super().__init__(Upstream("similarity", servers, self._api, hooks, whose="others"))
        cuts = reads_added(name_of(servers), servers.compare)
        self._rules = PairRules(servers.strip, servers.exact_match, cuts)
        self._language_model = language_model
        # Each score with the identity of what gave it.
        self._pairs: MicroBatcher[Pair, tuple[PairScore, str]] = MicroBatcher(
            self._score, max_batch=servers.max_batch_pairs, on_batch=hooks.on_batch
        )

    @property
    def info(self) -> ComparerInfo:
        """Of the first server that is up, as it was last tried out."""
        server = self.upstream.known
        model_id = public_name(server.model_id)
        return ComparerInfo(
            identity=self._identity(server),
            model_id=model_id,
            revision=server.revision or server.identity[:12],
            labels=("similarity",),
            max_pair_tokens=server.max_pair_tokens,
            rules=self._rules,
            is_out_of_domain=self._language_model.is_unknown_to(model_id, is_nli=False),
        )

    async def run(self) -> None:
        """Watch the servers and score what comes in, until closed."""
        try:
            await together(self._pairs.run(), self.upstream.run())
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
            found = await self._pairs.submit(pairs)
        except Rejected as error:
            message = f"the server of the similarity model refuses a pair ({error})"
            raise SimilarityUnavailable(message) from None
        scores, identities = {}, set()
        for pair, (score, identity) in found.items():
            scores[pair] = score
            identities.add(identity)
        if len(identities) > 1:
            raise SimilarityUnavailable("the similarity model was replaced; repeat the request")
        return PairReply(scores, identities.pop())

    async def fit_contexts(self, texts: Sequence[ContextAndText]) -> list[str]:
        """Cut between words."""
        self.upstream.check_open()
        if not texts:
            return []
        distinct = list(dict.fromkeys(texts))

        async def send(server: Server[PairServer]) -> list[str]:
            known, calls = await server.settled(), Calls(server.client)
            return await together(*(self._fitted(calls, known, *one) for one in distinct))

        contexts = dict(zip(distinct, await self._ask(send), strict=True))
        return list(map(contexts.__getitem__, texts))

    async def _score(self, pairs: list[Pair]) -> list[tuple[PairScore, str]]:
        async def send(server: Server[PairServer]) -> list[tuple[PairScore, str]]:
            async def score(known: PairServer) -> list[tuple[PairScore, str]]:
                scores, counts = Calls(server.client, on_open=server.doubt), Calls(server.client)
                scoring = []
                for start in range(0, len(pairs), known.max_call_pairs):
                    part = pairs[start : start + known.max_call_pairs]
                    scoring.append(self._scored(scores, counts, known, part))
                return [score for part in await together(*scoring) for score in part]

            return await unchanged(server, score)

        try:
            return await self._ask(send)
        except SimilarityUnavailable as error:
            raise BatchFailed(error) from None

    async def _scored(
        self, calls: Calls, counts: Calls, known: PairServer, pairs: Sequence[Pair]
    ) -> list[tuple[PairScore, str]]:
        scores = await self._api.score(calls, known, pairs)
        cut = await together(*(self._is_cut(counts, known, pair) for pair in pairs))
        identity = self._identity(known)
        scored: list[tuple[PairScore, str]] = []
        for score, is_cut in zip(scores, cut, strict=True):
            scored.append((((score,), is_cut), identity))
        return scored

    async def _is_cut(self, calls: Calls, known: PairServer, pair: Pair) -> bool:
        """Whether a pair is longer than the model reads; counted only where it may be."""
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
            whole = f"{kept} {text}"
            return not await self._is_cut(calls, known, (whole, whole))

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

    async def _ask(self, send: Callable[[Server[PairServer]], Awaitable[Reply]]) -> Reply:
        """What a server answers.

        Raises:
            Rejected: it does not take this body, maybe for one of its pairs.
            SimilarityUnavailable: anything else went wrong.
        """
        try:
            return await self.upstream.call(send)
        except Overloaded as error:
            raise SimilarityUnavailable(error.message, retry_after_s=error.retry_after_s) from None
        except Failed as error:
            raise SimilarityUnavailable(
                f"the server of the similarity model failed: {error}"
            ) from None

    def _identity(self, server: PairServer) -> str:
        return digest_of(server.identity, *self._rules.identity)


async def connect_comparers(
    servers: ComparerConfig, hooks: Hooks, language_model: LanguageModel
) -> tuple[Mapping[str, Comparer], None]:
    """The comparer at its url, once a server has been tried out; no NLI model."""
    comparer = PairServerComparer(servers, hooks, language_model)
    await comparer.upstream.connect()
    return {name_of(servers): comparer}, None


def name_of(servers: ComparerConfig) -> str:
    """The name of the similarity function that they compute."""
    return "embedding" if servers.api == "embeddings" else "cross_encoder"


_: type[Comparer] = PairServerComparer  # mypy holds the class to its protocol
