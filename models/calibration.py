"""From an uncertainty to a confidence, a percentile and a decision, and whether these still hold.

A calibrator is fitted offline (`cocoa calibrate`) from answers whose correctness is known. It
says what it is bound to: the same score of another model, or of another number of samples, means
something else. The file is JSON.
"""

import hashlib
import json
import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np

from models.locations import without_folders
from models.ranges import PROBABILITIES, Range, numbers
from models.records import Array

FORMAT = 1
ALL = "all"  # the group of all labels, which every calibrator has
_GREATEST = float(np.finfo(np.float64).max)
_ANY: Range = (-_GREATEST, _GREATEST)

WINDOW = 200  # latest scores that are compared
# Two-sided error of the comparison: it is made again and again.
_SIGNIFICANCE = 1e-6


class BadCalibrator(ValueError):
    """A file that is no calibrator of this format."""


@dataclass(frozen=True, slots=True)
class Binding:
    """What the scores came from; scores of anything else are not comparable with them.

    Attributes:
        model_id, revision: of the language model, for messages.
        generator: identity of the language model, with tokenizer, template and precision.
        input: "prompt" or "messages", what was asked.
        strategy: how answers were chosen.
        num_samples, stop_mass, temperature, top_k, top_p, stop: as in
            `models.records.SamplingParams`; the first five matter to scores that read samples.
        max_new_tokens: the limit that answers and samples had.
        share_cut: of the answers and samples, those that ended at that limit.
        similarity: name of the similarity function.
        comparer: its identity.
        nli: identity of the NLI model; None where there was none.
        probes: sha256 of the probe by the statistic that it predicts.
        reasoning: what was asked of reasonings, by name (`app.scoring.ask.Ask.how_it_reasons`).
    """

    model_id: str
    revision: str | None
    generator: str
    input: str
    strategy: str
    num_samples: int
    stop_mass: float | None
    temperature: float
    top_k: int
    top_p: float
    stop: tuple[str, ...]
    max_new_tokens: int
    share_cut: float
    similarity: str
    comparer: str
    nli: str | None
    probes: Mapping[str, str]
    reasoning: Mapping[str, int | str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Threshold:
    """Up to which uncertainty answers are accepted, so that few of them are wrong.

    Attributes:
        target_error: largest wanted share of wrong answers among the accepted.
        uncertainty: an answer is accepted up to here; None where the labels allow no threshold.
        share_accepted, share_wrong: of the labels, and of the accepted ones; None without one.
        labels_missing: about so many more labels like these would allow one; None where there is
            one, or where no number of them would.
    """

    target_error: float
    uncertainty: float | None
    share_accepted: float | None = None
    share_wrong: float | None = None
    labels_missing: int | None = None

    def accepts(self, uncertainty: float | None) -> bool:
        """Whether an answer may pass; one without a score may not."""
        if uncertainty is None or self.uncertainty is None:
            return False
        return uncertainty <= self.uncertainty


@dataclass(frozen=True, slots=True)
class Calibration:
    """What the uncertainties of one estimator mean.

    Attributes:
        method: "platt" or "isotonic", which made the curve.
        knots: (K,) uncertainties, ascending.
        confidences: (K,) P(correct) at the knots, never rising.
        quantiles: (Q,) of the reference answers' uncertainties, ascending, from least to greatest.
        thresholds: one a target error.
        num_labels, num_right: that it was fitted on.
    """

    method: str
    knots: Array
    confidences: Array
    quantiles: Array
    thresholds: tuple[Threshold, ...]
    num_labels: int
    num_right: int

    def confidence(self, uncertainty: float) -> float:
        """P(correct) in [0, 1]: linear between the knots, beyond them that of the nearest."""
        return float(np.interp(uncertainty, self.knots, self.confidences))

    def percentile(self, uncertainty: float) -> float:
        """Percentage of the reference answers that are surer, ties counting half: in [0, 100]."""
        below = np.searchsorted(self.quantiles, uncertainty, "left")
        up_to = np.searchsorted(self.quantiles, uncertainty, "right")
        return float(50.0 * (below + up_to) / len(self.quantiles))

    def threshold(self, target_error: float) -> Threshold | None:
        """The threshold of a target error; None for one that was not fitted."""
        for one in self.thresholds:
            if one.target_error == target_error:
                return one
        return None


@dataclass(frozen=True, slots=True)
class Calibrator:
    """Calibrations of the estimators of one deployment.

    Attributes:
        id: short digest of the whole file.
        binding: what it is good for.
        source: what the labels were, in words, without folders of whoever made it.
        delta: probability, over calibration sets, that a threshold breaks its promise.
        groups: group, `ALL` among them, to estimator to calibration.
    """

    id: str
    binding: Binding
    source: str
    delta: float
    groups: Mapping[str, Mapping[str, Calibration]]

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a calibrator.

        Raises:
            OSError: there is no such file.
            BadCalibrator: it is none, or of another format.
        """
        content = path.read_bytes()
        try:
            value = json.loads(content)
            if value["format"] != FORMAT:
                raise ValueError(f"format {value['format']!r}, not {FORMAT}")
            return cls(
                id=hashlib.sha256(content).hexdigest()[:12],
                binding=_binding(value["binding"]),
                source=without_folders(str(value["source"])),
                delta=float(value["delta"]),
                groups=_groups(value["groups"]),
            )
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            raise BadCalibrator(f"{path} is no calibrator: {error}") from None


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


def _binding(value: Mapping[str, Any]) -> Binding:
    whole = {"reasoning": {}, **value}  # files of before say nothing of it
    if whole.keys() != Binding.__dataclass_fields__.keys():
        raise ValueError("another binding")
    return Binding(**{**whole, "stop": tuple(value["stop"])})


def _groups(value: Mapping[str, Any]) -> dict[str, dict[str, Calibration]]:
    groups: dict[str, dict[str, Calibration]] = {}
    for group, by_estimator in value.items():
        groups[group] = {name: _calibration(one) for name, one in by_estimator.items()}
    if ALL not in groups:
        raise ValueError(f"no group {ALL!r}")
    return groups


def _calibration(value: Mapping[str, Any]) -> Calibration:
    num_knots, num_quantiles = len(value["knots"]), len(value["quantiles"])
    knots = numbers(value["knots"], (num_knots,), _ANY)
    confidences = numbers(value["confidences"], (num_knots,), PROBABILITIES)
    quantiles = numbers(value["quantiles"], (num_quantiles,), _ANY)
    if not num_knots or not num_quantiles:
        raise ValueError("no knots or no quantiles")
    if (np.diff(knots) < 0).any() or (np.diff(quantiles) < 0).any():
        raise ValueError("knots or quantiles that descend")
    if (np.diff(confidences) > 0).any():
        raise ValueError("confidence that rises with uncertainty")
    changed = {
        "knots": knots,
        "confidences": confidences,
        "quantiles": quantiles,
        "thresholds": tuple(Threshold(**one) for one in value["thresholds"]),
    }
    return Calibration(**{**value, **changed})
