"""What a calibrator says of a scored ask, and whether it may say anything.

A score of another model, or of samples drawn otherwise, is not comparable with those that the
calibrator was fitted on; it then says nothing, and why. A confidence holds for prompts like those
of the calibration: nobody labels what is served, but its uncertainties are compared with the
reference's.
"""

import logging
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from app.scoring.ask import PARTS, Ask
from app.scoring.calibrators import check_deployment, served_models
from app.scoring.decisions import Decision, Judgement, check_target, decided, no_decision
from app.scoring.observer import Observer
from app.scoring.plan import Plan
from app.scoring.result import Source
from app.scoring.unlike import MAX_SHARE_CUT, why_unlike
from models.calibration import ALL, Binding, Calibrator, Part, ShiftMonitor
from models.errors import InvalidRequest, NotCalibrated
from models.estimators import needs
from models.records import (
    DEFAULT_NEW_TOKENS,
    PROMPT_OUT_OF_DOMAIN,
    Generation,
    ProbeReading,
    SamplingParams,
    Sequence,
)
from models.statistics import reads_samples, supplied_by
from models.units.unit import Kind
from workers.protocol import Workers

logger = logging.getLogger(__name__)


NO_CALIBRATOR = (
    "no calibrator is loaded: see COCOA_CALIBRATOR; `cocoa calibrate` makes one of labelled answers"
)


class Judge:
    """Says what uncertainties mean, as long as the workers hold the models of its calibrator.

    Args:
        calibrator: of this deployment; None says nothing.
        workers: whose models may be replaced.
        observer: told how far scores have shifted.
        rejects_foreign: whether an answer to a prompt unlike those of the calibration never passes.
    """

    def __init__(
        self,
        calibrator: Calibrator | None,
        workers: Workers,
        observer: Observer,
        *,
        rejects_foreign: bool = True,
    ) -> None:
        self._calibrator = calibrator
        self._workers = workers
        self._observer = observer
        self._rejects_foreign = rejects_foreign
        self._shifts: dict[tuple[str, str, int], ShiftMonitor] = {}
        # For which models the calibrator was last checked, and why it is not theirs.
        self._checked_for = served_models(workers)
        self._misfit = ""

    def calibrator(self) -> Calibrator | None:
        """The one that is served; checked again, and the log told, where models were replaced."""
        if self._calibrator is None:
            return None
        found = served_models(self._workers)
        if found != self._checked_for:
            self._checked_for, self._misfit = found, ""
            try:
                check_deployment(self._calibrator, self._workers)
            except ValueError as error:
                self._misfit = f"the calibrator is no longer served: {error}"
                logger.error("%s", self._misfit)
        if self._misfit:
            return None
        return self._calibrator

    def standing(self) -> tuple[Any, ...]:
        """All that decides what it says of an uncertainty, beside the models."""
        return tuple(monitor.has_shifted for monitor in self._shifts.values())

    def heeded(self, generation: Generation) -> Collection[str]:
        """Its warnings, without those with which its answer may pass here all the same."""
        if self._rejects_foreign:
            return generation.warnings
        return set(generation.warnings) - {PROMPT_OUT_OF_DOMAIN}

    def no_calibrator(self) -> str:
        """Why none is served; "" where one is."""
        if self.calibrator() is not None:
            return ""
        return self._misfit or NO_CALIBRATOR

    def judge(
        self,
        ask: Ask,
        plan: Plan,
        answer: Sequence,
        readings: Mapping[str, ProbeReading],
        uncertainty: float | None,
        source: Source,
        *,
        warned: Collection[str] = (),
    ) -> Judgement:
        """What an uncertainty means; one that was computed counts among the latest scores.

        Args:
            ask: what was wanted.
            plan: of it.
            answer: y*, whose uncertainty this is.
            readings: of probes, by the statistic that each predicts.
            uncertainty: None for an answer without one.
            source: of what was computed.
            warned: what `heeded` leaves of its generation's warnings.
        """
        calibrator, unlike = self.calibrator(), None
        part = part_of(ask, plan, calibrator)
        if isinstance(part, Part):
            unlike = why_unlike(answer, plan, readings, part.binding, warned=warned)
        judgement = judge(ask, plan, calibrator, part, uncertainty, unlike)
        if not isinstance(part, Part) or uncertainty is None or judgement.confidence is None:
            return judgement
        group, estimator = ask.calibration or ALL, plan.primary
        key = group, estimator, id(part)
        if key not in self._shifts:
            self._shifts[key] = ShiftMonitor(part.groups[group][estimator])
        monitor = self._shifts[key]
        if source == "computed":  # a popular prompt that is served from the cache counts once
            monitor.observe(uncertainty)
            self._observer.observe_shift(group, estimator, self._farthest(group, estimator))
        return replace(judgement, has_shifted=monitor.has_shifted)

    def _farthest(self, group: str, estimator: str) -> float:
        """The largest shift of any part's scores."""
        shifts = []
        for (of_group, of_estimator, _), monitor in self._shifts.items():
            if (of_group, of_estimator) == (group, estimator):
                shifts.append(monitor.shift)
        return max(shifts)


def check_asked(ask: Ask, plan: Plan, calibrator: Calibrator | None) -> None:
    """Refuse a decision that nobody can make, before any work.

    Raises:
        NotCalibrated: there is no calibration for this ask; says why.
        InvalidRequest: an unknown group or target error.
    """
    if ask.on_reject != "answer" and ask.target_error is None:
        raise InvalidRequest("needs target_error", field="on_reject")
    if ask.escalate_below is not None and ask.target_error is None:
        raise InvalidRequest("needs target_error", field="escalate_below")
    if ask.calibration is not None:
        if calibrator is None:
            raise NotCalibrated(NO_CALIBRATOR, field="calibration")
        if ask.calibration not in calibrator.groups:
            names = ", ".join(calibrator.groups)
            raise InvalidRequest(f"must be one of {names}", field="calibration")
    is_of_parts = ask.units in PARTS and ask.on_reject == "answer"
    if ask.target_error is None or is_of_parts:  # for these see `app.scoring.unit_judging`
        return
    part = part_of(ask, plan, calibrator)
    if isinstance(part, str):
        raise NotCalibrated(part, field="target_error")
    check_target(part.groups[ask.calibration or ALL][plan.primary], ask.target_error)


def judge(
    ask: Ask,
    plan: Plan,
    calibrator: Calibrator | None,
    part: Part | str,
    uncertainty: float | None,
    unlike: str | None = None,
) -> Judgement:
    """What an uncertainty means.

    An answer without one, or unlike those that were calibrated, has no confidence and never passes.

    Args:
        ask: whose uncertainty it is.
        plan: of it.
        calibrator: that is served.
        part: what `part_of` says of them.
        uncertainty: None for an answer without one.
        unlike: what `why_unlike` says of the answer.
    """
    if calibrator is None or isinstance(part, str):
        reason = str(part)
        if ask.target_error is None:
            return Judgement(reason=reason)
        # An answer of another kind than was foreseen.
        return Judgement(decision=no_decision(ask.target_error, reason), reason=reason)
    found = part.groups[ask.calibration or ALL][plan.primary]
    if unlike is not None:
        uncertainty = None
    decision: Decision | None = None
    if ask.target_error is not None and (threshold := found.threshold(ask.target_error)):
        promise = "at most {percent} of the accepted answers are wrong"
        decision = decided(threshold, calibrator, promise, accept=threshold.accepts(uncertainty))
    if uncertainty is None:
        reason = unlike or f"{plan.primary} has no value"
        if decision is not None:
            decision = decision.refused(reason).acting(None, ask)
        return Judgement(decision=decision, reason=reason)
    confidence = found.confidence(uncertainty)
    if decision is not None:
        decision = decision.acting(confidence, ask)
    return Judgement(
        confidence=confidence,
        percentile=found.percentile(uncertainty),
        decision=decision,
        calibrator=calibrator.id,
    )


def part_of(
    ask: Ask, plan: Plan, calibrator: Calibrator | None, unit: Kind = "answer"
) -> Part | str:
    """The part that speaks of the primary estimator of this ask, for units of one kind.

    Where there is none, why, and what would have to be asked in place of it: the least that differs
    from what was calibrated.
    """
    if calibrator is None:
        return NO_CALIBRATOR
    if ask.samples is not None:
        return "scores on given samples are not calibrated: let the model draw them"
    if ask.answer_token_logprobs is not None:
        return "scores on given log-probs are not calibrated: let the model read the answer"
    if plan.is_reasoned:
        return "answers behind a reasoning are not calibrated"
    nearest: dict[str, tuple[str, str]] | None = None
    for part in calibrator.parts:
        calibrated = part.groups.get(ask.calibration or ALL, {})
        if part.binding.unit != unit or plan.primary not in calibrated:
            continue
        differing = _differing(ask, plan, part.binding)
        if not differing:
            return part
        if nearest is None or len(differing) < len(nearest):
            nearest = differing
    if nearest is None and unit != "answer":
        return f"{plan.primary} of a {unit} is not calibrated"
    if nearest is None:
        return f"{plan.primary} is not calibrated: see GET /version for estimators that are"
    bound, asked = map(", ".join, zip(*nearest.values(), strict=True))
    return f"not calibrated for {asked}: ask with {bound}, or calibrate for it"


def _differing(ask: Ask, plan: Plan, binding: Binding) -> dict[str, tuple[str, str]]:
    """What makes the scores of an ask another thing than those that were calibrated.

    By name, what was calibrated and what is asked, in words.
    """
    read, sampling = needs([plan.primary]), ask.sampling
    compared: dict[str, tuple[Any, Any]] = {
        "strategy": (binding.strategy, plan.strategy),
        "stop": (list(binding.stop), list(sampling.stop)),
    }
    for name in binding.reasoning.keys() | ask.how_it_reasons.keys():
        compared[name] = binding.reasoning.get(name), ask.how_it_reasons.get(name)
    if ask.answer is not None:
        compared["append_eos"] = True, ask.answer.append_eos
    if reads_samples(read):
        compared |= {
            "num_samples": (_draw(binding), _draw(sampling)),
            "temperature": (binding.temperature, sampling.temperature),
            "top_k": (binding.top_k, sampling.top_k),
            "top_p": (binding.top_p, sampling.top_p),
            "distinct": (binding.distinct, sampling.distinct),
        }
    if read & supplied_by("similarity"):
        compared["similarity"] = (binding.similarity, plan.similarity)
    if binding.unit != "answer" or "followed" in f"{binding.schema_use} {ask.schema_use}":
        compared["json_schema"] = binding.schema_use, ask.schema_use
    limit, bound_limit = sampling.max_new_tokens or DEFAULT_NEW_TOKENS, binding.max_new_tokens
    if limit < bound_limit or binding.share_cut > MAX_SHARE_CUT:
        compared["max_new_tokens"] = bound_limit, limit
    differing: dict[str, tuple[str, str]] = {}
    if binding.input != ask.input:
        differing["input"] = binding.input, ask.input
    for name, (bound, asked) in compared.items():
        if bound != asked:
            differing[name] = f"{name} {_in_words(bound)}", f"{name} {_in_words(asked)}"
    return differing


def _draw(drawn: Binding | SamplingParams) -> int | str:
    """How many samples, as a request says it."""
    if drawn.stop_mass is None:
        return drawn.num_samples
    return f"auto (max_samples {drawn.num_samples}, stop_mass {drawn.stop_mass:g})"


def _in_words(value: Any) -> str:
    if value is None:
        return "not set"
    return str(value)
