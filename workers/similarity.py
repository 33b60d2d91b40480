"""The similarity worker: one pair model behind a micro-batcher that all requests share."""

import asyncio
from collections.abc import Callable, Sequence

import numpy as np

from models.errors import CocoaError, SimilarityUnavailable
from models.records import Pair
from models.similarity.pairs import PairRules, PairTable
from models.similarity.protocol import PairModel
from models.threads import ModelThread
from workers.batching import MicroBatcher

# The K values of one pair, and whether it was cut to the model's length.
PairScore = tuple[tuple[float, ...], bool]


class SimilarityWorker:
    """Scores pairs of texts on a thread that all pair models of the process share.

    Args:
        model: scores ordered pairs.
        rules: which pairs need no model.
        thread: where the model runs.
        max_batch_pairs: pairs of one call.
        on_batch: told the number of pairs of each call.
    """

    def __init__(
        self,
        model: PairModel,
        rules: PairRules,
        *,
        thread: ModelThread,
        max_batch_pairs: int,
        on_batch: Callable[[int], None] = lambda size: None,
    ) -> None:
        self.model = model
        self.rules = rules
        self._thread = thread
        self._batcher: MicroBatcher[Pair, PairScore] = MicroBatcher(
            self._score, max_batch=max_batch_pairs, thread=thread, on_batch=on_batch
        )

    @property
    def busy_since(self) -> float | None:
        """Monotonic seconds at which the thread's running call began, whichever model it is of."""
        return self._thread.busy_since

    async def run(self) -> None:
        """The batcher's loop, for the supervisor to watch."""
        await self._batcher.run()

    async def warm_up(self) -> None:
        """One pair, so that no client pays for first-call initialisation."""
        await self.table([("Paris", "Rome")])

    async def table(self, pairs: Sequence[Pair]) -> PairTable:
        """Scores of distinct pairs, as the functions of `models.similarity.pairs` name them.

        Raises:
            SimilarityUnavailable: the model failed on one of these pairs.
            NotReady: the model has stopped.
        """
        scored = await self.scores(pairs)
        values = {pair: value for pair, (value, _) in scored.items()}
        return PairTable(
            self.model.labels, values, self.rules, any(cut for _, cut in scored.values())
        )

    async def scores(self, pairs: Sequence[Pair]) -> dict[Pair, PairScore]:
        """Values and truncation of each distinct pair; raises as `table` does."""
        try:
            scored = await self._batcher.submit(pairs)
        except CocoaError:
            raise
        except Exception as error:
            raise SimilarityUnavailable(
                f"the similarity model failed: {type(error).__name__}"
            ) from error
        if not all(np.isfinite(value).all() for value, _ in scored.values()):
            raise SimilarityUnavailable(
                "the similarity model returned a value that is not a finite number"
            )
        return scored

    async def fit_context(self, context: str, text: str) -> str:
        """See `PairModel.fit_context`."""
        return await asyncio.get_running_loop().run_in_executor(
            self._thread, self.model.fit_context, context, text
        )

    async def close(self) -> None:
        """The loop ends with its task; the thread belongs to whoever made it."""

    def _score(self, pairs: list[Pair]) -> list[PairScore]:
        scores = self.model.score(pairs)
        return list(zip(map(tuple, scores.values.tolist()), scores.truncated.tolist(), strict=True))
