"""Servers that score pairs of texts: vLLM's `/score`, text-embeddings-inference's `/predict`."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import httpx

from models.digests import digest_of
from models.records import Pair
from workers.asking import Opened, get_json, ignore, post_json
from workers.upstream import Refused, Unreachable

_DIGITS = 4
# Pairs of one call, where a server does not say how many it takes.
_VLLM_CALL, _TEI_CALL = 256, 32
# RoBERTa has two positions that no token may take, which vLLM does not know.
_ROBERTA_LENGTHS = range(513, 515)


@dataclass(frozen=True, slots=True)
class Scorer:
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


class Api(Protocol):
    """How one kind of server is asked. Raises `Unreachable` where an answer makes no sense."""

    async def look_up(self, client: httpx.AsyncClient) -> Mapping[str, Any]:
        """See `workers.standing.Trial.look_up`."""

    def scorer(self, said: Mapping[str, Any]) -> Scorer:
        """What it says it is."""

    async def score(
        self,
        client: httpx.AsyncClient,
        scorer: Scorer,
        pairs: Sequence[Pair],
        on_open: Opened = ignore,
    ) -> list[float]:
        """Score of each pair in [0, 1]; what is too long is cut by the server."""

    async def count(self, client: httpx.AsyncClient, scorer: Scorer, text: str) -> int:
        """Tokens of a text, special ones included."""


class VllmApi:
    """vLLM's `/score`, of a model that was served with `--runner pooling`.

    Args:
        model: the served model's name; "" for the first that it lists.
    """

    def __init__(self, model: str = "") -> None:
        self._model = model

    async def look_up(self, client: httpx.AsyncClient) -> Mapping[str, Any]:
        """See `Api`."""
        reply = await get_json(client, "/v1/models")
        try:
            entries = [one for one in reply["data"] if self._model in ("", one["id"])]
            names = ("id", "root", "max_model_len")
            return {name: entries[0].get(name) for name in names}
        except (LookupError, TypeError, AttributeError):
            raise Unreachable("it lists no such model") from None

    def scorer(self, said: Mapping[str, Any]) -> Scorer:
        """See `Api`."""
        length = said["max_model_len"]
        if type(length) is not int or length < 1:
            raise Unreachable("it does not say how long a pair may be")
        length = 512 if length in _ROBERTA_LENGTHS else length
        return Scorer(str(said["id"]), "", length, _VLLM_CALL, flags=(str(said["root"]),))

    async def score(
        self,
        client: httpx.AsyncClient,
        scorer: Scorer,
        pairs: Sequence[Pair],
        on_open: Opened = ignore,
    ) -> list[float]:
        """See `Api`."""
        body = {
            "model": scorer.model_id,
            "text_1": [a for a, _ in pairs],
            "text_2": [b for _, b in pairs],
            "truncate_prompt_tokens": scorer.max_pair_tokens,
        }
        reply = await post_json(client, "/score", body, on_open=on_open)
        try:
            found = sorted(reply["data"], key=lambda one: one["index"])
            scores = [one["score"] for one in found]
        except (LookupError, TypeError):
            raise Unreachable("its answer makes no sense") from None
        return _checked(scores, len(pairs))

    async def count(self, client: httpx.AsyncClient, scorer: Scorer, text: str) -> int:
        """See `Api`."""
        reply = await post_json(client, "/tokenize", {"model": scorer.model_id, "prompt": text})
        count = reply.get("count") if isinstance(reply, Mapping) else None
        if type(count) is not int:
            raise Unreachable("its count of tokens makes no sense")
        return count


class TeiApi:
    """text-embeddings-inference's `/predict`."""

    async def look_up(self, client: httpx.AsyncClient) -> Mapping[str, Any]:
        """See `Api`."""
        reply = await get_json(client, "/info")
        if not isinstance(reply, Mapping):
            raise Unreachable("it does not say what it is")
        return dict(reply)

    def scorer(self, said: Mapping[str, Any]) -> Scorer:
        """See `Api`."""
        length, calls = said.get("max_input_length"), said.get("max_client_batch_size")
        if type(length) is not int or length < 1 or not isinstance(said.get("model_id"), str):
            raise Unreachable("it does not say how long a pair may be")
        num = calls if type(calls) is int and calls > 0 else _TEI_CALL
        flags = tuple(str(said.get(name)) for name in ("model_dtype", "version"))
        return Scorer(said["model_id"], str(said.get("model_sha") or ""), length, num, flags=flags)

    async def score(
        self,
        client: httpx.AsyncClient,
        scorer: Scorer,
        pairs: Sequence[Pair],
        on_open: Opened = ignore,
    ) -> list[float]:
        """See `Api`."""
        body = {"inputs": [list(pair) for pair in pairs], "raw_scores": False, "truncate": True}
        reply = await post_json(client, "/predict", body, on_open=on_open)
        try:
            # One pair alone comes without the list of pairs around it.
            rows = reply if isinstance(reply[0], list) else [reply]
            if any(len(row) != 1 for row in rows):
                raise Refused("its model has more labels than one, or none")
            scores = [row[0]["score"] for row in rows]
        except (LookupError, TypeError):
            raise Unreachable("its answer makes no sense") from None
        return _checked(scores, len(pairs))

    async def count(self, client: httpx.AsyncClient, scorer: Scorer, text: str) -> int:
        """See `Api`."""
        reply = await post_json(client, "/tokenize", {"inputs": text})
        if not isinstance(reply, list) or not reply or not isinstance(reply[0], list):
            raise Unreachable("its tokens make no sense")
        return len(reply[0])


def _checked(scores: Sequence[Any], num: int) -> list[float]:
    """Scores that are numbers in [0, 1], one a pair.

    Raises:
        Unreachable: they are not.
    """
    if len(scores) != num:
        raise Unreachable(f"it answers {len(scores)} scores in place of {num}")
    for score in scores:
        if not isinstance(score, int | float) or not math.isfinite(score) or not 0 <= score <= 1:
            raise Unreachable("it answers a score that is no number from 0 to 1")
    return [float(score) for score in scores]
