"""The one path of an ask: plan, cache or workers, evidence, scores."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from app.cache.checked import CheckedCache
from app.cache.flight import SingleFlight
from app.cache.protocol import Cache
from app.scoring.ask import Ask, Caller
from app.scoring.deadline import deadline
from app.scoring.entries import decode, encode
from app.scoring.evidence import Evidence
from app.scoring.inquiry import Inquiry
from app.scoring.judging import Judgement, check_asked, is_of_deployment, judge
from app.scoring.limits import AskLimits, check_texts
from app.scoring.plan import (
    Plan,
    available_statistics,
    check_streamed,
    is_repeatable,
    make_plan,
    num_rows,
)
from app.scoring.recorded import Recorded
from app.scoring.result import Computed, Escalation, Result, Source
from app.scoring.shift import ShiftMonitor
from models.calibration import ALL, Calibrator
from models.errors import Forbidden, InvalidRequest
from models.estimators import score
from models.records import DEFAULT_NEW_TOKENS, Generation, OnToken, Token
from models.threads import ModelThread
from workers.admission import Admission
from workers.escalation import EscalationFailed, SecondModel
from workers.protocol import Workers

# Of the time that is left, what a second model may take.
_SHARE_FOR_SECOND = 0.9
# Word overlap of long samples takes a while; the others take less than handing them to a thread.
_SLOW = frozenset({"lexical_similarity"})


# Told on whose behalf how many tokens were computed.
Charge = Callable[[Caller, int], None]


class Observer(Protocol):
    """Who is told what happens, for metrics."""

    def observe_lookup(self, hit: bool) -> None:
        """An ask's statistics were looked up in the cache."""

    def observe_corrupt(self) -> None:
        """An entry of the cache was not what was stored under its name."""

    def observe_joined(self) -> None:
        """An ask shares the work of an identical one under way."""

    def observe_pairs(self, asked: int, cached: int) -> None:
        """Distinct pairs of one ask were looked up, and that many were found."""

    def observe_failure(self, estimator: str, error: Exception) -> None:
        """An estimator failed on what it was given; its score is null, the others are served."""

    def observe_result(self, result: Result) -> None:
        """An ask has its result."""

    def observe_shift(self, group: str, estimator: str, distance: float) -> None:
        """How far the latest scores lie from the reference of their calibration, in [0, 1]."""


class Silence:
    """An `Observer` that tells nobody."""

    def observe_lookup(self, hit: bool) -> None:
        """See `Observer`."""

    def observe_corrupt(self) -> None:
        """See `Observer`."""

    def observe_joined(self) -> None:
        """See `Observer`."""

    def observe_pairs(self, asked: int, cached: int) -> None:
        """See `Observer`."""

    def observe_failure(self, estimator: str, error: Exception) -> None:
        """See `Observer`."""

    def observe_result(self, result: Result) -> None:
        """See `Observer`."""

    def observe_shift(self, group: str, estimator: str, distance: float) -> None:
        """See `Observer`."""


class Scorer:
    """Carries asks through workers under one admission limit, each under its own deadline.

    Attributes:
        workers: that are asked.
        admission: how many asks may be under way.
        thread: where slow estimators run.

    Args:
        workers: ready ones.
        admission: counts those that are computed; what the cache holds is not counted.
        cache: None remembers nothing.
        observer: told what happens.
        limits: of asks; None bounds none, where they are one's own.
        calibrator: says what an uncertainty means.
        second_model: asked where an answer does not pass and the ask says so.
        charge: told who has had how many tokens computed, as soon as they are.
    """

    def __init__(
        self,
        workers: Workers,
        admission: Admission,
        cache: Cache | None = None,
        observer: Observer | None = None,
        limits: AskLimits | None = None,
        calibrator: Calibrator | None = None,
        second_model: SecondModel | None = None,
        charge: Charge | None = None,
    ) -> None:
        self.workers = workers
        self.admission = admission
        self.thread = ModelThread("estimators")
        self._observer = observer or Silence()
        self._limits = limits
        self._cache = None if cache is None else CheckedCache(cache, self._observer.observe_corrupt)
        self._flights: SingleFlight[tuple[Computed, Source]] = SingleFlight()
        self._second_model = second_model
        self._charge = charge
        self._shifts: dict[tuple[str, str], ShiftMonitor] = {}
        self._calibrator = calibrator
        # Of the models for which the calibrator was last checked.
        self._identities = None if calibrator is None else _identities_of(workers, calibrator)
        self._is_theirs = True

    @property
    def calibrator(self) -> Calibrator | None:
        """The calibrator that is served, as long as the workers hold the models that it is of."""
        if self._calibrator is None:
            return None
        if (now := _identities_of(self.workers, self._calibrator)) != self._identities:
            self._identities = now
            self._is_theirs = is_of_deployment(self._calibrator, self.workers)
        return self._calibrator if self._is_theirs else None

    @property
    def num_waiting(self) -> int:
        """Asks that are admitted, and of which nothing has been computed yet."""
        return self.admission.num_waiting + self.workers.generator.num_waiting

    def available_statistics(
        self, ask: Ask, supplied: frozenset[str] | None = None
    ) -> frozenset[str]:
        """What can be known of an ask here.

        Args:
            ask: a prompt, or texts.
            supplied: by what was recorded; None for what the generator supplies.
        """
        if supplied is None:
            supplied = self.workers.generator.info.statistics
        return available_statistics(ask, supplied, has_nli=self.workers.nli is not None)

    def plan(self, ask: Ask, supplied: frozenset[str] | None = None) -> Plan:
        """What an ask needs computed; see `available_statistics` for the arguments.

        Raises:
            InvalidRequest: it cannot be done here, or exceeds a limit.
            Forbidden: who asks may not ask for it.
        """
        if (mode := "light" if ask.light else "full") not in ask.caller.modes:
            raise Forbidden(f"this key may not ask for mode {mode}", field="light")
        comparers = self.workers.comparers
        if ask.similarity is not None and ask.similarity not in comparers:
            names = ", ".join(sorted(comparers))
            raise InvalidRequest(f"must be one of {names}", field="similarity")
        available = self.available_statistics(ask, supplied)
        absent = self.workers.generator.info.absent if supplied is None else {}
        plan = make_plan(ask, available, self.workers.default_similarity, absent)
        if self._limits is not None:
            by_sentence = comparers[plan.similarity].info.is_by_sentence
            by_sentence = by_sentence and plan.reads("similarity")
            check_texts(ask, self._limits, by_sentence=by_sentence)
        check_asked(ask, plan, self.calibrator)
        if ask.on_reject == "escalate" and self._second_model is None:
            message = "no second model is set: see COCOA_ESCALATION__URL"
            raise InvalidRequest(message, field="on_reject")
        return plan

    async def run(
        self, ask: Ask, recorded: Recorded | None = None, on_token: OnToken | None = None
    ) -> Result:
        """Answer, or score a given answer, or what was recorded earlier.

        Args:
            ask: what is wanted.
            recorded: what the generator said earlier.
            on_token: called on the event loop with each token of the answer as it is written; their
                texts join to the answer's. One that was not written for this ask alone comes whole.

        Raises:
            CocoaError: see `models.errors`; every way in which an ask can end without a result.
        """
        started_at = time.monotonic()
        plan = self.plan(ask, None if recorded is None else recorded.statistics)
        if on_token is not None:
            check_streamed(ask, plan)
        workers = self.workers
        async with deadline(ask.timeout_s):
            computed, source = await self._obtain(plan, ask, recorded, on_token)
            if on_token is not None and source != "computed":
                on_token(Token(computed.evidence.subject.answer.text))
            scored_at = time.monotonic()
            absent = self._absent(ask, computed.evidence)
            scores, reasons = await self._score(plan.estimators, computed.evidence, absent)
            uncertainty = scores[plan.primary]
            judgement = judge(ask, plan, self.calibrator, uncertainty)
            now = time.monotonic()
            escalation = await self._escalate(ask, judgement, now - started_at)
        result = Result(
            ask=ask,
            plan=plan,
            computed=computed,
            scores=scores,
            reasons=reasons,
            source=source,
            comparer=workers.comparers[plan.similarity].info,
            nli=None if workers.nli is None else workers.nli.info,
            probes=workers.generator.info.probes,
            score_s=now - scored_at,
            total_s=time.monotonic() - started_at,
            judgement=judgement,
            has_shifted=self._has_shifted(ask, plan, judgement, uncertainty, source),
            escalation=escalation,
        )
        self._observer.observe_result(result)
        return result

    async def _escalate(
        self, ask: Ask, judgement: Judgement, elapsed_s: float
    ) -> Escalation | None:
        """What a second model answers, where the first one's answer does not pass."""
        decision = judgement.decision
        if decision is None or decision.accept or ask.on_reject != "escalate":
            return None
        if (second := self._second_model) is None:
            return None
        # Where it does not answer in time, the first model's answer still does.
        left_s = None if ask.timeout_s is None else _SHARE_FOR_SECOND * (ask.timeout_s - elapsed_s)
        max_tokens = ask.sampling.max_new_tokens or DEFAULT_NEW_TOKENS
        try:
            text = await second.answer(
                ask.prompt, ask.messages, max_tokens=max_tokens, timeout_s=left_s
            )
        except EscalationFailed as error:
            return Escalation(second.model, error=str(error))
        return Escalation(second.model, text=text)

    def _has_shifted(
        self, ask: Ask, plan: Plan, judgement: Judgement, uncertainty: float | None, source: Source
    ) -> bool:
        """Whether what is served no longer looks like the reference of its calibration."""
        if self.calibrator is None or judgement.confidence is None or uncertainty is None:
            return False
        group = ask.calibration or ALL
        if (key := (group, plan.primary)) not in self._shifts:
            self._shifts[key] = ShiftMonitor(self.calibrator.groups[group][plan.primary])
        monitor = self._shifts[key]
        if source == "computed":  # a popular prompt that is served from the cache counts once
            monitor.observe(uncertainty)
            self._observer.observe_shift(group, plan.primary, monitor.distance)
        return monitor.has_shifted

    async def _obtain(
        self, plan: Plan, ask: Ask, recorded: Recorded | None, on_token: OnToken | None
    ) -> tuple[Computed, Source]:
        """What the cache holds for an ask, or what is computed, and which of the two it was.

        Only what is complete is ever put into the cache.
        """
        namespace = ask.caller.namespace
        cache = self._cache.of(namespace) if ask.cache and self._cache is not None else None
        inquiry = Inquiry(
            plan,
            ask,
            self.workers,
            cache=cache,
            on_pairs=self._observer.observe_pairs,
            recorded=recorded,
            limits=self._limits,
        )
        inquiry.check_given()
        is_own = recorded is not None or ask.hidden_layers or not is_repeatable(ask, plan)
        if cache is None or is_own:
            return await self._compute(inquiry, ask.timeout_s, on_token), "computed"
        key = inquiry.key

        def read(entry: bytes) -> Computed | None:
            return decode(entry, plan, ask)

        [remembered] = await cache.look_up([key], read)
        self._observer.observe_lookup(remembered is not None)
        if remembered is not None:
            return remembered, "cache"

        async def compute() -> tuple[Computed, Source]:
            # Other gateways compute the same: what one of them is at is waited for.
            if (theirs := await cache.wait_for_others(key, read)) is not None:
                self._observer.observe_joined()
                return theirs, "joined"
            async with cache.keeping(key):
                # Each who waits for shared work has a deadline; it ends when the last has left.
                computed = await self._compute(inquiry, None, on_token)
                if inquiry.is_current:
                    cache.put({key: encode(computed)})
                return computed, "computed"

        # An ask that returns more, or draws more, needs more computed.
        flight = namespace, key, plan.statistics, ask.sampling.num_samples, ask.sampling.stop_mass
        if flight not in self._flights:
            return await self._flights.run(flight, compute)
        self._observer.observe_joined()
        computed, _ = await self._flights.run(flight, compute)
        return computed, "joined"

    async def _compute(
        self, inquiry: Inquiry, timeout_s: float | None, on_token: OnToken | None
    ) -> Computed:
        ask = inquiry.ask
        rows = num_rows(ask, inquiry.plan)
        async with self.admission.admit(ask.caller.name, rows) as waited_s:
            generation = await self._generate(inquiry, timeout_s, on_token)
            if generation is not None:
                generation = replace(generation, queue_s=generation.queue_s + waited_s)
            generated_at = time.monotonic()
            evidence = await inquiry.evidence(generation)
            return Computed(generation, evidence, time.monotonic() - generated_at)

    async def _generate(
        self, inquiry: Inquiry, timeout_s: float | None, on_token: OnToken | None
    ) -> Generation | None:
        """What the generator says, charged to who asked; of a stream given up what it has told."""
        if self._charge is None:
            return await inquiry.generate(timeout_s, on_token)
        cost = 0

        def tell(token: Token) -> None:
            nonlocal cost
            cost += 1
            if on_token is not None:
                on_token(token)

        try:
            generation = await inquiry.generate(timeout_s, None if on_token is None else tell)
            cost = 0 if generation is None else num_tokens(generation)
            return generation
        finally:
            self._charge(inquiry.ask.caller, cost)

    def _absent(self, ask: Ask, evidence: Evidence) -> dict[str, str]:
        """Why statistics are missing: of this ask, or of all that the generator is asked."""
        is_asked = ask.has_prompt and ask.answer_token_logprobs is None
        return {**(self.workers.generator.info.absent if is_asked else {}), **evidence.absent}

    async def _score(
        self, names: Sequence[str], evidence: Evidence, absent: Mapping[str, str]
    ) -> tuple[dict[str, float | None], dict[str, str]]:
        given = names, evidence.statistics, absent, self._observer.observe_failure
        if _SLOW.isdisjoint(names):
            return score(*given)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.thread, score, *given)


def _identities_of(workers: Workers, calibrator: Calibrator) -> tuple[str | None, ...]:
    """Of the models that it is bound to; they change where a worker comes back with others."""
    comparer, nli = workers.comparers.get(calibrator.binding.similarity), workers.nli
    return (
        workers.generator.info.identity,
        None if comparer is None else comparer.info.identity,
        None if nli is None else nli.info.identity,
    )


def num_tokens(generation: Generation) -> int:
    """What a generation has read and written: the prompt, the answer and the samples."""
    sampled = sum(sample.num_tokens for sample in generation.samples)
    return generation.prompt_tokens + generation.answer.num_tokens + sampled
