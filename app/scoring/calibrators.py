"""The calibrator of a deployment: loaded, checked against its models, and watched for shifts."""

import logging
from collections import defaultdict
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from app.scoring.ask import Ask
from app.scoring.defaults import PRIMARY, PRIMARY_OF_PARTS
from app.scoring.deployment import Models
from app.scoring.judging import Observed
from app.scoring.observer import Observer
from app.scoring.plan import NO_CALIBRATOR
from models.calibration import ALL, Calibration, Calibrator, Part, ShiftMonitor
from models.embedded import CALIBRATOR_PATH, CALIBRATORS
from models.estimators import known_estimators
from models.others import instead_of

logger = logging.getLogger(__name__)


def load_calibrator(setting: str, models: Models) -> Calibrator | None:
    """The calibrator that a deployment serves.

    Args:
        setting: a path; "auto" for that of an embedded language model beside the embedded pair
            models; "" for none.
        models: loaded ones.

    Raises:
        OSError: there is no such file.
        ValueError: it is no calibrator, or another deployment's; names what differs.
    """
    if not setting:
        return None
    path = Path(setting)
    if setting == "auto":
        path = CALIBRATORS.get(models.generator.model_id, CALIBRATOR_PATH)
    calibrator = _without_gone(Calibrator.load(path), models)
    try:
        check_deployment(calibrator, models)
    except ValueError as error:
        if setting != "auto":
            raise
        logger.info("the embedded calibrator is not served: %s", error)
        return None
    if calibrator.prompts and not models.compares_prompts_of(calibrator):
        logger.warning(
            "prompts are not compared with the calibrator's: the process of the language model "
            "has another COCOA_CALIBRATOR or none, or shows no hidden states of prompts"
        )
    return calibrator


def _without_gone(calibrator: Calibrator, models: Models) -> Calibrator:
    """The calibrator without what it says of scores that are not here; one warning names each.

    Raises:
        ValueError: it speaks of nothing else.
    """
    kept: list[Part] = []
    gone: defaultdict[str, list[str]] = defaultdict(list)
    for part in calibrator.parts:
        binding = part.binding
        way = f"{binding.unit} of {binding.input}, {binding.strategy}"
        why = instead_of(binding.similarity)
        if why and binding.similarity not in models.similarity_scorers:
            gone[why].append(way)
            continue
        groups, unknown = _of_known(part)
        for name in unknown:
            gone[instead_of(name) or f"there is no estimator {name}"].append(way)
        if groups[ALL]:
            kept.append(replace(part, groups=groups))
    reasons = "; ".join(f"{why} ({'; '.join(ways)})" for why, ways in gone.items())
    if not kept:
        raise ValueError(f"the calibrator speaks of nothing that is left: {reasons}")
    if gone:
        logger.warning("parts of the calibrator are left out: %s", reasons)
    return replace(calibrator, parts=tuple(kept))


def _of_known(part: Part) -> tuple[dict[str, dict[str, Calibration]], set[str]]:
    """The groups of a part without estimators that are not here, and the names of these."""
    groups: dict[str, dict[str, Calibration]] = {}
    unknown: set[str] = set()
    for group, by_estimator in part.groups.items():
        groups[group] = {}
        for name, calibration in by_estimator.items():
            if name in known_estimators():
                groups[group][name] = calibration
            else:
                unknown.add(name)
    return groups, unknown


def check_deployment(calibrator: Calibrator, models: Models) -> None:
    """Refuse a calibrator of other models than these.

    Raises:
        ValueError: names what differs.
    """
    generator, nli = models.generator, models.nli
    for part in calibrator.parts:
        binding = part.binding
        similarity_scorer = models.similarity_scorers.get(binding.similarity)
        identities: dict[str, tuple[Any, Any]] = {
            "the language model": (binding.model_id, generator.model_id),
            "its revision": (binding.revision, generator.revision),
            "its tokenizer, template or precision": (binding.generator, generator.identity),
            f"the similarity function {binding.similarity}": (
                binding.comparer,
                similarity_scorer and similarity_scorer.identity,
            ),
        }
        if nli is not None:  # without one, nothing that reads it is scored
            identities["the NLI model"] = binding.nli, nli.identity
        for statistic in binding.probes.keys() & generator.probes.keys():  # as with NLI
            served = generator.probes[statistic].sha256
            identities[f"the probe of {statistic}"] = (binding.probes[statistic], served)
        if binding.outdated:
            raise ValueError(f"the scores of the calibrator {binding.outdated}")
        for name, (bound, served) in identities.items():
            if bound != served:
                raise ValueError(
                    f"the calibrator is another deployment's: {name} was {bound}, and is {served}"
                )


@dataclass(eq=False)
class ServedCalibrator:
    """The calibrator of a deployment, served while its models are, and a monitor of the scores.

    Nobody labels what is served, but its uncertainties are compared with the reference's.
    """

    calibrator: Calibrator | None
    checked_for: Models
    observer: Observer
    # Groups, estimators and calibrations whose latest scores no longer look like the reference's.
    shifted: frozenset[tuple[str, str, int]] = frozenset()
    _misfit: str = ""
    _shifts: dict[tuple[str, str, int], ShiftMonitor] = field(default_factory=dict)

    def of(self, models: Models) -> Calibrator | None:
        """The calibrator where it fits these models; checked and logged again if they are new."""
        if self.calibrator is None:
            return None
        if models != self.checked_for:
            self.checked_for, self._misfit = models, ""
            try:
                check_deployment(self.calibrator, models)
            except ValueError as error:
                self._misfit = f"the calibrator is no longer served: {error}"
                logger.error("%s", self._misfit)
        if self._misfit:
            return None
        return self.calibrator

    def lacks(self, models: Models) -> str:
        """The reason that none is served to these models; "" where one is."""
        if self.of(models) is not None:
            return ""
        return self._misfit or NO_CALIBRATOR

    def info(self, models: Models) -> dict[str, Any] | None:
        """What `GET /version` says of the one that is served to these models; None without one."""
        calibrator = self.of(models)
        if calibrator is None:
            return None
        by_estimator: dict[str, Calibration] = {}
        for part in calibrator.parts:
            if part.binding.unit == "answer":
                for name, calibration in part.groups[ALL].items():
                    by_estimator.setdefault(name, calibration)
        units = _of_units(calibrator)
        targets: dict[float, None] = {}  # in their order, each once
        for calibration in (*by_estimator.values(), *units.values()):
            for threshold in calibration.thresholds:
                targets[threshold.target_error] = None
        reported = filter(by_estimator.__contains__, PRIMARY)
        return {
            "id": calibrator.id,
            "source": calibrator.source,
            "groups": calibrator.groups,
            "estimators": list(by_estimator),
            "target_errors": list(targets),
            "compares_prompts": models.compares_prompts_of(calibrator),
            "thresholds": {name: _thresholds(by_estimator[name]) for name in reported},
            "units": {kind: _thresholds(part) for kind, part in units.items()},
        }

    def passing_nothing(self, models: Models) -> list[str]:
        """Target errors at which nothing passes by the scores that are reported, in words."""
        info, details = self.info(models), list[str]()
        if info is None:
            return details
        by_kind = {"answer": next(iter(info["thresholds"].values()), [])} | info["units"]
        for kind, thresholds in by_kind.items():
            in_vain = [f"{at['target_error']:g}" for at in thresholds if at["uncertainty"] is None]
            if in_vain:
                details.append(f"no {kind} passes at a target error of {' or '.join(in_vain)}")
        return details

    def observe(self, ask: Ask, observed: Observed, *, is_new: bool) -> bool:
        """Add uncertainties, unless a cache serves them; True where the latest have shifted."""
        estimator, calibration, uncertainties = observed
        key = ask.calibration or ALL, estimator, id(calibration)
        if key not in self._shifts:
            self._shifts[key] = ShiftMonitor(calibration)
        if is_new:
            monitor = self._shifts[key]
            monitor.observe(*uncertainties)
            self.shifted -= {key}
            if monitor.has_shifted:
                self.shifted |= {key}
            shifts = [one.shift for other, one in self._shifts.items() if other[:2] == key[:2]]
            self.observer.observe_shift(*key[:2], max(shifts))  # of any part's scores
        return key in self.shifted


def _of_units(calibrator: Calibrator) -> dict[str, Calibration]:
    """The calibration of the reported estimator, by kind of the parts of answers."""
    by_kind: dict[str, Calibration] = {}
    for part in calibrator.parts:
        for name in filter(part.groups[ALL].__contains__, PRIMARY_OF_PARTS):
            if part.binding.unit != "answer":
                by_kind.setdefault(part.binding.unit, part.groups[ALL][name])
    return by_kind


def _thresholds(of: Calibration) -> list[dict[str, Any]]:
    """Each as `GET /version` tells it; without a threshold nothing passes."""
    return [{**asdict(at), "share_accepted": at.share_accepted or 0.0} for at in of.thresholds]
