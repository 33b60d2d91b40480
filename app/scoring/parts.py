"""The parts of one answer through the workers: made of its text, compared, each once."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from app.scoring.check import check_pairs
from app.scoring.deployment import AskLimits
from app.scoring.derive import NO_ANSWER
from app.scoring.pairs import PairScores
from app.scoring.plan import Plan
from app.scoring.questions import Subject, questions_of, without_documents
from app.scoring.statements import Statements
from models.records import Pair
from models.records import Sequence as TokenSequence
from models.similarity.grounding import grounded
from models.similarity.pairs import PairTable
from models.units.parts import Parts, split
from models.units.steps import WorkBudget
from workers.protocol import NliScorer

Value = TypeVar("Value")

# For the charge of comparing fields, which no model does.
_STEPS_A_TOKEN = 1000


@dataclass(eq=False)
class PartsOfAnswer:
    """Makes and compares the parts of the answer to one ask."""

    plan: Plan
    scores: PairScores  # of pairs, by the similarity scorer of parts
    nli: NliScorer | None  # the model behind them, where statements are compared; None elsewhere
    # Where parts are made and compared: those of long answers take a second.
    thread: ThreadPoolExecutor
    limits: AskLimits  # of parts and pairs
    steps: WorkBudget = field(default_factory=WorkBudget)
    looking_up: WorkBudget = field(default_factory=partial(WorkBudget, field="documents"))
    _made: Callable[[PairTable], Parts] | Parts | None = None
    _pairs: Sequence[Pair] = ()

    async def in_thread(self, work: Callable[..., Value], *args: Any, **named: Any) -> Value:
        """Run pure work on its thread; cancelled, it ends at its next step."""
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self.thread, partial(work, *args, **named))
        except asyncio.CancelledError:
            for steps in (self.steps, self.looking_up, self.scores.steps):
                steps.end()
            raise

    async def check(self, subject: Subject) -> None:
        """Refuse given texts that make too many pairs; the parts made for it are not kept."""
        if self.plan.parts_compared_by is not None and not subject.answer.no_answer:
            pairs = await self._read_by(await self._make(subject))
            check_pairs(self.plan.ask, len(pairs), self.limits)

    async def pairs(self, subject: Subject) -> Sequence[Pair]:
        """The pairs that are compared; an answer may have none.

        Raises:
            InvalidRequest: statements make more pairs than an ask may have.
            CocoaError: the NLI model is gone.
        """
        if self._made is None and not subject.answer.no_answer:
            self._made = await self._make(subject)
            self._pairs = await self._read_by(self._made)
        return self._pairs

    async def _read_by(self, made: Callable[[PairTable], Parts] | Parts) -> Sequence[Pair]:
        if isinstance(made, Parts):
            return ()
        return await self.in_thread(self.scores.read_by, made)

    async def compared(self, subject: Subject) -> Parts:
        """The parts of the answer; pairs that are not stored are compared.

        Raises:
            InvalidRequest: the texts make more pairs than the limits allow.
            CocoaError: a worker failed.
        """
        pairs = await self.pairs(subject)
        if not callable(self._made):
            return self._made or Parts()
        parts = await self.in_thread(self._made, await self.scores.table(pairs))
        self.plan.ask.caller.charge(self.steps.num_taken // _STEPS_A_TOKEN)
        return parts

    async def beside_documents(self, answer: TokenSequence, parts: Parts) -> Parts:
        """The parts with what documents say of each, and of the answer; see `grounded`.

        Raises:
            InvalidRequest: texts or documents are too long, or make too many pairs.
            CocoaError: a worker failed.
        """
        ask, stated, most = self.plan.ask, parts, len(parts.units)
        if (code := answer.no_answer) is not None:
            return replace(parts, grounded=f"{code}: {NO_ANSWER[code]}")
        if not ask.documents:
            return replace(parts, grounded="no tool has given anything in the messages")
        if not parts.units:
            stated = await self.in_thread(split, answer, "sentences", tools=ask.tools)
            if ask.units == "fields" and ask.tools and ask.target_error is None:
                most = self.limits.max_units  # of an answer that calls no tool
        if parts.value is not None or not stated.units:
            return replace(parts, grounded="the answer has no sentences")
        asked = questions_of(without_documents(ask))[-1]
        look_up = partial(grounded, stated.units, ask.documents, asked, self.looking_up)
        grounds = await self.in_thread(look_up)
        if self.plan.documents_judged_by == "nli":
            table = await self.scores.table(await self.in_thread(grounds.pairs))
            grounds = grounds.judged(table.scores)
        return replace(parts, units=grounds.units[:most], grounded=grounds.share)

    async def _make(self, subject: Subject) -> Callable[[PairTable], Parts] | Parts:
        """A function from scores of pairs to the parts, or these where nothing is compared."""
        ask, most, samples = self.plan.ask, self.limits.max_units, subject.other_texts
        claims = [(claim.text, claim.quotes) for claim in ask.claims or ()]
        stated = await self.in_thread(
            split,
            subject.answer,
            ask.units,
            max_units=most,
            tools=ask.tools,
            schema=ask.json_schema,
            claims=claims,
        )
        if ask.units == "fields":
            beside = await self.in_thread(stated.fields_beside, samples, most, self.steps)
            if beside is None:
                return stated
            return lambda table: beside(table.similarity_of_values())
        ends: dict[str, list[int]] | None = None
        if self.nli is not None:
            read = list(dict.fromkeys([*(unit.text for unit in stated.units), *samples]))
            ends = dict(zip(read, await self.nli.token_ends(read), strict=True))
        made = await self.in_thread(Statements, stated, samples, ends, ask.tools)
        check_pairs(ask, made.num_pairs, self.limits)
        self.scores.num_tokens |= made.num_tokens
        return made.parts
