"""The one path of an ask: plan, cache or workers, statistics, scores."""

import asyncio
import time
from collections.abc import Collection, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from app.scoring.ask import PARTS, Ask
from app.scoring.calibrators import served_models
from app.scoring.claims import Split
from app.scoring.computation import Computation, Recorded
from app.scoring.decisions import Judgement, UnitsJudgement
from app.scoring.derive import Computed, Evidence
from app.scoring.entries import decode, encode
from app.scoring.generator_checks import check_generator, fitted_to
from app.scoring.judging import Judge, check_asked
from app.scoring.limits import AskLimits, check_escalation, check_texts
from app.scoring.memory import Memory
from app.scoring.observer import Observer
from app.scoring.plan import (
    Plan,
    available_statistics,
    check_modes,
    check_streamed,
    for_reasoned,
    make_plan,
)
from app.scoring.questions import num_rows
from app.scoring.result import STAGES, Escalation, Result, Source
from app.scoring.splitting import split
from app.scoring.unit_judging import check_units_asked, judge_units
from app.scoring.units import Parts, ScoredUnits, as_read, scored_units
from models.calibration import Calibrator
from models.errors import EscalationFailed, InvalidRequest
from models.estimators import score
from models.records import DEFAULT_NEW_TOKENS, SAMPLES_LEFT_OUT, OnToken, ProbeReading, Token
from models.statistics import ANSWER_STATISTICS
from models.threads import ModelThread
from models.units.unit import PREDICTED
from workers.admission import Admission
from workers.calling import in_time
from workers.protocol import Workers

if TYPE_CHECKING:
    from workers.escalation import SecondModel

_NO_PROBE = "no probe of whole answers is loaded for this model"
# Of the time that is left, what a second model may take.
_SHARE_FOR_SECOND = 0.9
# Word overlap of long samples takes a while; the others take less than handing them to a thread.
_SLOW = frozenset({"lexical_similarity"})
_ESTIMATORS, _PARTS = "estimators", "parts"


@dataclass(frozen=True, slots=True)
class Policy:
    """What a deployment allows, promises, and does with an answer that does not pass.

    Attributes:
        limits: of asks; None bounds none, where they are one's own.
        calibrator: says what an uncertainty means.
        second_model: asked where an answer does not pass and the ask says so.
        rejects_foreign: whether an answer to a prompt unlike those of the calibrator never passes.
    """

    limits: AskLimits | None = None
    calibrator: Calibrator | None = None
    second_model: "SecondModel | None" = None
    rejects_foreign: bool = True


class Scorer:
    """Carries asks through workers under one admission limit, each under its own deadline.

    Attributes:
        workers: that are asked.
        admission: how many asks may be under way; what the cache holds is not counted.
        memory: of earlier asks; None remembers nothing.
        judge: says what their uncertainties mean.
        threads: by name, those of slow estimators and of parts of answers.

    Args:
        workers: ready ones.
        admission: see above.
        memory: see above.
        policy: of the deployment.
        observer: told what happens.
    """

    def __init__(
        self,
        workers: Workers,
        admission: Admission,
        memory: Memory | None = None,
        policy: Policy | None = None,
        observer: Observer | None = None,
    ) -> None:
        self.workers = workers
        self.admission = admission
        self.threads = {name: ModelThread(name) for name in (_ESTIMATORS, _PARTS)}
        self.memory = memory
        self._policy = policy or Policy()
        self._observer = observer or Observer()
        rejects_foreign = self._policy.rejects_foreign
        self.judge = Judge(
            self._policy.calibrator, workers, self._observer, rejects_foreign=rejects_foreign
        )

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
            info = self.workers.generator.info
            supplied = info.statistics
            if info.no_given and ask.answer is not None:
                supplied = supplied - ANSWER_STATISTICS
        return available_statistics(ask, supplied, has_nli=self.workers.nli is not None)

    def plan(self, ask: Ask, supplied: frozenset[str] | None = None) -> Plan:
        """What an ask needs computed; see `available_statistics` for the arguments.

        Raises:
            InvalidRequest: it cannot be done here, or exceeds a limit.
            Forbidden: who asks may not ask for it.
        """
        check_modes(ask)
        comparers, policy = self.workers.comparers, self._policy
        if ask.similarity is not None and ask.similarity not in comparers:
            names = ", ".join(sorted(comparers))
            raise InvalidRequest(f"must be one of {names}", field="similarity")
        absent: Mapping[str, str] = {}
        if supplied is None:
            absent = self.workers.generator.info.absent
        available = self.available_statistics(ask, supplied)
        plan = make_plan(ask, available, self.workers.default_similarity, absent)
        if policy.limits is not None:
            by_sentence = comparers[plan.similarity].info.is_by_sentence
            by_sentence = by_sentence and plan.reads("similarity")
            check_texts(ask, policy.limits, by_sentence=by_sentence)
        check_generator(ask, plan.estimators, self.workers.generator.info, policy.limits)
        calibrator = self.judge.calibrator()
        if ask.units is not None or ask.on_unit_reject != "keep":
            check_units_asked(ask, plan, calibrator)
        check_asked(ask, plan, calibrator)
        check_escalation(ask, has_second=policy.second_model is not None)
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
        began_at = time.monotonic()
        supplied = None
        if recorded is not None:
            supplied = recorded.statistics
        elif ask.has_prompt:
            ask = fitted_to(ask, self.workers.generator.info)
        plan = self.plan(ask, supplied)
        if on_token is not None:
            check_streamed(ask, plan)
        async with in_time(ask.timeout_s):
            memory = None
            if ask.cache:
                memory = self.memory
            limits, workers = self._policy.limits, self.workers
            thread = self.threads[_PARTS]
            computation = Computation(
                plan, ask, workers, thread, memory, self._observer, limits, recorded
            )
            computed, source = await self._obtain(computation, memory, on_token)
            evidence, answer = computed.evidence, computed.evidence.subject.answer
            if on_token is not None and source != "computed":
                if answer.reasoning is not None:
                    on_token(Token("", reasoning=answer.reasoning.text))
                on_token(Token(answer.text))
            parts, parts_s = Parts(), 0.0
            if ask.units in PARTS:
                claims: Split | None = None
                if ask.splits_claims and not answer.no_answer:
                    asked = workers.generator, memory, limits, partial(self._turn, ask, 1)
                    claims = await split(ask, answer.text, *asked)
                parts_at = time.monotonic()
                parts = await computation.parts(evidence.subject, claims)
                parts = as_read(parts, computed.generation)
                parts_s = time.monotonic() - parts_at
            if evidence.subject.is_reasoned:
                plan = for_reasoned(plan, ask, answer=answer.reasoning is not None)
            scored_at = time.monotonic()
            scores, reasons, units = await self._score(plan, ask, evidence, parts)
            readings: Mapping[str, ProbeReading] = {}
            warned: Collection[str] = ()
            if computed.generation is not None:
                readings = computed.generation.probe_readings
                warned = self.judge.heeded(computed.generation)
            if evidence.subject.withheld:
                warned = {*warned, SAMPLES_LEFT_OUT}
            uncertainty = scores[plan.primary]
            judgement = self.judge.judge(
                ask, plan, answer, readings, uncertainty, source, warned=warned
            )
            of_units: UnitsJudgement | None = None
            if units is not None and ask.units in PARTS:
                judged = ask, plan, self.judge.calibrator(), answer, units, computation.steps
                judge = partial(judge_units, warned=warned)
                of_units = await computation.aside(judge, *judged)
            now = time.monotonic()
            second = self._policy.second_model
            escalation = await _escalation(second, ask, judgement, now - began_at)
        nli = None
        if self.workers.nli is not None:
            nli = self.workers.nli.info
        stage_s = dict.fromkeys(STAGES, 0.0)
        if computed.generation is not None:
            stage_s["queue"] = computed.generation.queue_s
            stage_s["generate"] = computed.generation.generate_s
        stage_s["similarity"], stage_s["score"] = computed.similarity_s + parts_s, now - scored_at
        result = Result(
            ask=ask,
            plan=plan,
            generation=computed.generation,
            evidence=evidence,
            scores=scores,
            reasons=reasons,
            units=units,
            source=source,
            judgement=judgement,
            units_judgement=of_units,
            escalation=escalation,
            comparer=self.workers.comparers[plan.similarity].info,
            nli=nli,
            probes=self.workers.generator.info.probes,
            stage_s=stage_s,
            total_s=time.monotonic() - began_at,
            name=computation.name,
            payload=computed.payload,
        )
        # Once whoever asked has it.
        asyncio.get_running_loop().call_soon(self._observer.observe_result, result)
        return result

    def standing(self) -> tuple[Any, ...]:
        """All that decides a result beside its ask and what the cache holds."""
        return *served_models(self.workers), *self.judge.standing()

    async def again(self, earlier: Result, began_at: float) -> Result:
        """An earlier result from the cache as it is now.

        Args:
            earlier: of the same ask, of an entry that the cache still has, and of the standing that
                this scorer has.
            began_at: monotonic second of the ask.
        """
        stage_s, total_s = dict.fromkeys(STAGES, 0.0), time.monotonic() - began_at
        result = replace(earlier, stage_s=stage_s, total_s=total_s)
        asyncio.get_running_loop().call_soon(self._observer.observe_result, result)
        return result

    async def _obtain(
        self, computation: Computation, memory: Memory | None, on_token: OnToken | None
    ) -> tuple[Computed, Source]:
        """What the cache holds for an ask, or what is computed, and which of the two it was.

        Only what is complete is ever put into the cache.
        """
        plan, ask = computation.plan, computation.ask
        # An answer that is drawn without a seed is another one each time.
        is_new = plan.strategy == "sample" and ask.sampling.seed is None
        if memory is None or computation.recorded is not None or ask.hidden_layers or is_new:
            return await self._compute(computation, ask.timeout_s, on_token), "computed"

        async def compute() -> tuple[Computed, bytes | None]:
            # Each who waits for shared work has a deadline; it ends when the last has left.
            computed = await self._compute(computation, None, on_token)
            if not computation.may_be_remembered:
                return computed, None
            return computed, encode(computed)

        read = partial(decode, plan=plan, ask=ask)
        # An ask that returns more, or draws more, needs more computed.
        wanted = plan.statistics, ask.sampling.num_samples, ask.sampling.stop_mass
        return await memory.get_or_compute(computation.name, wanted, read, compute)

    async def _compute(
        self, computation: Computation, timeout_s: float | None, on_token: OnToken | None
    ) -> Computed:
        ask = computation.ask
        async with self._turn(ask, num_rows(ask, computation.plan)) as waited_s:
            generation = await computation.generate(timeout_s, on_token)
            if generation is not None and waited_s:
                generation = replace(generation, queue_s=generation.queue_s + waited_s)
            return await computation.evidence(generation)

    def _turn(self, ask: Ask, num_rows: int) -> AbstractAsyncContextManager[float]:
        """A place of the admission; tells the seconds that it was waited for."""
        admit = self.admission.admit
        if ask.in_background:
            admit = self.admission.admit_item
        return admit(ask.caller.name, num_rows)

    async def _score(
        self, plan: Plan, ask: Ask, evidence: Evidence, parts: Parts
    ) -> tuple[dict[str, float | None], dict[str, str], ScoredUnits | None]:
        """Scores of the answer, reasons for those that it lacks, and its units where wanted."""
        # Why statistics are missing: of all that the generator is asked, or of this ask.
        absent: Mapping[str, str] = evidence.absent
        if ask.has_prompt and ask.answer_token_logprobs is None:
            info = self.workers.generator.info
            absent = {PREDICTED: _NO_PROBE, **info.absent, **absent}
            if ask.answer is not None and info.no_given:
                absent = dict.fromkeys(ANSWER_STATISTICS, info.no_given) | absent
        names = plan.estimators
        given = names, evidence.statistics, absent, self._observer.observe_failure
        loop = asyncio.get_running_loop()
        if _SLOW.isdisjoint(names):
            scored = score(*given)
        else:
            scored = await loop.run_in_executor(self.threads[_ESTIMATORS], score, *given)
        if ask.units is None:
            return *scored, None
        of_parts = plan, evidence, absent, parts, scored, self._observer.observe_failure
        return *scored, await loop.run_in_executor(self.threads[_PARTS], scored_units, *of_parts)


async def _escalation(
    second: "SecondModel | None", ask: Ask, judgement: Judgement, elapsed_s: float
) -> Escalation | None:
    """What a second model answers, where the first one's answer does not pass."""
    decision = judgement.decision
    if second is None or decision is None or decision.accept or ask.on_reject != "escalate":
        return None
    left_s = None
    if ask.timeout_s is not None:
        # Where it does not answer in time, the first model's answer still does.
        left_s = _SHARE_FOR_SECOND * (ask.timeout_s - elapsed_s)
    max_tokens = ask.sampling.max_new_tokens or DEFAULT_NEW_TOKENS
    try:
        text = await second.answer(
            ask.prompt, ask.messages, max_tokens=max_tokens, timeout_s=left_s
        )
    except EscalationFailed as error:
        return Escalation(second.model, error=str(error))
    return Escalation(second.model, text=text)
