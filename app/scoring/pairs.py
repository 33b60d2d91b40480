"""The one memory of pairs: what a request has asked for, over a cache that outlives it."""

from collections.abc import Callable, Sequence

import orjson

from app.cache.checked import CheckedCache
from app.scoring.keys import pair_key, text_digest
from models.errors import SimilarityUnavailable
from models.ranges import PROBABILITIES, number
from models.records import Pair
from models.similarity.pairs import PairTable
from models.similarity.protocol import ContextAndText
from workers.protocol import Comparer, PairScore

OnPairs = Callable[[int, int], None]


class PairMemory:
    """Scores of pairs for one request, each asked of the comparer at most once.

    Attributes:
        info: of the comparer as the request found it.
        is_current: whether every reply came from those weights, so that it may be remembered.

    Args:
        comparer: scores what is not remembered.
        cache: holds scores of earlier requests; None where none may serve.
        on_pairs: told how many distinct pairs were looked up, and how many were found.
    """

    def __init__(self, comparer: Comparer, cache: CheckedCache | None, on_pairs: OnPairs) -> None:
        self.info = comparer.info
        self.is_current = True
        self._comparer = comparer
        # A function without weights costs less than looking its scores up.
        self._cache = cache if self.info.revision is not None else None
        self._on_pairs = on_pairs
        self._scores: dict[Pair, PairScore] = {}
        # A text is in many pairs, and hashed once.
        self._digests: dict[str, str] = {}

    async def table(self, pairs: Sequence[Pair]) -> PairTable:
        """Scores of these pairs and of all that were asked for before.

        Raises:
            SimilarityUnavailable: the model failed on one of these pairs, or was replaced by
                another one in the middle of the request.
            NotReady: the model has stopped.
        """
        new = [pair for pair in dict.fromkeys(pairs) if pair not in self._scores]
        if new:
            self._scores |= await self._look_up(new)
            await self._ask([pair for pair in new if pair not in self._scores])
        values = {pair: score for pair, (score, _) in self._scores.items()}
        truncated = any(cut for _, cut in self._scores.values())
        return PairTable(self.info.labels, values, self.info.rules, truncated)

    async def fit_contexts(self, texts: Sequence[ContextAndText]) -> list[str]:
        """See `Comparer.fit_contexts`."""
        return await self._comparer.fit_contexts(texts) if texts else []

    async def _look_up(self, pairs: list[Pair]) -> dict[Pair, PairScore]:
        if self._cache is None:
            return {}
        scores = await self._cache.look_up([self._key(pair) for pair in pairs], self._decode)
        looked_up = zip(pairs, scores, strict=True)
        found = {pair: score for pair, score in looked_up if score is not None}
        self._on_pairs(len(pairs), len(found))
        return found

    async def _ask(self, pairs: list[Pair]) -> None:
        if not pairs:
            return
        reply = await self._comparer.compare(pairs)
        if reply.identity != self.info.identity:
            self.is_current = False
            if self._scores:  # of other weights: scores of two models must not be mixed
                raise SimilarityUnavailable("the similarity model was replaced; repeat the request")
        elif self._cache is not None:
            self._cache.put({self._key(pair): orjson.dumps(reply.scores[pair]) for pair in pairs})
        self._scores |= reply.scores

    def _key(self, pair: Pair) -> str:
        for text in pair:
            if text not in self._digests:
                self._digests[text] = text_digest(text)
        return pair_key(self.info.identity, *(self._digests[text] for text in pair))

    def _decode(self, entry: bytes) -> PairScore:
        """A probability for each of the model's labels, and whether the pair was cut.

        Raises:
            ValueError, TypeError: it is none.
        """
        values, truncated = orjson.loads(entry)
        if len(values) != len(self.info.labels) or type(truncated) is not bool:
            raise ValueError("no scores of these labels")
        return tuple(number(value, PROBABILITIES) for value in values), truncated
