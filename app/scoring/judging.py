"""What a calibrator says of a scored ask, and whether it may say anything.

A score of another model, or of samples drawn otherwise, is not comparable with those that the
calibrator was fitted on; it then says nothing, and why. A confidence holds for prompts like those
of the calibration: nobody labels what is served, but its uncertainties are compared with the
reference's.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from app.scoring.ask import Ask
from app.scoring.memory import Source
from app.scoring.observer import Observer
from app.scoring.plan import Plan
from models.calibration import ALL, Binding, Calibration, Calibrator, ShiftMonitor
from models.errors import InvalidRequest, NotCalibrated
from models.estimators import needs
from models.records import DEFAULT_NEW_TOKENS, ProbeReading, Sequence
from models.statistics import reads_samples, supplied_by
from models.units.reasoning import HARMONY, KNOWN_TAGS
from workers.protocol import ComparerInfo, GeneratorInfo, Workers

logger = logging.getLogger(__name__)

# A larger limit changes nothing but the texts that ended at the smaller one: these may be so many.
_MAX_SHARE_CUT = 0.01


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether an answer may pass.

    Attributes:
        threshold: an uncertainty; None where the labels allow none, and no answer may pass.
        guarantee: what is promised, in words.
    """

    accept: bool
    threshold: float | None
    target_error: float
    guarantee: str


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the uncertainty of an ask means.

    Attributes:
        confidence: P(correct) in [0, 1].
        percentile: share of the reference answers that are surer, in [0, 100].
        decision: where one was asked for.
        reason: why there is no confidence, where there is none.
        calibrator: id of the calibrator that says so.
        has_shifted: whether what is served no longer looks like what was calibrated.
    """

    confidence: float | None = None
    percentile: float | None = None
    decision: Decision | None = None
    reason: str | None = None
    calibrator: str | None = None
    has_shifted: bool = False


NO_CALIBRATOR = "no calibrator is loaded"


def calibrated_models(
    calibrator: Calibrator | None, workers: Workers
) -> tuple[GeneratorInfo, ComparerInfo | None, ComparerInfo | None]:
    """The language model, the calibrated similarity function and the NLI model, as they serve."""
    comparer: ComparerInfo | None = None
    if calibrator is not None and calibrator.binding.similarity in workers.comparers:
        comparer = workers.comparers[calibrator.binding.similarity].info
    nli: ComparerInfo | None = None
    if workers.nli is not None:
        nli = workers.nli.info
    return workers.generator.info, comparer, nli


def check_deployment(calibrator: Calibrator, workers: Workers) -> None:
    """Refuse a calibrator of other models than these.

    Raises:
        ValueError: names what differs.
    """
    binding = calibrator.binding
    generator, comparer, nli = calibrated_models(calibrator, workers)
    found: dict[str, tuple[Any, Any]] = {
        "the language model": (binding.model_id, generator.model_id),
        "its revision": (binding.revision, generator.revision),
        "its tokenizer, template or precision": (binding.generator, generator.identity),
        f"the similarity function {binding.similarity}": (
            binding.comparer,
            comparer and comparer.identity,
        ),
    }
    if nli is not None:  # without one, nothing that reads it is scored
        found["the NLI model"] = binding.nli, nli.identity
    for statistic in binding.probes.keys() & generator.probes.keys():  # as with NLI
        served = generator.probes[statistic].sha256
        found[f"the probe of {statistic}"] = (binding.probes[statistic], served)
    for what, (bound, served) in found.items():
        if bound != served:
            raise ValueError(
                f"the calibrator is another deployment's: {what} was {bound}, and is {served}"
            )


class Judge:
    """Says what uncertainties mean, as long as the workers hold the models of its calibrator.

    Args:
        calibrator: of this deployment; None says nothing.
        workers: whose models may be replaced.
        observer: told how far scores have shifted.
    """

    def __init__(self, calibrator: Calibrator | None, workers: Workers, observer: Observer) -> None:
        self._calibrator = calibrator
        self._workers = workers
        self._observer = observer
        self._shifts: dict[tuple[str, str], ShiftMonitor] = {}
        # For which models the calibrator was last checked, and whether it is theirs.
        self._checked_for = calibrated_models(calibrator, workers)
        self._fits_models = True

    def calibrator(self) -> Calibrator | None:
        """The one that is served; checked again, and the log told, where models were replaced."""
        if self._calibrator is None:
            return None
        found = calibrated_models(self._calibrator, self._workers)
        if found != self._checked_for:
            self._checked_for, self._fits_models = found, True
            try:
                check_deployment(self._calibrator, self._workers)
            except ValueError as error:
                self._fits_models = False
                logger.error("the calibrator is no longer served: %s", error)
        if not self._fits_models:
            return None
        return self._calibrator

    def judge(
        self,
        ask: Ask,
        plan: Plan,
        answer: Sequence,
        readings: Mapping[str, ProbeReading],
        uncertainty: float | None,
        source: Source,
    ) -> Judgement:
        """What an uncertainty means; one that was computed counts among the latest scores.

        Args:
            ask: what was wanted.
            plan: of it.
            answer: y*, whose uncertainty this is.
            readings: of probes, by the statistic that each predicts.
            uncertainty: None for an answer without one.
            source: of what was computed.
        """
        calibrator, unlike = self.calibrator(), None
        if calibrator is not None:
            unlike = why_unlike(answer, plan, readings, calibrator.binding)
        judgement = judge(ask, plan, calibrator, uncertainty, unlike)
        if calibrator is None or uncertainty is None or judgement.confidence is None:
            return judgement
        key = group, _ = ask.calibration or ALL, plan.primary
        if key not in self._shifts:
            self._shifts[key] = ShiftMonitor(calibrator.groups[group][plan.primary])
        monitor = self._shifts[key]
        if source == "computed":  # a popular prompt that is served from the cache counts once
            monitor.observe(uncertainty)
            self._observer.observe_shift(group, plan.primary, monitor.distance)
        return replace(judgement, has_shifted=monitor.has_shifted)


def check_asked(ask: Ask, plan: Plan, calibrator: Calibrator | None) -> None:
    """Refuse a decision that nobody can make, before any work.

    Raises:
        NotCalibrated: there is no calibration for this ask; says why.
        InvalidRequest: an unknown group or target error.
    """
    if ask.on_reject != "answer" and ask.target_error is None:
        raise InvalidRequest("needs target_error", field="on_reject")
    if ask.calibration is not None:
        if calibrator is None:
            raise NotCalibrated(NO_CALIBRATOR, field="calibration")
        if ask.calibration not in calibrator.groups:
            names = ", ".join(calibrator.groups)
            raise InvalidRequest(f"must be one of {names}", field="calibration")
    if ask.target_error is None:
        return
    found = _calibration(ask, plan, calibrator)
    if isinstance(found, str):
        raise NotCalibrated(found, field="target_error")
    if found.threshold(ask.target_error) is None:
        known = ", ".join(f"{one.target_error:g}" for one in found.thresholds)
        raise InvalidRequest(f"must be one of {known}", field="target_error")


def why_unlike(
    answer: Sequence, plan: Plan, readings: Mapping[str, ProbeReading], binding: Binding
) -> str | None:
    """Why an answer is unlike all that were calibrated: a code, and the reason in words."""
    text = answer.compared_text
    if answer.is_unfinished or any(text == tags.start for tags in (*KNOWN_TAGS, HARMONY)):
        return "reasoning_unfinished: the model was cut off before it gave an answer"
    if not text:
        return "empty_answer: an answer without text is neither right nor wrong"
    if answer.finish_reason == "length" and binding.share_cut <= _MAX_SHARE_CUT:
        return "answer_truncated: answers that are cut at max_new_tokens were not calibrated"
    for name in needs([plan.primary]) & readings.keys():
        if readings[name].out_of_domain:
            return "out_of_domain: the probe was not trained on answers like this one"
    return None


def judge(
    ask: Ask,
    plan: Plan,
    calibrator: Calibrator | None,
    uncertainty: float | None,
    unlike: str | None = None,
) -> Judgement:
    """What an uncertainty means; `unlike` is what `why_unlike` says of the answer.

    An answer without one, or unlike those that were calibrated, has no confidence and never passes.
    """
    found = _calibration(ask, plan, calibrator)
    if calibrator is None or isinstance(found, str):
        decision = None
        if ask.target_error is not None:  # answers of another kind than was foreseen
            decision = Decision(False, None, ask.target_error, f"{found}: nothing is accepted")
        return Judgement(decision=decision, reason=str(found))
    if unlike is not None:
        uncertainty = None
    decision = _decision(ask, found, calibrator, uncertainty)
    if uncertainty is None:
        reason = unlike or f"{plan.primary} has no value"
        if decision is not None:
            decision = replace(decision, guarantee=f"{reason}: not accepted")
        return Judgement(decision=decision, reason=reason)
    return Judgement(
        confidence=found.confidence(uncertainty),
        percentile=found.percentile(uncertainty),
        decision=decision,
        calibrator=calibrator.id,
    )


def _decision(
    ask: Ask, found: Calibration, calibrator: Calibrator, uncertainty: float | None
) -> Decision | None:
    if ask.target_error is None or (threshold := found.threshold(ask.target_error)) is None:
        return None
    percent = f"{100 * threshold.target_error:g} %"
    if threshold.uncertainty is None:
        guarantee = f"no threshold is sure to keep at most {percent} wrong: nothing is accepted"
        if threshold.labels_missing is not None:
            guarantee += f"; about {threshold.labels_missing} more labels are needed"
    else:
        guarantee = (
            f"at most {percent} of the accepted answers are wrong, with probability "
            f"{1 - calibrator.delta:g} over calibration sets, for prompts like those of "
            f"{calibrator.source}"
        )
    return Decision(
        accept=threshold.accepts(uncertainty),
        threshold=threshold.uncertainty,
        target_error=threshold.target_error,
        guarantee=guarantee,
    )


def _calibration(ask: Ask, plan: Plan, calibrator: Calibrator | None) -> Calibration | str:
    """The calibration of the primary estimator, or why there is none for this ask."""
    if calibrator is None:
        return NO_CALIBRATOR
    group = calibrator.groups.get(ask.calibration or ALL, {})
    if plan.primary not in group:
        return f"{plan.primary} is not calibrated"
    return _why_other(ask, plan, calibrator.binding) or group[plan.primary]


def _why_other(ask: Ask, plan: Plan, binding: Binding) -> str | None:
    """Why the scores of an ask are not comparable with those that were calibrated."""
    if ask.samples is not None:
        return "scores on given samples are not calibrated"
    if ask.answer_token_logprobs is not None:
        return "scores on given log-probs are not calibrated"
    if plan.is_reasoned:
        return "answers behind a reasoning are not calibrated"
    read, sampling = needs([plan.primary]), ask.sampling
    differing: dict[str, tuple[Any, Any]] = {
        "input": (binding.input, ask.input),
        "strategy": (binding.strategy, plan.strategy),
        "stop": (list(binding.stop), list(sampling.stop)),
    }
    for name in binding.reasoning.keys() | ask.how_it_reasons.keys():
        differing[name] = binding.reasoning.get(name), ask.how_it_reasons.get(name)
    if reads_samples(read):
        differing |= {
            "num_samples": (binding.num_samples, sampling.num_samples),
            "stop_mass": (binding.stop_mass, sampling.stop_mass),
            "temperature": (binding.temperature, sampling.temperature),
            "top_k": (binding.top_k, sampling.top_k),
            "top_p": (binding.top_p, sampling.top_p),
        }
    if read & supplied_by("similarity"):
        differing["similarity"] = (binding.similarity, plan.similarity)
    for name, (bound, asked) in differing.items():
        if bound != asked:
            return f"calibrated for {name} {bound}, asked with {asked}"
    limit, bound_limit = sampling.max_new_tokens or DEFAULT_NEW_TOKENS, binding.max_new_tokens
    is_longer = limit > bound_limit
    if limit != bound_limit and not (is_longer and binding.share_cut <= _MAX_SHARE_CUT):
        return f"calibrated for max_new_tokens {bound_limit}, asked with {limit}"
    return None
