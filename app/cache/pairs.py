"""Pairs that were scored before are not scored again."""

from collections.abc import Callable, Sequence

import orjson

from app.cache.keys import pair_key
from app.cache.protocol import Cache
from models.records import Pair
from workers.similarity import PairScore, SimilarityWorker


class RememberingWorker(SimilarityWorker):
    """A similarity worker that asks the cache first: one round trip for all pairs of a call.

    Args:
        worker: scores what the cache does not hold.
        cache: where its scores go.
        identity: of its model; see `app.cache.keys.model_identities`.
        on_pairs: told how many distinct pairs were asked, and how many of them the cache held.
    """

    def __init__(
        self,
        worker: SimilarityWorker,
        cache: Cache,
        identity: str,
        on_pairs: Callable[[int, int], None],
    ) -> None:
        self.model = worker.model
        self.rules = worker.rules
        self._worker = worker
        self._cache = cache
        self._identity = identity
        self._on_pairs = on_pairs

    async def scores(self, pairs: Sequence[Pair]) -> dict[Pair, PairScore]:
        """See `SimilarityWorker.scores`."""
        distinct = list(dict.fromkeys(pairs))
        if not distinct:
            return {}
        keys = [pair_key(self._identity, pair) for pair in distinct]
        entries = await self._cache.get_many(keys)
        found = {
            pair: score
            for pair, entry in zip(distinct, entries, strict=True)
            if (score := self._decode(entry))
        }
        self._on_pairs(len(distinct), len(found))
        missing = [pair for pair in distinct if pair not in found]
        computed = await self._worker.scores(missing)
        named = dict(zip(distinct, keys, strict=True))
        self._cache.put({named[pair]: orjson.dumps(computed[pair]) for pair in missing})
        return found | computed

    async def fit_context(self, context: str, text: str) -> str:
        """See `PairModel.fit_context`."""
        return await self._worker.fit_context(context, text)

    def _decode(self, entry: bytes | None) -> PairScore | None:
        """A score of as many values as the model has labels; None for what is none."""
        if entry is None:
            return None
        try:
            values, truncated = orjson.loads(entry)
            score = tuple(float(value) for value in values), bool(truncated)
        except (ValueError, TypeError):
            return None
        return score if len(score[0]) == len(self.model.labels) else None
