"""The one path of an ask: plan, check, cache or workers, statistics, scores, judgement."""

import asyncio
import time
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from app.scoring.ask import Ask
from app.scoring.calibrators import ServedCalibrator
from app.scoring.capabilities import Capability, capabilities
from app.scoring.check import check
from app.scoring.computation import LONG_TEXTS, SHORT_TEXTS, Computation, thread_for
from app.scoring.deployment import UNBOUNDED, AskLimits, Deployment, models_of
from app.scoring.derive import Evidence
from app.scoring.entries import decode
from app.scoring.judging import Judgement, judge
from app.scoring.memory import Memory
from app.scoring.observer import Observer
from app.scoring.parts import PartsOfAnswer
from app.scoring.plan import Plan
from app.scoring.planning import available_statistics, make_plan
from app.scoring.resampling import confidence_interval
from app.scoring.result import STAGES, Result, Source
from app.scoring.units import Scored, scored, with_readings
from models.calibration import Calibrator
from models.errors import ChatTemplateError
from models.estimators import ESTIMATORS
from models.records import OnToken, ProbeReading, Sequence, Token
from models.threads import ModelThread
from models.units.parts import Parts
from models.warnings import Warned
from workers.admission import Admission, Turn
from workers.calling import in_time
from workers.config import WorkerConfig
from workers.protocol import Workers

_OF_OTHERS = "estimators"  # which may take long; ours take less than handing them to a thread


def _threads() -> dict[str, ModelThread]:
    """A thread for each kind of pure work that takes long, so that none waits for another kind."""
    return {name: ModelThread(name) for name in (_OF_OTHERS, SHORT_TEXTS, LONG_TEXTS)}


@dataclass(frozen=True, slots=True)
class Policy:
    """A deployment's limits, calibrator, and ways with an answer that does not pass."""

    limits: AskLimits = UNBOUNDED
    calibrator: Calibrator | None = None
    # An answer to a prompt unlike those of the calibrator never passes.
    rejects_foreign: bool = True
    # System messages that a chat template refuses or leaves out go before the first user message.
    merges_system: bool = True
    # Tools that a chat template does not take are left out, where none must be called.
    leaves_out_tools: bool = False


@dataclass(eq=False)
class Scorer:
    """Carries asks through workers under one admission limit, each under its own deadline."""

    workers: Workers
    admission: Admission
    memory: Memory | None = None
    policy: Policy = field(default_factory=Policy)
    observer: Observer = field(default_factory=Observer)
    threads: Mapping[str, ModelThread] = field(default_factory=_threads)

    def __post_init__(self) -> None:
        models, calibrator = models_of(self.workers), self.policy.calibrator
        self.calibrator = ServedCalibrator(calibrator, models, self.observer)

    @property
    def watched(self) -> Mapping[str, ModelThread]:
        """The threads that may hang. Work on texts ends by its own bounds, and is not watched."""
        return {_OF_OTHERS: self.threads[_OF_OTHERS]}

    @property
    def num_waiting(self) -> int:
        return self.admission.num_waiting + self.workers.generator.num_waiting

    def deployment(self) -> Deployment:
        """All beside an ask that decides whether it is possible, and what its scores mean."""
        models, policy = models_of(self.workers), self.policy
        calibrator = self.calibrator.of(models)
        return Deployment(models, policy.limits, calibrator)

    def capabilities(self, config: WorkerConfig) -> dict[str, Capability]:
        """What this deployment can do beyond answering, by name."""
        return capabilities(config, models_of(self.workers), self.calibrator)

    def passing_nothing(self) -> list[str]:
        """Target errors at which nothing passes here, in words."""
        return self.calibrator.passing_nothing(models_of(self.workers))

    def available_statistics(self, ask: Ask) -> frozenset[str]:
        """Statistics that can be known of an ask here."""
        return available_statistics(ask, self.deployment())

    async def run(self, ask: Ask, on_token: OnToken | None = None) -> Result:
        """The result of an ask; run again in a way that a template takes which has refused it.

        Raises:
            CocoaError: see `models.errors`; each way in which an ask can end without a result.
        """
        try:
            return await self._run(ask, on_token)
        except ChatTemplateError as error:
            return await self._run_otherwise(ask, on_token, error)

    async def _run_otherwise(
        self, ask: Ask, on_token: OnToken | None, error: ChatTemplateError
    ) -> Result:
        """The result of an ask that a template has refused, without what it refuses."""
        refuses_tools = error.field == "tools"
        if refuses_tools and self.policy.leaves_out_tools and not ask.requires_call:
            return await self.run(ask.without_tools(), on_token)
        merged = ask.with_system_merged()
        if refuses_tools or merged is None or not self.policy.merges_system:
            raise error
        with suppress(ChatTemplateError):  # of no other message than it refused before
            return await self.run(merged, on_token)
        raise error

    async def _run(self, ask: Ask, on_token: OnToken | None) -> Result:
        """Answer, or score a given answer.

        `on_token` is called on the event loop with each token of the answer as it is written; their
        texts join to the answer's. One that was not written for this ask alone comes as a whole.
        """
        began_at = time.monotonic()
        deployment = self.deployment()
        plan = make_plan(ask, deployment)
        async with in_time(ask.timeout_s):
            await self._check(plan, deployment, is_streamed=on_token is not None)
            memory = None
            if ask.cache and not ask.echo:
                memory = self.memory
            work = Computation(plan, deployment, self.workers, self.threads, memory, self.observer)
            evidence, source = await self._obtain(work, on_token)
            if on_token is not None and source != "computed":
                _stream_whole(evidence.subject.answer, on_token)
            parts, parts_s = Parts(), 0.0
            if work.parts is not None:
                parts, parts_s = await _compared(work.parts, evidence)
            if evidence.subject.is_reasoned:
                is_reasoned = evidence.subject.answer.reasoning is not None
                plan = plan.for_reasoned(answer=is_reasoned)
            scored_at = time.monotonic()
            scoring = await self._score(plan, evidence, parts)
            judgement = await self._judge(plan, work, evidence, scoring, source)
            score_s = time.monotonic() - scored_at
        result = Result(
            plan=plan,
            evidence=evidence,
            scores=scoring.scores,
            reasons=scoring.reasons,
            units=scoring.units,
            source=source,
            judgement=judgement,
            similarity_scorer=deployment.models.similarity_scorers[plan.similarity],
            nli=deployment.models.nli,
            generator=deployment.models.generator,
            stage_s=_stages(evidence, parts_s, score_s),
            total_s=time.monotonic() - began_at,
            name=work.name,
        )
        # Once the caller has it.
        asyncio.get_running_loop().call_soon(self.observer.observe_result, result)
        return result

    def standing(self) -> tuple[Any, ...]:
        """All that decides a result beside its ask and what the cache holds."""
        return models_of(self.workers), self.calibrator.shifted

    async def again(self, earlier: Result, began_at: float) -> Result:
        """An earlier result from the cache as it is now."""
        stage_s, total_s = dict.fromkeys(STAGES, 0.0), time.monotonic() - began_at
        result = replace(earlier, stage_s=stage_s, total_s=total_s)
        asyncio.get_running_loop().call_soon(self.observer.observe_result, result)
        return result

    async def _check(self, plan: Plan, deployment: Deployment, *, is_streamed: bool) -> None:
        """Refuse what is not possible here; texts that came with the ask are read on a thread."""
        checking = partial(check, plan, deployment, is_streamed=is_streamed)
        if not (given := plan.given_texts):
            checking()
            return
        thread = self.threads[thread_for(given)]
        await asyncio.get_running_loop().run_in_executor(thread, checking)

    async def _obtain(self, work: Computation, on_token: OnToken | None) -> tuple[Evidence, Source]:
        """The evidence, from the cache or computed, and its source.

        Only complete evidence is ever put into the cache.
        """
        plan, memory = work.plan, work.memory
        admit = self.admission.admit
        if plan.ask.in_background:
            admit = self.admission.admit_item
        turn: Turn = partial(admit, plan.ask.caller.name, plan.num_rows)
        if plan.ask.is_admitted:
            turn = _begun
        is_new_each_time = plan.strategy == "sample" and plan.ask.sampling.seed is None
        if memory is None or is_new_each_time:
            return await work.computed(turn, plan.ask.timeout_s, on_token), "computed"
        # An ask that returns more, or draws more, needs more computed.
        wanted = plan.statistics, plan.ask.sampling.num_samples
        entry, read = partial(work.entry, turn, on_token), partial(decode, plan=plan)
        return await memory.get_or_compute(work.name, wanted, read, entry)

    async def _score(self, plan: Plan, evidence: Evidence, parts: Parts) -> Scored:
        work = partial(scored, plan, evidence, parts, self.observer.observe_failure)
        ask = plan.ask
        if ask.units is None and ESTIMATORS.keys() >= set(plan.estimators):
            return work()
        kind = LONG_TEXTS
        if ask.units is None:
            kind = _OF_OTHERS
        return await asyncio.get_running_loop().run_in_executor(self.threads[kind], work)

    async def _judge(
        self, plan: Plan, work: Computation, evidence: Evidence, scoring: Scored, source: Source
    ) -> Judgement:
        answer, generation = evidence.subject.answer, evidence.generation
        readings: Mapping[str, ProbeReading] = {}
        warned: set[Warned] = set()
        if generation is not None:
            readings = generation.probe_readings
            warned.update(generation.warnings)
        if not self.policy.rejects_foreign:
            warned.discard(Warned.PROMPT_OUT_OF_DOMAIN)
        if evidence.subject.withheld:
            warned.add(Warned.SAMPLES_LEFT_OUT)
        # Its models may have been replaced meanwhile.
        if plan.calibrator is not None and self.calibrator.of(models_of(self.workers)) is None:
            plan = replace(plan, calibrator=None)
        judged = partial(judge, plan, scoring, answer, readings=readings, warned=warned)
        if work.parts is None:
            judgement = judged()
        else:
            judgement = await work.parts.in_thread(judged, steps=work.parts.steps)
        if plan.ask.explain and judgement.confidence is not None:
            judgement = await self._bounded(plan, evidence, judgement)
        if (observed := judgement.observed) is None:
            return judgement
        has_shifted = self.calibrator.observe(plan.ask, observed, is_new=source == "computed")
        return replace(judgement, has_shifted=has_shifted)

    async def _bounded(self, plan: Plan, evidence: Evidence, judgement: Judgement) -> Judgement:
        """The judgement with the interval of its confidence, which takes some ten milliseconds."""
        work, loop = partial(confidence_interval, plan, evidence), asyncio.get_running_loop()
        interval = await loop.run_in_executor(self.threads[LONG_TEXTS], work)
        return replace(judgement, interval=interval)


def _begun() -> AbstractAsyncContextManager[float]:
    """The turn of an ask whose request has had its own."""
    return nullcontext(0.0)


async def _compared(work: PartsOfAnswer, evidence: Evidence) -> tuple[Parts, float]:
    """The parts with their support and readings, and the seconds that comparing took."""
    began_at, generation = time.monotonic(), evidence.generation
    parts = await work.compared(evidence.subject)
    if work.plan.ask.documents is not None:
        parts = await work.beside_documents(evidence.subject.answer, parts)
    if generation is not None and generation.sentence_readings:
        parts = with_readings(parts, dict(generation.sentence_readings))
    return parts, time.monotonic() - began_at


def _stream_whole(answer: Sequence, on_token: OnToken) -> None:
    """Stream an answer, as one token, that was not written for this ask alone."""
    if answer.reasoning is not None:
        on_token(Token("", reasoning=answer.reasoning.text))
    on_token(Token(answer.text))


def _stages(evidence: Evidence, parts_s: float, score_s: float) -> dict[str, float]:
    """Seconds of each stage; 0 for one that was not taken."""
    queue_s = generate_s = 0.0
    if evidence.generation is not None:
        queue_s, generate_s = evidence.generation.queue_s, evidence.generation.generate_s
    spent_s = queue_s, generate_s, evidence.similarity_s + parts_s, score_s
    return dict(zip(STAGES, spent_s, strict=True))
