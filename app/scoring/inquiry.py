"""What is asked of workers for one ask: a generation, then all that its plan wants of it."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from app.cache.checked import CheckedCache
from app.scoring.ask import Ask
from app.scoring.evidence import (
    FALSE,
    TRUE,
    Evidence,
    Observations,
    Subject,
    TrueFalse,
    choose,
    derive,
    nli_pairs,
    question_about,
    question_of,
    read_by_token,
    similarity_pairs,
    subject_of,
)
from app.scoring.keys import statistics_key
from app.scoring.limits import AskLimits, check_pairs, check_relevance
from app.scoring.pairs import OnPairs, PairMemory
from app.scoring.plan import Plan, generation_request
from app.scoring.recorded import Recorded
from models.errors import PromptTooLong
from models.records import Generation, OnToken, Pair
from models.similarity.pairs import PairTable, matrix_pairs
from workers.protocol import Workers


class Inquiry:
    """The questions of one ask.

    Attributes:
        plan, ask: what is wanted.

    Args:
        plan: of the ask.
        ask: whose texts are scored.
        workers: that are asked.
        cache: remembers pairs; None where it may not serve.
        on_pairs: see `PairMemory`.
        recorded: what the generator said earlier; it is not asked then.
        limits: of pairs; None bounds none.
    """

    def __init__(
        self,
        plan: Plan,
        ask: Ask,
        workers: Workers,
        *,
        cache: CheckedCache | None,
        on_pairs: OnPairs,
        recorded: Recorded | None = None,
        limits: AskLimits | None = None,
    ) -> None:
        self.plan = plan
        self.ask = ask
        self._generator = workers.generator
        self._generator_info = workers.generator.info
        self._recorded = recorded
        self._limits = limits
        self._similarity = PairMemory(workers.comparers[plan.similarity], cache, on_pairs)
        self._nli = None if workers.nli is None else PairMemory(workers.nli, cache, on_pairs)
        self._generator_is_current = True

    @property
    def key(self) -> str:
        """Name of the statistics in a cache, by the weights that were there at the start."""
        nli = None if self._nli is None else self._nli.info
        return statistics_key(self.plan, self.ask, self._generator_info, self._similarity.info, nli)

    @property
    def is_current(self) -> bool:
        """Whether every reply came from the weights that were there at the start."""
        nli_is_current = self._nli is None or self._nli.is_current
        return self._generator_is_current and self._similarity.is_current and nli_is_current

    def check_given(self) -> None:
        """Refuse given texts that make too many pairs; to be called before any work.

        Raises:
            InvalidRequest: they exceed a limit.
        """
        if self.ask.answer is None or self.ask.samples is None:
            return
        subject = subject_of(self.ask, None)
        rules = self._similarity.info.rules
        without_context = [""] * len(read_by_token(self.plan, subject))
        pairs = similarity_pairs(self.plan, subject, without_context, rules)
        self._check_pairs(self._similarity, pairs)
        if self._nli is not None:
            self._check_pairs(self._nli, nli_pairs(self.plan, subject, self._nli.info.rules))

    async def generate(
        self, timeout_s: float | None, on_token: OnToken | None = None
    ) -> Generation | None:
        """Answer and samples; None where no model is asked.

        Args:
            timeout_s: that the generator may take.
            on_token: told of each token of y*, where `Plan.streamed` knows it.

        Raises:
            CocoaError: see `Generator.generate`.
        """
        if self._recorded is not None:
            return self._recorded.generation
        if not self.ask.has_prompt:
            return None
        request = generation_request(self.ask, self.plan.generated, timeout_s)
        request = replace(request, streamed=self.plan.streamed)
        generation = await self._generator.generate(request, on_token)
        self._check_identity(generation.identity)
        return generation

    async def evidence(self, generation: Generation | None) -> Evidence:
        """Every statistic of the plan, or its reason.

        Raises:
            InvalidRequest: the generated texts make more pairs than the limits allow.
            CocoaError: a worker failed.
        """
        subject = subject_of(self.ask, generation)
        matrix: PairTable | None = None
        if self.plan.strategy == "mbr":
            rules = self._similarity.info.rules
            matrix = await self._table(self._similarity, matrix_pairs(subject.texts, rules))
        subject = choose(self.plan.strategy, subject, matrix)
        (similarity, contexts), nli, true_false = await asyncio.gather(
            self._similarities(subject), self._nli_scores(subject), self._true_false(subject)
        )
        said = Observations(similarity, nli, contexts, true_false)
        return derive(self.plan, subject, generation, said)

    async def _similarities(self, subject: Subject) -> tuple[PairTable, list[str]]:
        """Scores of the wanted pairs, and what the sequences that are read by token follow."""
        question = question_of(self.ask)
        sequences = read_by_token(self.plan, subject)
        followed = [(question, "".join(sequence.token_texts or ())) for sequence in sequences]
        contexts = await self._similarity.fit_contexts(followed)
        if self._limits is not None:
            token_texts = [sequence.token_texts or () for sequence in sequences]
            check_relevance(contexts, token_texts, self._limits)
        rules = self._similarity.info.rules
        pairs = similarity_pairs(self.plan, subject, contexts, rules)
        return await self._table(self._similarity, pairs), contexts

    async def _nli_scores(self, subject: Subject) -> PairTable | None:
        if self._nli is None:
            return None
        pairs = nli_pairs(self.plan, subject, self._nli.info.rules)
        return await self._table(self._nli, pairs)

    async def _table(self, memory: PairMemory, pairs: Sequence[Pair]) -> PairTable:
        self._check_pairs(memory, pairs)
        return await memory.table(pairs)

    def _check_pairs(self, memory: PairMemory, pairs: Sequence[Pair]) -> None:
        if self._limits is not None:
            field = "estimators" if self.ask.samples is None else "samples"
            check_pairs(pairs, memory.info, self._limits, field=field)

    async def _true_false(self, subject: Subject) -> TrueFalse:
        """What the model says of its own answer, where that is wanted."""
        if "p_true_logprob" not in self.plan.statistics:
            return None
        text = subject.answer.compared_text
        if self._recorded is not None:
            return self._recorded.true_false[text]
        question = question_about(text, self.ask)
        try:
            reply = await self._generator.first_token_logprobs(question, (TRUE, FALSE))
        except PromptTooLong:
            return None
        self._check_identity(reply.identity)
        true, false = reply.logprobs
        return true, false

    def _check_identity(self, identity: str) -> None:
        if identity != self._generator_info.identity:
            self._generator_is_current = False
