"""Servers that score pairs of texts: vLLM's `/score`, text-embeddings-inference's `/predict`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NotRequired, Protocol

from annotated_types import Ge
from pydantic import AllowInfNan, Strict, TypeAdapter
from typing_extensions import TypedDict

from models.digests import digest_of
from models.ranges import PROBABILITIES
from models.records import Pair
from workers.calls import Calls, listed_model, read
from workers.client import Refused, Unreachable

_DIGITS = 4
# Pairs of one call, where a server does not say how many it takes.
_VLLM_CALL, _TEI_CALL = 256, 32
# RoBERTa has two positions that no token may take, which vLLM does not know.
_ROBERTA_LENGTHS = range(513, 515)

_Count = Annotated[int, Strict(), Ge(1)]


class _Score(TypedDict):
    score: Annotated[float, Strict(), AllowInfNan(False)]
    index: NotRequired[int]


class _VllmModel(TypedDict):
    max_model_len: _Count


class _VllmReply(TypedDict):
    data: list[_Score]


class _VllmTokens(TypedDict):
    count: Annotated[int, Strict()]


class _TeiModel(TypedDict):
    model_id: str
    max_input_length: _Count


_VLLM_MODEL, _TEI_MODEL = TypeAdapter(_VllmModel), TypeAdapter(_TeiModel)
_VLLM_REPLY = TypeAdapter(_VllmReply)
# One pair alone comes without the list of pairs around it.
_TEI_REPLY = TypeAdapter(list[list[_Score]] | list[_Score])
_TEI_INFO = TypeAdapter(dict[str, Any])
_VLLM_TOKENS = TypeAdapter(_VllmTokens)
_TEI_TOKENS = TypeAdapter(tuple[list[Any]])


@dataclass(frozen=True, slots=True)
class PairServer:
    """One server as it was tried out.

    Attributes:
        model_id, revision: as the server says them.
        max_pair_tokens: beyond which it cuts a pair.
        max_call_pairs: of one call.
        scores: of two fixed pairs.
        flags: what else it says that decides its scores.
    """

    model_id: str
    revision: str
    max_pair_tokens: int
    max_call_pairs: int
    scores: tuple[float, ...] = ()
    flags: tuple[str, ...] = ()

    @property
    def identity(self) -> str:
        """Digest of all that decides its scores, as far as it can be known from outside."""
        parts = (self.model_id, self.revision, self.max_pair_tokens, self.flags)
        return digest_of(*parts, [round(score, _DIGITS) + 0.0 for score in self.scores])


class PairApi(Protocol):
    """How one kind of server is asked. Raises what calls do."""

    async def look_up(self, calls: Calls) -> Mapping[str, Any]:
        """What it says it is, in a call that costs it nothing; equal while it is the same."""

    def server(self, said: Mapping[str, Any]) -> PairServer:
        """What it says it is, understood."""

    async def score(self, calls: Calls, server: PairServer, pairs: Sequence[Pair]) -> list[float]:
        """Score of each pair in [0, 1]; what is too long is cut by the server."""

    async def count(self, calls: Calls, server: PairServer, text: str) -> int:
        """Tokens of a text, special ones included."""


class VllmApi:
    """vLLM's `/score`, of a model that was served with `--runner pooling`.

    Args:
        model: the served model's name; "" for the first that it lists.
    """

    def __init__(self, model: str) -> None:
        self._model = model

    async def look_up(self, calls: Calls) -> Mapping[str, Any]:
        entry = await listed_model(calls, self._model)
        return {name: entry.get(name) for name in ("id", "root", "max_model_len")}

    def server(self, said: Mapping[str, Any]) -> PairServer:
        length = read(_VLLM_MODEL, said, "what it says of its model")["max_model_len"]
        if length in _ROBERTA_LENGTHS:
            length = 512
        return PairServer(said["id"], "", length, _VLLM_CALL, flags=(str(said["root"]),))

    async def score(self, calls: Calls, server: PairServer, pairs: Sequence[Pair]) -> list[float]:
        firsts, seconds = zip(*pairs, strict=True)
        body = {
            "model": server.model_id,
            "text_1": firsts,
            "text_2": seconds,
            "truncate_prompt_tokens": server.max_pair_tokens,
        }
        reply = read(_VLLM_REPLY, await calls.post("/score", body), "its answer")
        found = sorted(reply["data"], key=lambda one: one.get("index", 0))
        return _scores(found, len(pairs))

    async def count(self, calls: Calls, server: PairServer, text: str) -> int:
        reply = await calls.post("/tokenize", {"model": server.model_id, "prompt": text})
        return read(_VLLM_TOKENS, reply, "its count of tokens")["count"]


class TeiApi:
    """text-embeddings-inference's `/predict`."""

    async def look_up(self, calls: Calls) -> Mapping[str, Any]:
        reply = await calls.get("/info")
        return read(_TEI_INFO, reply, "what it says of its model")

    def server(self, said: Mapping[str, Any]) -> PairServer:
        if "embedding" in str(said.get("model_type")):
            message = "its model gives embeddings, and no scores of pairs: serve a cross-encoder"
            raise Refused(message)
        model = read(_TEI_MODEL, said, "what it says of its model")
        most = said.get("max_client_batch_size")
        if type(most) is not int or most < 1:
            most = _TEI_CALL
        return PairServer(
            model["model_id"],
            str(said.get("model_sha") or ""),
            model["max_input_length"],
            most,
            flags=(str(said.get("model_dtype")), str(said.get("version"))),
        )

    async def score(self, calls: Calls, server: PairServer, pairs: Sequence[Pair]) -> list[float]:
        body = {"inputs": pairs, "raw_scores": False, "truncate": True}
        rows: Any = read(_TEI_REPLY, await calls.post("/predict", body), "its answer")
        if rows and not isinstance(rows[0], list):
            rows = [rows]
        if set(map(len, rows)) - {1}:
            raise Refused("its model has more labels than one, or none")
        return _scores([row[0] for row in rows], len(pairs))

    async def count(self, calls: Calls, server: PairServer, text: str) -> int:
        [tokens] = read(_TEI_TOKENS, await calls.post("/tokenize", {"inputs": text}), "its tokens")
        return len(tokens)


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
