"""What a calibrator says of a scored ask, and whether it may say anything.

A score of another model, or of samples drawn otherwise, is not comparable with those that the
calibrator was fitted on; it then says nothing, and why. A confidence holds for prompts like those
of the calibration: nobody labels what is served, but its uncertainties are compared with the
reference's.
"""

import logging
import math
from collections import deque
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from app.scoring.ask import Ask
from app.scoring.memory import Source
from app.scoring.observer import Observer
from app.scoring.plan import Plan
from models.calibration import ALL, Binding, Calibration, Calibrator
from models.embedded import CALIBRATOR_PATH
from models.errors import InvalidRequest, NotCalibrated
from models.estimators import needs
from models.records import DEFAULT_NEW_TOKENS, Array
from models.statistics import reads_samples, supplied_by
from workers.protocol import ComparerInfo, GeneratorInfo, Workers

logger = logging.getLogger(__name__)

WINDOW = 200  # latest scores that are compared
# Two-sided error of the comparison: it is made again and again.
_SIGNIFICANCE = 1e-6
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


def distance(quantiles: Array, uncertainties: Array) -> float:
    """Largest difference of the two distribution functions, in [0, 1]. Kolmogorov 1933.

    quantiles: (Q,) of the reference, ascending. uncertainties: (n,).
    """
    points = np.unique(np.concatenate([quantiles, uncertainties]))
    served = np.searchsorted(np.sort(uncertainties), points, "right") / len(uncertainties)
    reference = np.searchsorted(quantiles, points, "right") / len(quantiles)
    return float(np.abs(served - reference).max())


def critical_distance(num_reference: int, num_served: int) -> float:
    """Distance above which two samples of one distribution lie with probability 1e-6."""
    scale = math.sqrt(-math.log(_SIGNIFICANCE / 2) / 2)
    return scale * math.sqrt(1 / num_reference + 1 / num_served)


class ShiftMonitor:
    """The latest uncertainties of one calibrated estimator beside the reference's.

    Attributes:
        distance: of the full window; 0 before it is full.
        has_shifted: whether it is too large to be chance.
    """

    def __init__(self, calibration: Calibration) -> None:
        self._calibration = calibration
        self._window: deque[float] = deque(maxlen=WINDOW)
        self.distance = 0.0
        self.has_shifted = False

    def observe(self, uncertainty: float) -> None:
        """Take the uncertainty of one answer that was computed."""
        self._window.append(uncertainty)
        if len(self._window) < WINDOW:
            return
        reference = self._calibration
        self.distance = distance(reference.quantiles, np.array(self._window))
        self.has_shifted = self.distance > critical_distance(reference.num_labels, WINDOW)


def load_calibrator(setting: str, workers: Workers) -> Calibrator | None:
    """The calibrator that a deployment serves.

    Args:
        setting: a path; "auto" for the embedded one where these are the embedded models; "" for
            none.
        workers: loaded ones.

    Raises:
        OSError: there is no such file.
        ValueError: it is no calibrator, or another deployment's; names what differs.
    """
    if not setting:
        return None
    path = Path(setting)
    if setting == "auto":
        path = CALIBRATOR_PATH
    calibrator = Calibrator.load(path)
    try:
        check_deployment(calibrator, workers)
    except ValueError as error:
        if setting != "auto":
            raise
        logger.info("the embedded calibrator is not served: %s", error)
        return None
    return calibrator


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

    def judge(self, ask: Ask, plan: Plan, uncertainty: float | None, source: Source) -> Judgement:
        """What an uncertainty means; one that was computed counts among the latest scores."""
        calibrator = self.calibrator()
        judgement = judge(ask, plan, calibrator, uncertainty)
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


def judge(
    ask: Ask, plan: Plan, calibrator: Calibrator | None, uncertainty: float | None
) -> Judgement:
    """What an uncertainty means; an answer without one has no confidence and does not pass."""
    found = _calibration(ask, plan, calibrator)
    if calibrator is None or isinstance(found, str):
        decision = None
        if ask.target_error is not None:  # answers of another kind than was foreseen
            decision = Decision(False, None, ask.target_error, f"{found}: nothing is accepted")
        return Judgement(decision=decision, reason=str(found))
    decision = _decision(ask, found, calibrator, uncertainty)
    if uncertainty is None:
        return Judgement(decision=decision, reason=f"{plan.primary} has no value")
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
