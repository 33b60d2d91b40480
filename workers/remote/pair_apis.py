"""Servers that score pairs: vLLM's `/score`, text-embeddings-inference's `/predict`, embeddings."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Annotated, Any, NotRequired

import numpy as np
from annotated_types import Ge, MinLen
from pydantic import AllowInfNan, Strict, TypeAdapter
from typing_extensions import TypedDict

from models.digests import digest_of
from models.records import Array, Pair
from models.similarity.vectors import Cosines
from workers.calling import gather
from workers.remote.calls import Calls, listed_model, shaped
from workers.remote.client import Client, Refused, Unreachable
from workers.remote.refusals import Rejected
from workers.remote.standing import TRIAL_S

# Pairs by which a server is known, and the largest difference of two scores of one.
_FIXED = (("Paris", "It is Paris."), ("The answer is 42.", "There is no answer."))
_APART = 1e-4
_DIGITS = 4
# Pairs of one call, where a server does not say how many it takes.
_VLLM_CALL, _TEI_CALL = 256, 32
# Texts of one call, where a server takes as many: TEI takes 32 by default, others ten.
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
    index: NotRequired[int]


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
    """One server as it was tried out."""

    # As the server says them.
    model_id: str
    revision: str
    # Beyond which it cuts a pair; None for one that refuses what is too long.
    max_pair_tokens: int | None
    max_call_pairs: int  # of one call
    floor: float = 0.0  # see `models.similarity.vectors`; 0 for a server that scores pairs itself
    scores: tuple[float, ...] = ()  # of two fixed pairs
    flags: tuple[str, ...] = ()  # its other settings that decide its scores

    @property
    def identity(self) -> str:
        """Digest of all that decides its scores, as far as it can be known from outside."""
        scores = [round(score, _DIGITS) + 0.0 for score in self.scores]
        return digest_of(
            self.model_id, self.revision, self.max_pair_tokens, self.flags, self.floor, scores
        )


class PairApi(ABC):
    """The API of one kind of server: see `workers.remote.standing.Kind`."""

    def __init__(self, model: str = "") -> None:
        self._model = model  # its name there; "" for the first that is listed, or the only one

    async def look_up(self, client: Client) -> PairServer:
        try:
            return await self.described(Calls(client))
        except Rejected as error:
            raise Unreachable(f"it does not say what it is ({error})") from None

    async def try_out(self, client: Client, said: PairServer) -> PairServer:
        calls = Calls(client)
        async with asyncio.timeout(TRIAL_S):
            server = await self.fitted(calls, said)
            return replace(server, scores=tuple(await self.score(calls, server, _FIXED)))

    async def ask_again(self, client: Client, known: PairServer) -> PairServer | None:
        scores = await self.score(Calls(client), known, _FIXED)
        if not np.allclose(scores, known.scores, rtol=0.0, atol=_APART):
            return None
        description = await self.look_up(client)
        is_same = replace(description, scores=known.scores, floor=known.floor) == known
        return known if is_same else None

    @abstractmethod
    async def described(self, calls: Calls) -> PairServer:
        """The server's description of itself."""

    async def fitted(self, calls: Calls, server: PairServer) -> PairServer:
        """The server with what is measured before its first pair is scored."""
        return server

    @abstractmethod
    async def score(self, calls: Calls, server: PairServer, pairs: Sequence[Pair]) -> list[float]:
        """Score of each pair in [0, 1]; what is too long is cut by the server."""

    async def count(self, calls: Calls, server: PairServer, text: str) -> int:
        """Tokens of a text, special ones included; 0 where nothing is cut."""
        return 0


class VllmApi(PairApi):
    """vLLM's `/score`, of a model that was served with `--runner pooling`."""

    async def described(self, calls: Calls) -> PairServer:
        entry = await listed_model(calls, self._model)
        length = shaped(_COUNT, entry.get("max_model_len"), _OF_MODEL)
        if length in _ROBERTA_LENGTHS:
            length = 512
        return PairServer(entry["id"], "", length, _VLLM_CALL, flags=(str(entry.get("root")),))

    async def score(self, calls: Calls, server: PairServer, pairs: Sequence[Pair]) -> list[float]:
        firsts, seconds = zip(*pairs, strict=True)
        body: dict[str, Any] = {"model": server.model_id, "text_1": firsts, "text_2": seconds}
        body["truncate_prompt_tokens"] = server.max_pair_tokens
        reply = shaped(_SCORES, await calls.post("/score", body), "its answer")
        return _scores(sorted(reply["data"], key=lambda row: row.get("index", 0)), len(pairs))

    async def count(self, calls: Calls, server: PairServer, text: str) -> int:
        reply = await calls.post("/tokenize", {"model": server.model_id, "prompt": text})
        name = "its count of tokens"
        return shaped(_NUM_TOKENS, shaped(_OBJECT, reply, name).get("count"), name)


class TeiApi(PairApi):
    """text-embeddings-inference's `/predict`."""

    async def described(self, calls: Calls) -> PairServer:
        info = shaped(_OBJECT, await calls.get("/info"), _OF_MODEL)
        if "embedding" in str(info.get("model_type")):
            raise Refused(
                "its model gives embeddings, and no scores of pairs: serve a cross-encoder, "
                "or set COCOA_SIMILARITY__API=embeddings"
            )
        most = info.get("max_client_batch_size")
        if type(most) is not int or most < 1:
            most = _TEI_CALL
        return PairServer(
            str(info.get("model_id") or ""),
            str(info.get("model_sha") or ""),
            shaped(_COUNT, info.get("max_input_length"), _OF_MODEL),
            most,
            flags=(str(info.get("model_dtype")), str(info.get("version"))),
        )

    async def score(self, calls: Calls, server: PairServer, pairs: Sequence[Pair]) -> list[float]:
        body = {"inputs": pairs, "raw_scores": False, "truncate": True}
        rows: Any = shaped(_ROWS, await calls.post("/predict", body), "its answer")
        if rows and not isinstance(rows[0], list):
            rows = [rows]
        if set(map(len, rows)) - {1}:
            raise Refused("its model has more labels than one, or none")
        return _scores([row[0] for row in rows], len(pairs))

    async def count(self, calls: Calls, server: PairServer, text: str) -> int:
        [tokens] = shaped(_TOKENS, await calls.post("/tokenize", {"inputs": text}), "its tokens")
        return len(tokens)


class EmbeddingsApi(PairApi):
    """The `/v1/embeddings` of any OpenAI-compatible server; see `models.similarity.vectors`."""

    _most = _EMBEDDINGS_CALL

    async def described(self, calls: Calls) -> PairServer:
        entry = await listed_model(calls, self._model)
        return PairServer(entry["id"], "", None, _VLLM_CALL, flags=(str(entry.get("root")),))

    async def fitted(self, calls: Calls, server: PairServer) -> PairServer:
        vectors = await self._vectors(calls, server, Cosines.UNLIKE)
        try:
            return replace(server, floor=Cosines.of(vectors).floor)
        except ValueError as error:
            raise Refused(f"its model {error}") from None

    async def score(self, calls: Calls, server: PairServer, pairs: Sequence[Pair]) -> list[float]:
        texts = list(dict.fromkeys(chain.from_iterable(pairs)))
        rows = {text: row for row, text in enumerate(texts)}
        vectors = await self._vectors(calls, server, texts)
        first, second = np.array([(rows[a], rows[b]) for a, b in pairs]).T
        similarities = Cosines(server.floor).between(vectors[first], vectors[second])
        return list(map(float, similarities))

    async def _vectors(self, calls: Calls, server: PairServer, texts: Sequence[str]) -> Array:
        """The vector of each text, (N, d)."""
        parts = [texts[i : i + self._most] for i in range(0, len(texts), self._most)]
        vectors = await gather(*(self._part(calls, server, part) for part in parts))
        return np.concatenate(vectors)

    async def _part(self, calls: Calls, server: PairServer, texts: Sequence[str]) -> Array:
        # No text may be empty for OpenAI.
        body = {"model": server.model_id, "input": [text or " " for text in texts]}
        try:
            reply = shaped(_EMBEDDINGS, await calls.post("/v1/embeddings", body), "its vectors")
        except Rejected as refusal:
            if len(texts) == 1 or refusal.status not in (400, 413, 422):
                raise
            half = len(texts) // 2  # maybe they are too many for one call
            halves = [self._part(calls, server, one) for one in (texts[:half], texts[half:])]
            vectors = await gather(*halves)
            self._most = min(self._most, half)
            return np.concatenate(vectors)
        rows = sorted(reply["data"], key=lambda row: row.get("index", 0))
        vectors = [row["embedding"] for row in rows]
        if len(vectors) != len(texts) or len(set(map(len, vectors))) != 1:
            raise Unreachable("it answers no vector of the same length for each text")
        return np.array(vectors)


APIS: dict[str, type[PairApi]] = {"vllm": VllmApi, "tei": TeiApi, "embeddings": EmbeddingsApi}


def _scores(rows: Sequence[_Score], num: int) -> list[float]:
    """The scores, one a pair and in [0, 1]; a server that gives others is refused."""
    if len(rows) != num:
        raise Unreachable(f"it answers {len(rows)} scores in place of {num}")
    scores = [row["score"] for row in rows]
    if min(scores) < 0.0 or max(scores) > 1.0:
        raise Refused("its scores are not all in [0, 1], as those of a model that gives logits")
    return scores
