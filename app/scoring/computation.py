"""One ask through the workers: a generation, the questions about it, and their replies."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter, methodcaller
from typing import Any, TypeVar

from app.scoring.ask import PARTS
from app.scoring.check import check_relevance
from app.scoring.deployment import Deployment
from app.scoring.derive import BEHIND_REASONING, Evidence, derive, of_nli, of_similarity
from app.scoring.entries import encode, statistics_name
from app.scoring.memory import Memory
from app.scoring.observer import Observer
from app.scoring.pairs import PairScores
from app.scoring.parts import PartsOfAnswer
from app.scoring.plan import Comparing, Plan
from app.scoring.planning import NO_DOCUMENTS
from app.scoring.questions import (
    FALSE,
    TRUE,
    Subject,
    choose,
    closed_book,
    closed_book_logprobs,
    p_true_logprob,
    question_about,
    questions_of,
    read_by_token,
    subject_of,
)
from models.errors import ChatTemplateError, PromptTooLong
from models.records import Array, Generation, GenerationRequest, OnToken, Pair, Token
from models.records import Sequence as TokenSequence
from models.units.steps import WorkBudget
from workers.admission import Turn
from workers.protocol import Workers

Value = TypeVar("Value")

# Names of the threads that texts are read and compared on: long ones never hold up short ones. To
# compare so many texts with each other, or so many characters of them, takes ten milliseconds.
SHORT_TEXTS, LONG_TEXTS = "texts", "parts"
_MANY, _LONG_CHARACTERS = 24, 4_000
# For the charge of texts that came with an ask, which no model reads.
_CHARACTERS_A_TOKEN = 4


def thread_for(texts: Sequence[str]) -> str:
    """The name of the thread that reads and compares these texts."""
    if len(texts) <= _MANY and sum(map(len, texts)) <= _LONG_CHARACTERS:
        return SHORT_TEXTS
    return LONG_TEXTS


@dataclass(eq=False)
class Computation:
    """One ask through the models.

    Attributes:
        name: of the entry in a cache, by the weights that were there at the start; "" without.
    """

    plan: Plan
    deployment: Deployment
    workers: Workers
    threads: Mapping[str, ThreadPoolExecutor]
    memory: Memory | None
    observer: Observer

    def __post_init__(self) -> None:
        plan, workers, limits = self.plan, self.workers, self.deployment.limits
        self.name = ""
        self._steps = WorkBudget()
        if self.memory is not None:
            self.name = statistics_name(plan, self.deployment.models)
        self._similarity_scorer = workers.similarity_scorers[plan.similarity]
        scores_of = partial(
            PairScores,
            ask=plan.ask,
            memory=self.memory,
            observer=self.observer,
            limits=limits,
            steps=self._steps,
        )
        self._similarity = scores_of(self._similarity_scorer)
        self._nli: PairScores | None = None
        if workers.nli is not None and plan.asks("nli"):
            self._nli = scores_of(workers.nli, token_ends=workers.nli.token_ends)
        self.parts: PartsOfAnswer | None = None
        thread = self.threads[LONG_TEXTS]
        if self._nli is not None and plan.parts_compared_by == "nli":
            self.parts = PartsOfAnswer(plan, self._nli, workers.nli, thread, limits)
        elif plan.ask.units in PARTS or plan.ask.documents is not None:
            self.parts = PartsOfAnswer(plan, self._similarity, None, thread, limits)
        self._identities: set[str] = set()  # of the generator's weights, by its replies

    async def computed(
        self, turn: Turn, timeout_s: float | None, on_token: OnToken | None
    ) -> Evidence:
        """All statistics, once it is the ask's turn; see `generate` and `evidence`."""
        async with turn() as waited_s:
            generation = await self.generate(timeout_s, on_token)
            if generation is not None and waited_s:
                generation = replace(generation, queue_s=generation.queue_s + waited_s)
            return await self.evidence(generation)

    async def entry(self, turn: Turn, on_token: OnToken | None) -> tuple[Evidence, bytes | None]:
        """The evidence, and its cache entry; None where `name` does not cover all it came from.

        Shared work has no deadline: each who waits has one, and it ends when the last has left.
        """
        evidence = await self.computed(turn, None, on_token)
        identity = self.deployment.models.generator.identity
        is_named = self._identities <= {identity}
        is_named &= self._similarity.is_current and (self._nli is None or self._nli.is_current)
        if not is_named:
            return evidence, None
        return evidence, encode(evidence)

    async def generate(
        self, timeout_s: float | None, on_token: OnToken | None = None
    ) -> Generation | None:
        """Answer and samples, charged to the caller; None where no model answers.

        Raises:
            CocoaError: see `Generator.generate`.
        """
        ask = self.plan.ask
        if not ask.has_prompt:
            return None
        if self.parts is not None and ask.answer is not None and ask.samples:
            await self.parts.check(subject_of(ask, None))
        request = replace(self.plan.request, timeout_s=timeout_s, patience_s=ask.timeout_s)
        cost = 0

        def tell(token: Token) -> None:
            nonlocal cost
            cost += 1
            if on_token is not None:
                on_token(token)

        try:
            generation = await self.workers.generator.generate(request, on_token and tell)
            written = map(attrgetter("num_written"), (generation.answer, *generation.samples))
            cost = generation.prompt_tokens + sum(written)
        finally:  # cancelled, it is charged for the tokens until then
            ask.caller.charge(cost)
        self._identities.add(generation.identity)
        return generation

    async def evidence(self, generation: Generation | None) -> Evidence:
        """Every statistic of the plan, or its reason.

        Raises:
            InvalidRequest: the generated texts make more pairs than the limits allow.
            CocoaError: a worker failed.
        """
        began_at = time.monotonic()
        plan, subject = self.plan, subject_of(self.plan.ask, generation)
        if plan.is_chosen:
            subject = await self._chosen(subject)
        contexts: list[str] = []
        if sequences := read_by_token(plan, subject):
            by_token = [sequence.token_texts or () for sequence in sequences]
            before = questions_of(plan.ask)[-1]
            followed = [(before, "".join(texts)) for texts in by_token]
            contexts = await self._similarity_scorer.fit_contexts(followed)
            check_relevance(contexts, by_token, self.deployment.limits)
        in_thread = partial(self._in_thread, subject)
        by_similarity = partial(of_similarity, plan, subject, contexts)
        compared: dict[Comparing, list[Pair]] = {"similarity": [], "nli": [], "words": []}
        if not self._similarity.info.rules.by_words:  # which ask no model
            compared["similarity"] = await in_thread(self._similarity.read_by, by_similarity)
        if self._nli is not None:
            compared["nli"] = await in_thread(self._nli.read_by, partial(of_nli, plan, subject))
        # Pairs of parts go in one batch with the others; comparing by words needs none.
        if self.parts is not None and plan.parts_compared_by is not None:
            compared[plan.parts_compared_by] += await self.parts.pairs(subject)
        if generation is None:
            # Texts of the ask, which no generator has read.
            num_characters = sum(map(len, plan.given_texts))
            plan.ask.caller.charge(num_characters // _CHARACTERS_A_TOKEN)
        calls: dict[str, Awaitable[Any]] = {
            "similarity": self._similarity.table(compared["similarity"])
        }
        if self._nli is not None:
            calls["nli"] = self._nli.table(compared["nli"])
        if "p_true_logprob" in plan.statistics:
            question = question_about(subject.answer.compared_text, plan.ask)
            calls["p_true_logprob"] = self._p_true_logprob(question)
        if "closed_book_token_logprobs" in plan.statistics:
            calls["closed_book_token_logprobs"] = self._closed_book(subject.answer)
        replies = dict(zip(calls, await asyncio.gather(*calls.values()), strict=True))
        tables = replies.pop("similarity"), replies.pop("nli", None)
        evidence = await in_thread(derive, plan, subject, generation, contexts, *tables, replies)
        return replace(evidence, similarity_s=time.monotonic() - began_at)

    async def _chosen(self, subject: Subject) -> Subject:
        matrix: Array | None = None
        if self.plan.strategy == "mbr":
            work = methodcaller("similarity_matrix", subject.texts)
            pairs = await self._in_thread(subject, self._similarity.read_by, work)
            table = await self._similarity.table(pairs)
            matrix = await self._in_thread(subject, work, table)
        return choose(self.plan.strategy, subject, matrix)

    async def _in_thread(
        self, subject: Subject, work: Callable[..., Value], *args: Any, **named: Any
    ) -> Value:
        """Run pure work on a subject's texts on a thread; cancelled, it ends at its next step."""
        thread = self.threads[thread_for([subject.answer.compared_text, *subject.texts])]
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(thread, partial(work, *args, **named))
        except asyncio.CancelledError:
            self._steps.end()
            raise

    async def _closed_book(self, answer: TokenSequence) -> Array | str:
        """Log-probs of the answer's tokens without the documents, or why they are not known."""
        if answer.reasoning is not None or answer.no_answer:  # which has a reason of its own
            return BEHIND_REASONING
        if not self.plan.ask.documents:  # tools have given nothing yet
            return NO_DOCUMENTS
        try:
            reply = await self.workers.generator.generate(closed_book(self.plan, answer))
        except ChatTemplateError as error:  # of a conversation that is none without them
            return f"without the documents {error}"
        self.plan.ask.caller.charge(reply.prompt_tokens + reply.answer.num_tokens)
        self._identities.add(reply.identity)
        return closed_book_logprobs(answer, reply)

    async def _p_true_logprob(self, question: GenerationRequest) -> float | str:
        """The model's opinion of its own answer, or why there is none."""
        try:
            reply = await self.workers.generator.first_token_logprobs(question, (TRUE, FALSE))
        except PromptTooLong:
            return "the question about the answer exceeds the context"
        self._identities.add(reply.identity)
        true, false = reply.logprobs
        return p_true_logprob(true, false)
