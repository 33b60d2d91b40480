"""What takes the workers' place while a recording is scored, so that nothing is asked twice."""

from collections.abc import Sequence
from dataclasses import replace

from app.evidence import question_about
from app.lab.recordings import Recording, TrueFalse
from models.errors import PromptTooLong
from models.records import Generation, GenerationRequest, OnToken, Pair
from models.similarity.pairs import PairTable
from workers.build import Workers
from workers.generation import GenerationWorker
from workers.similarity import SimilarityWorker


class RememberedPairs(SimilarityWorker):
    """A similarity worker that asks each pair of one prompt once, for all of its answers."""

    def __init__(self, worker: SimilarityWorker) -> None:
        self.model = worker.model
        self.rules = worker.rules
        self._worker = worker
        self._table = PairTable(worker.model.labels, {}, worker.rules)

    async def table(self, pairs: Sequence[Pair]) -> PairTable:
        """See `SimilarityWorker.table`; holds all pairs so far."""
        known = self._table.scores
        new = await self._worker.table([pair for pair in pairs if pair not in known])
        scores = {**known, **new.scores}
        self._table = replace(self._table, scores=scores, truncated=new.truncated)
        return self._table

    async def fit_context(self, context: str, text: str) -> str:
        """See `PairModel.fit_context`."""
        return await self._worker.fit_context(context, text)


class RecordedEngine:
    """An engine that answers from a recording what was asked about its answers.

    It generates nothing.
    """

    num_waiting = 0
    busy_since: float | None = None
    max_context_tokens = num_layers = hidden_size = 0
    dtype = ""

    def __init__(self, recording: Recording, request: GenerationRequest) -> None:
        generation = recording.generation
        self.model_id = generation.model_id if generation is not None else ""
        self.revision = generation.revision if generation is not None else None
        self.statistics: frozenset[str] = frozenset()
        self._by_question: dict[str | None, TrueFalse | None] = {}
        for text, pair in recording.true_false.items():
            self._by_question[question_about(text, request).prompt] = pair

    async def first_token_logprobs(
        self, request: GenerationRequest, groups: Sequence[Sequence[str]]
    ) -> list[float | None]:
        """See `Engine.first_token_logprobs`."""
        if (pair := self._by_question[request.prompt]) is None:
            raise PromptTooLong("the question about the answer exceeds the context")
        return list(pair)

    async def run(self) -> None:
        """There is no loop."""

    async def generate(
        self, request: GenerationRequest, on_token: OnToken | None = None
    ) -> Generation:
        """Never: what is not recorded is absent."""
        raise NotImplementedError

    async def encode_answer(self, text: str, *, append_eos: bool) -> tuple[int, ...]:
        """Never: nothing is given."""
        raise NotImplementedError

    async def close(self) -> None:
        """There is nothing to free."""


def replaying(recording: Recording, request: GenerationRequest, workers: Workers) -> Workers:
    """Workers that answer from the recording, and compare each pair of it once."""
    similarity: dict[str, SimilarityWorker] = {}
    for name, worker in workers.similarity.items():
        similarity[name] = RememberedPairs(worker)
    return replace(
        workers,
        generation=GenerationWorker(RecordedEngine(recording, request)),
        similarity=similarity,
        nli=None if workers.nli is None else RememberedPairs(workers.nli),
    )
