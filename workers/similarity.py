"""Similarity scorers over pair models in this process."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from models.digests import digest_of
from models.errors import SimilarityUnavailable
from models.records import Pair
from models.similarity.pairs import PairRules
from models.similarity.protocol import NliPairModel, PairModel
from models.threads import ModelThread
from workers.batching import MicroBatcher
from workers.calling import failing_as, gather
from workers.protocol import PairReply, PairScore, SimilarityInfo

Item = TypeVar("Item")
Result = TypeVar("Result")


class SimilarityWorker:
    """A `SimilarityScorer` around one `PairModel` in this process."""

    def __init__(
        self,
        model: PairModel,
        rules: PairRules,
        *,
        thread: ModelThread,
        max_batch_pairs: int,
        on_batch: Callable[[int], None] = lambda size: None,
        is_out_of_domain: bool = False,
    ) -> None:
        self._model = model
        self._thread = thread
        self._pairs: MicroBatcher[Pair, PairScore] = MicroBatcher(
            self._score, max_batch=max_batch_pairs, on_batch=on_batch
        )
        self._contexts: MicroBatcher[Pair, str] = MicroBatcher(
            lambda texts: self._blocking(model.fit_contexts, texts), max_batch=max_batch_pairs
        )
        self._loops: list[MicroBatcher[Any, Any]] = [self._pairs, self._contexts]
        parts = (model.model_id, model.revision, model.labels, model.max_length, model.flags)
        self.info = SimilarityInfo(
            identity=digest_of(*parts, *rules.identity),
            model_id=model.model_id,
            revision=model.revision,
            labels=model.labels,
            max_pair_tokens=model.max_length,
            rules=rules,
            is_out_of_domain=is_out_of_domain,
        )

    @property
    def busy_since(self) -> float | None:
        """Of the thread, whichever of its models runs."""
        return self._thread.busy_since

    async def run(self) -> None:
        try:
            await gather(*(batcher.run() for batcher in self._loops))
        finally:
            await self.close()

    async def warm_up(self) -> None:
        """A function without weights has nothing to initialise."""
        if self._model.revision is not None:
            await self.compare([("Paris", "Rome")])

    async def compare(self, pairs: Sequence[Pair]) -> PairReply:
        with failing_as(SimilarityUnavailable, "the similarity model"):
            scores = await self._pairs.submit(pairs)
        reply = PairReply(scores, self.info.identity)
        reply.check_finite()
        return reply

    async def fit_contexts(self, texts: Sequence[Pair]) -> list[str]:
        return await self._each(self._contexts, texts)

    async def close(self) -> None:
        """The thread ends with the last model that uses it."""
        for batcher in self._loops:
            batcher.close()

    async def _each(self, loop: MicroBatcher[Item, Result], items: Sequence[Item]) -> list[Result]:
        with failing_as(SimilarityUnavailable, "the similarity model"):
            results = await loop.submit(items)
        return list(map(results.__getitem__, items))

    async def _blocking(self, call: Callable[[list[Item]], Result], items: list[Item]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call, items)

    async def _score(self, pairs: list[Pair]) -> list[PairScore]:
        scores = await self._blocking(self._model.score, pairs)
        rows = map(tuple, scores.values.tolist())
        return list(zip(rows, scores.truncated.tolist(), strict=True))


class NliWorker(SimilarityWorker):
    """A `NliScorer` around one model of natural language inference in this process."""

    def __init__(self, model: NliPairModel, **options: Any) -> None:
        super().__init__(model, **options)
        self._texts: MicroBatcher[str, list[int]] = MicroBatcher(
            lambda texts: self._blocking(model.token_ends, texts),
            max_batch=options["max_batch_pairs"],
        )
        self._loops.append(self._texts)

    async def token_ends(self, texts: Sequence[str]) -> list[list[int]]:
        return await self._each(self._texts, texts)
