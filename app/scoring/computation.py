"""One ask through the workers: a generation, the questions about it, and what they show."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from app.scoring.ask import Ask
from app.scoring.claims import Split
from app.scoring.derive import Computed, Replies, TrueFalse, derive
from app.scoring.drawing import drawn_on, next_wave, recorded_wave, too_few
from app.scoring.entries import statistics_name
from app.scoring.explaining import all_agree
from app.scoring.limits import AskLimits, check_relevance
from app.scoring.memory import Memory
from app.scoring.observer import Observer
from app.scoring.pairs import PairScores
from app.scoring.plan import Plan
from app.scoring.questions import (
    FALSE,
    TRUE,
    Subject,
    choose,
    generation_request,
    question_of,
    questions,
    read_by_token,
    subject_of,
)
from app.scoring.statements import Statements, as_split, spans_of, stated_claims, stated_sentences
from app.scoring.units import Fields, Parts, unknown_pairs
from models.errors import PromptTooLong
from models.records import (
    Array,
    Generation,
    GenerationRequest,
    OnToken,
    Pair,
    Token,
)
from models.similarity.pairs import (
    PairTable,
    answer_pairs,
    answer_relation,
    matrix_pairs,
    similarity_matrix,
)
from models.threads import ModelThread
from models.units.steps import Steps
from models.waves import num_taken
from workers.protocol import PairScore, Workers

Found = TypeVar("Found")

# What is charged for work that no model does: texts that came with an ask, and fields compared.
_CHARACTERS_A_TOKEN = 4
_STEPS_A_TOKEN = 1000


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a generator said earlier of one prompt, and of its own answers.

    Attributes:
        statistics: that the generator was asked for.
        true_false: compared text of each distinct answer to what the model said of it; empty where
            it was not asked.
        pairs: scores by identity of the comparer, which asks of the same recording share.
    """

    generation: Generation
    statistics: frozenset[str]
    true_false: Mapping[str, TrueFalse] = field(default_factory=dict)
    pairs: dict[str, dict[Pair, PairScore]] = field(default_factory=dict)


class Computation:
    """What one ask costs the models.

    Attributes:
        plan, ask: what is wanted.
        recorded: what the generator said earlier; it is not asked then.
        name: of the entry in a cache, by the weights that were there at the start; "" without.
        steps: that comparing its fields may take.

    Args:
        plan, ask, recorded: see above.
        workers: that are asked.
        thread: where the parts of answers are made and compared.
        memory: of pairs; None where none may serve.
        observer: told of pairs.
        limits: of pairs; None bounds none.
    """

    def __init__(
        self,
        plan: Plan,
        ask: Ask,
        workers: Workers,
        thread: ModelThread,
        memory: Memory | None,
        observer: Observer,
        limits: AskLimits | None = None,
        recorded: Recorded | None = None,
    ) -> None:
        self.plan = plan
        self.ask = ask
        self.steps = Steps()
        self._thread = thread
        self._generator = workers.generator
        self._info = workers.generator.info
        self._comparer = workers.comparers[plan.similarity]
        pairs = {} if recorded is None else recorded.pairs
        known = pairs.setdefault(self._comparer.info.identity, {})
        self._similarity = PairScores(self._comparer, ask, memory, observer, limits, known=known)
        self._nli: PairScores | None = None
        self._nli_model = nli = workers.nli
        nli_info = None
        if nli is not None and plan.asks("nli"):
            known = pairs.setdefault(nli.info.identity, {})
            self._nli = PairScores(nli, ask, memory, observer, limits, nli.token_ends, known)
            nli_info = self._nli.info
        self._limits = limits
        self._max_units = (limits or AskLimits()).max_units
        self._made: Fields | Statements | None = None
        self.recorded = recorded
        self._generator_is_current = True
        self._compared_s = 0.0  # while samples were drawn
        # Whether the number of samples depends on what `name` does not have.
        self._has_unnamed = False
        self.name = ""
        if memory is not None:
            self.name = statistics_name(plan, ask, self._info, self._similarity.info, nli_info)
        self._check_given()

    @property
    def is_current(self) -> bool:
        """Whether every reply came from the weights that were there at the start."""
        nli_is_current = self._nli is None or self._nli.is_current
        return self._generator_is_current and self._similarity.is_current and nli_is_current

    @property
    def may_be_remembered(self) -> bool:
        """Whether all that it came from is part of its name."""
        return self.is_current and not self._has_unnamed

    async def generate(
        self, timeout_s: float | None, on_token: OnToken | None = None
    ) -> Generation | None:
        """Answer and samples, charged to the caller; None where no model is asked.

        Args:
            timeout_s: that the generator may take.
            on_token: told of each token of y*.

        Raises:
            InvalidRequest: fewer samples were recorded than are wanted.
            CocoaError: see `Generator.generate`.
        """
        began_at = time.monotonic()
        if self.plan.parts_compared_by and self.ask.answer is not None and self.ask.samples:
            self._parts_scores.check(await self._pairs_of_parts(subject_of(self.ask, None)))
            self._made = None  # which tokens they have, the model tells
        if self.recorded is not None:
            return await self._as_recorded(self.recorded.generation)
        if not self.ask.has_prompt:
            self.ask.caller.charge(_num_characters(self.ask) // _CHARACTERS_A_TOKEN)
            return None
        request = generation_request(self.ask, self.plan.generated, timeout_s)
        # Of other strategies nobody knows yet which sequence is y*; `check_streamed` refuses them.
        request = replace(request, streamed=int(self.plan.strategy == "sample"))
        cost = 0

        def tell(token: Token) -> None:
            nonlocal cost
            cost += 1
            if on_token is not None:
                on_token(token)

        try:
            generation = await self._generator.generate(request, on_token and tell)
            cost = generation.prompt_tokens
            for one in (generation.answer, *generation.samples):
                cost += one.num_written
        finally:  # of a stream that was given up what it has told
            self.ask.caller.charge(cost)
        self._generator_is_current &= generation.identity == self._info.identity
        if request.sampling.stop_mass is None:
            return generation

        async def draw(drawn: Generation) -> Generation:
            left_s = None
            if timeout_s is not None:
                left_s = max(0.0, timeout_s - (time.monotonic() - began_at))
            wave = await self._generator.generate(next_wave(request, drawn, left_s))
            self.ask.caller.charge(sum(one.num_written for one in wave.samples))
            return wave

        return await drawn_on(request, generation, self._agree, draw)

    async def evidence(self, generation: Generation | None) -> Computed:
        """Every statistic of the plan, or its reason.

        Raises:
            InvalidRequest: the generated texts make more pairs than the limits allow.
            CocoaError: a worker failed.
        """
        began_at = time.monotonic()
        plan, rules = self.plan, self._similarity.rules
        subject = subject_of(self.ask, generation)
        matrix: PairTable | None = None
        if plan.strategy == "mbr":
            matrix = await self._similarity.table(matrix_pairs(subject.texts, rules))
        subject = choose(plan.strategy, subject, matrix)
        contexts: list[str] = []
        if sequences := read_by_token(plan, subject):
            by_token = [sequence.token_texts or () for sequence in sequences]
            question = question_of(self.ask)
            followed = [(question, "".join(texts)) for texts in by_token]
            contexts = await self._comparer.fit_contexts(followed)
            if self._limits is not None:
                check_relevance(contexts, by_token, self._limits)
        asked = questions(plan, self.ask, subject, contexts, rules)
        similarity_pairs, nli_pairs = list(asked.similarity), list(asked.nli)
        # Pairs of parts go in one batch with the others.
        if plan.parts_compared_by == "similarity":
            similarity_pairs += await self._pairs_of_parts(subject)
        elif plan.parts_compared_by == "nli":
            nli_pairs += await self._pairs_of_parts(subject)
        asking: dict[str, Awaitable[Any]] = {"similarity": self._similarity.table(similarity_pairs)}
        if self._nli is not None:
            asking["nli"] = self._nli.table(nli_pairs)
        if asked.true_false is not None:
            asking["true_false"] = self._true_false(asked.true_false, subject.answer.compared_text)
        replied = dict(zip(asking, await asyncio.gather(*asking.values()), strict=True))
        evidence = derive(plan, subject, generation, asked, Replies(**replied))
        return Computed(generation, evidence, time.monotonic() - began_at + self._compared_s)

    async def parts(self, subject: Subject, split: Split | None = None) -> Parts:
        """The parts of the answer; pairs that are not remembered are asked.

        Args:
            subject: with its y* chosen.
            split: the claims of the answer, where a model was asked for them.

        Raises:
            InvalidRequest: the texts make more pairs than the limits allow.
            CocoaError: a worker failed.
        """
        pairs = await self._pairs_of_parts(subject, split)
        if self._made is None:
            return Parts()
        table = await self._parts_scores.table(pairs)
        parts = await self.aside(self._made.parts, table)
        self.ask.caller.charge(self.steps.num_taken // _STEPS_A_TOKEN)
        return parts

    async def aside(self, work: Callable[..., Found], *args: Any) -> Found:
        """What pure work on parts returns, on its thread; once nobody awaits it, its steps end."""
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._thread, work, *args)
        except asyncio.CancelledError:
            self.steps.end()
            raise

    @property
    def _parts_scores(self) -> PairScores:
        """Of what compares parts."""
        if self._nli is not None and self.plan.parts_compared_by == "nli":
            return self._nli
        return self._similarity

    async def _pairs_of_parts(self, subject: Subject, split: Split | None = None) -> list[Pair]:
        """What is compared for the parts of the answer, if they are known by now.

        One without an end has none.
        """
        if subject.answer.no_answer or (self.ask.splits_claims and split is None):
            return []
        if self._made is None:
            self._made = await self._make_parts(subject, split)
        rules = self._parts_scores.rules.of_values()
        if isinstance(self._made, Statements):
            rules = rules.of_texts_alone()
        return await self.aside(unknown_pairs, self._made.pairs, rules)

    async def _make_parts(self, subject: Subject, split: Split | None) -> Fields | Statements:
        """The parts of the answer, which are not compared yet; those of long ones take a second.

        Raises:
            InvalidRequest: statements make more pairs than an ask may have.
        """
        if self.ask.units == "fields":
            schema, tools = self.ask.json_schema, self.ask.tools
            return await self.aside(Fields, subject, schema, self._max_units, tools, self.steps)
        samples, most = subject.other_texts, self._max_units
        claims = self.ask.claims if split is None else split.claims
        texts = [subject.answer.text, *samples]
        spans = await self.aside(spans_of, texts, self.ask.tools)
        if claims is not None:
            stated = await self.aside(stated_claims, subject, most, claims)
        else:
            stated = await self.aside(stated_sentences, subject, most, spans)
        if split is not None:
            stated = as_split(stated, split)
        ends: dict[str, list[int]] | None = None
        if self._nli_model is not None and self.plan.parts_compared_by == "nli":
            read = list(dict.fromkeys([*(unit.text for unit in stated.units), *samples]))
            ends = dict(zip(read, await self._nli_model.token_ends(read), strict=True))
        made = await self.aside(Statements, stated, samples, spans, ends, question_of(self.ask))
        if self._nli is not None:
            self._nli.check_number(made.num_pairs)
            self._nli.num_tokens |= made.num_tokens
        return made

    def _check_given(self) -> None:
        """Refuse given texts that make too many pairs, before any work."""
        if self.ask.answer is None or self.ask.samples is None:
            return
        subject = subject_of(self.ask, None)
        contexts = [""] * len(read_by_token(self.plan, subject))
        rules = self._similarity.rules
        asked = questions(self.plan, self.ask, subject, contexts, rules)
        self._similarity.check(asked.similarity)
        if self._nli is not None:
            self._nli.check(asked.nli)

    async def _as_recorded(self, generation: Generation) -> Generation:
        """A recorded generation with as many of its samples as the ask would have drawn."""
        wanted = generation_request(self.ask, self.plan.generated | {"sample_texts"})
        num_samples = num_taken(wanted, generation)
        if num_samples is None:
            raise too_few(generation)

        async def draw(drawn: Generation) -> Generation:
            return recorded_wave(wanted, generation, len(drawn.samples))

        first = replace(generation, samples=generation.samples[:num_samples])
        return await drawn_on(wanted, first, self._agree, draw)

    async def _agree(self, generation: Generation) -> bool:
        """Whether all samples so far mean the same as the answer.

        The scores of pairs that tell it are not asked for again.
        """
        began_at = time.monotonic()
        subject, strategy = subject_of(self.ask, generation), self.plan.strategy
        rules, texts = self._similarity.rules, subject.texts
        statistics: dict[str, Array] = {}
        if strategy == "mbr":
            table = await self._similarity.table(matrix_pairs(texts, rules))
            statistics["similarity_matrix"] = similarity_matrix(texts, table)
        else:
            subject = choose(strategy, subject)
            if subject.answer.no_answer:  # nothing is asked about it
                return False
            answer, others = subject.answer.compared_text, subject.other_texts
            table = await self._similarity.table(answer_pairs(answer, others, rules))
            statistics["similarity"] = answer_relation(answer, others, table, "similarity")
        self._compared_s += time.monotonic() - began_at
        self._has_unnamed |= not statistics.keys() <= self.plan.statistics
        return all_agree(strategy, subject, statistics, len(subject.samples))

    async def _true_false(self, question: GenerationRequest, answer: str) -> TrueFalse:
        """What the model says of its own answer."""
        if self.recorded is not None:
            return self.recorded.true_false[answer]
        try:
            reply = await self._generator.first_token_logprobs(question, (TRUE, FALSE))
        except PromptTooLong:
            return None
        self._generator_is_current &= reply.identity == self._info.identity
        true, false = reply.logprobs
        return true, false


def _num_characters(ask: Ask) -> int:
    """Of the answer and the samples that came with an ask."""
    num_characters = sum(len(sample.text) for sample in ask.samples or ())
    if ask.answer is not None:
        num_characters += len(ask.answer.text)
    return num_characters
