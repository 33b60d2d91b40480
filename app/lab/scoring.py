"""Scores of one stored generation under every plan.

Evidence and estimators are the same as those of a served request.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from app.evidence import gather_evidence, question_about
from app.lab.recordings import Header, Record
from app.planning import STRATEGY_NEEDS, Plan, derivable
from models.errors import InvalidRequest, PromptTooLong
from models.estimators import needs, score
from models.records import Generation, GenerationRequest, OnToken, Pair
from models.selection import Strategy
from models.similarity.pairs import PairTable
from workers.build import Workers
from workers.generation import GenerationWorker
from workers.similarity import SimilarityWorker


@dataclass(frozen=True, slots=True)
class AnswerScores:
    """One answer of one prompt, with its uncertainties.

    Attributes:
        similarity: name of the similarity function.
        text: y* as it is compared.
        sample: index of y* among the samples; None for the greedy answer.
        scores: None where an estimator has no value, for which `reasons` says why.
    """

    id: str
    strategy: Strategy
    similarity: str
    text: str
    sample: int | None
    scores: Mapping[str, float | None]
    reasons: Mapping[str, str]


class RememberedPairs(SimilarityWorker):
    """A similarity worker that asks each pair of one prompt once, for all of its answers."""

    def __init__(self, worker: SimilarityWorker) -> None:
        self.model = worker.model
        self.rules = worker.rules
        self._worker = worker
        self._table = PairTable(worker.model.labels, {}, worker.rules)

    async def table(self, pairs: Sequence[Pair]) -> PairTable:
        """See `SimilarityWorker.table`; holds all pairs asked so far."""
        known = self._table.scores
        asked = await self._worker.table([pair for pair in pairs if pair not in known])
        self._table = replace(
            self._table, scores={**known, **asked.scores}, truncated=asked.truncated
        )
        return self._table

    async def fit_context(self, context: str, text: str) -> str:
        """See `PairModel.fit_context`."""
        return await self._worker.fit_context(context, text)


class RecordedEngine:
    """An engine that answers from a record what was asked about its answers.

    It generates nothing.
    """

    num_waiting = 0
    busy_since: float | None = None
    max_context_tokens = num_layers = hidden_size = 0
    dtype = ""

    def __init__(self, record: Record, request: GenerationRequest) -> None:
        self.model_id = record.generation.model_id if record.generation is not None else ""
        self.revision = record.generation.revision if record.generation is not None else None
        self.statistics: frozenset[str] = frozenset()
        self._asked = {
            question_about(text, request).prompt: pair for text, pair in record.true_false.items()
        }

    async def first_token_logprobs(
        self, request: GenerationRequest, groups: Sequence[Sequence[str]]
    ) -> list[float | None]:
        """See `Engine.first_token_logprobs`."""
        if (pair := self._asked[request.prompt]) is None:
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


def make_plans(
    estimators: Sequence[str],
    strategies: Sequence[Strategy],
    similarities: Sequence[str],
    available: frozenset[str],
) -> list[Plan]:
    """One plan a strategy with the first similarity function, and one a further function.

    A further function is compared under the first strategy, by the estimators that read
    `similarity`.

    Raises:
        InvalidRequest: an estimator or strategy reads what is not available.
    """
    for name in estimators:
        if missing := needs([name]) - available:
            raise InvalidRequest(
                f"{name} reads {', '.join(sorted(missing))}, which is not available"
            )
    for strategy in strategies:
        if missing := STRATEGY_NEEDS[strategy] - available:
            raise InvalidRequest(
                f"{strategy} reads {', '.join(sorted(missing))}, which is not available"
            )
    main = [_plan(estimators, strategy, similarities[0]) for strategy in strategies]
    compared = [name for name in estimators if "similarity" in needs([name])]
    return main + [_plan(compared, strategies[0], name) for name in similarities[1:] if compared]


def available_statistics(header: Header, workers: Workers) -> frozenset[str]:
    """What a file of generations and these workers can supply together."""
    sources = frozenset(header.statistics) | (
        {"p_true_logprob"} if header.asks_p_true else frozenset()
    )
    return derivable(sources, has_nli=workers.nli is not None)


async def score_record(
    record: Record, request: GenerationRequest, plans: Sequence[Plan], workers: Workers
) -> list[AnswerScores]:
    """Scores of one prompt under each plan; none where it has no generation."""
    if record.generation is None:
        return []
    remembering = replace(
        workers,
        generation=GenerationWorker(RecordedEngine(record, request)),
        similarity={name: RememberedPairs(worker) for name, worker in workers.similarity.items()},
        nli=None if workers.nli is None else RememberedPairs(workers.nli),
    )
    results = []
    for plan in plans:  # one after another, so that each finds the pairs of those before
        evidence = await gather_evidence(plan, record.generation, request, remembering)
        scores, reasons = score(plan.estimators, evidence.statistics, evidence.absent)
        results.append(
            AnswerScores(
                id=record.id,
                strategy=plan.strategy,
                similarity=plan.similarity or workers.default_similarity,
                text=evidence.answer.compared_text,
                sample=evidence.answer_sample,
                scores=scores,
                reasons=reasons,
            )
        )
    return results


def _plan(estimators: Sequence[str], strategy: Strategy, similarity: str) -> Plan:
    wanted = needs(estimators) | STRATEGY_NEEDS[strategy]
    return Plan(tuple(estimators), estimators[0], strategy, wanted, similarity)
