"""From an uncertainty to a confidence, a percentile and a decision, and whether these still hold.

A calibrator is fitted offline (`cocoa calibrate`) from answers whose correctness is known. It
says what it is bound to: the same score of another model, or of another number of samples, means
something else. The file is JSON.
"""

import hashlib
import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Annotated, Literal, Self

import numpy as np

from models.codec import reader
from models.locations import without_folders
from models.ranges import PROBABILITIES, Exact, Range, floats
from models.records import Array
from models.similarity.rules import SCORED

FORMAT = 2
UNNAMED_RULES = 8  # of files of before they named their rules
OTHER_RULES = "were made by other rules of what answers say, where samples end, or what is drawn"
# What to say of such scores.
OUTDATED = (
    f"{OTHER_RULES}: score the same samples again by `cocoa evaluate … --rescore`, drawn answers "
    "anew with `--answer-temperature`, and calibrate by `cocoa calibrate`; labels of /feedback "
    "hold scores, and must be collected anew"
)
ALL = "all"  # the group of all labels, which every calibrator has
_GREATEST = float(np.finfo(np.float64).max)
_ANY: Range = (-_GREATEST, _GREATEST)

# Numbers of latest scores that are compared: a short window shows a large change soon, a long one a
# small one at all.
WINDOWS = (200, 1000)
# Answers between two looks at them: one takes as long as all scores of an answer.
_SHIFT_EVERY = 20
# Two-sided error of all windows' comparisons together: they are made again and again.
_SIGNIFICANCE = 1e-6


@dataclass(frozen=True, slots=True)
class Binding(Exact):
    """The origin of scores; scores of another origin are not comparable with them."""

    # Of the language model, for messages.
    model_id: str
    revision: str | None
    generator: str  # identity of the language model, with tokenizer, template and precision
    input: str  # "prompt", "messages" or "images" among them: the form of the request
    strategy: str  # the choice of answers
    # As in `SamplingParams`; the first four matter to scores of samples, two of these to draws.
    num_samples: int
    temperature: float
    top_k: int
    top_p: float
    stop: tuple[str, ...]
    max_new_tokens: int  # the limit that answers and samples had
    share_cut: float  # of the answers and samples, those that ended at that limit
    similarity: str  # name of the similarity function
    comparer: str  # identity of its similarity scorer, under the name that stored files give it
    nli: str | None  # identity of the NLI model; None where there was none
    probes: Mapping[str, str]  # sha256 of the probe by the statistic that it predicts
    # The kind of reasoning requested, by name (`app.scoring.ask.Ask.how_it_reasons`).
    reasoning: Mapping[str, int | str] = field(default_factory=dict)
    unit: str = "answer"  # the kind of text scored: "answer", or a kind of its parts
    # Of a JSON schema (`app.scoring.ask.Ask.schema_use`): "followed" where texts were held to it;
    # of parts "compared" where it says only how their values are compared, "called" where they
    # are of calls of tools; else "none".
    schema_use: str = "none"
    # Version of the rules that scores are made by (`models.similarity.rules.SCORED`).
    rules: int = UNNAMED_RULES
    # What says how far documents say a sentence: "nli", or "words".
    documents_judged_by: str = "words"
    # As they stand here but in files of 0.2, which are refused for their rules.
    distinct: bool = False
    stop_mass: float | None = None
    answer_temperature: float = 0.0  # of a drawn answer; 0 for another one

    @property
    def outdated(self) -> str:
        """Why its scores are not those of today, and what to do; "" where they are."""
        was_sample = self.strategy == "sample" and not self.answer_temperature  # until 0.3
        if self.rules == SCORED and not was_sample:
            return ""
        return OUTDATED


@dataclass(frozen=True, slots=True)
class Threshold(Exact):
    """Up to which uncertainty answers are accepted, so that few of them are wrong."""

    target_error: float  # largest wanted share of wrong answers among the accepted
    # An answer is accepted up to here; None where the labels allow no threshold.
    uncertainty: float | None
    # Of the labels, and of the accepted ones; None without one. Of parts of answers `share_wrong`
    # is the mean over answers of the wrong among the kept.
    share_accepted: float | None = None
    share_wrong: float | None = None
    # About so many more labels like these would allow one; None where there is one, or where no
    # number of them would.
    labels_missing: int | None = None
    share_pooled: float | None = None  # of parts of answers, the wrong among all that are kept

    def accepts(self, uncertainty: float | None) -> bool:
        if uncertainty is None or self.uncertainty is None:
            return False
        return uncertainty <= self.uncertainty


@dataclass(frozen=True, slots=True)
class Calibration(Exact):
    """The meaning of one estimator's uncertainties."""

    # "platt" or "isotonic", which made the curve; of parts of answers the latter is the mean over
    # draws of the answers.
    method: str
    knots: Annotated[Array, floats(_ANY)]  # (K,) uncertainties, ascending
    # (K,) P(correct) at the knots, never rising.
    confidences: Annotated[Array, floats(PROBABILITIES)]
    # (Q,) of the reference answers' uncertainties, ascending, from least to greatest.
    quantiles: Annotated[Array, floats(_ANY)]
    thresholds: tuple[Threshold, ...]  # one a target error
    # That it was fitted on.
    num_labels: int
    num_right: int

    def confidence(self, uncertainty: float) -> float:
        """P(correct) in [0, 1]: linear between the knots, beyond them that of the nearest."""
        return float(np.interp(uncertainty, self.knots, self.confidences))

    def percentile(self, uncertainty: float) -> float:
        """Percentage of the reference answers that are surer, ties counting half: in [0, 100]."""
        rounded = shortened(uncertainty)
        below = self.quantiles.searchsorted(rounded, "left")
        up_to = self.quantiles.searchsorted(rounded, "right")
        return float(50.0 * (below + up_to) / len(self.quantiles))

    def threshold(self, target_error: float) -> Threshold:
        """The threshold of a target error; nothing passes at one that was not fitted."""
        for threshold in self.thresholds:
            if threshold.target_error == target_error:
                return threshold
        return Threshold(target_error, None)


@dataclass(frozen=True, slots=True)
class Part:
    """Calibrations of the estimators for one way of asking."""

    binding: Binding  # the origin of scores that they hold for
    # Group, `ALL` among them, to estimator to calibration.
    groups: Mapping[str, Mapping[str, Calibration]]


@dataclass(frozen=True, slots=True)
class Calibrator:
    """The meaning of one deployment's scores, for each kind of request that was calibrated."""

    id: str  # short digest of the whole file
    source: str  # a description of the labels, without folders of whoever made it
    delta: float  # probability, over calibration sets, that a threshold breaks its promise
    parts: tuple[Part, ...]  # at least one; the first that is good for a request speaks of it
    # Sha256 of the file of its prompts (`models.probes.domain`); "" where its labels had none.
    prompts: str = ""

    @property
    def groups(self) -> list[str]:
        return list(dict.fromkeys(group for part in self.parts for group in part.groups))

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a calibrator.

        Raises:
            OSError: there is no such file.
            ValueError: it is none, or of another format.
        """
        content = path.read_bytes()
        try:
            file = _file(content)
            parts = tuple(chain.from_iterable(map(_parts, file.parts)))
            if not parts:
                raise ValueError("no parts")
        except ValueError as error:
            raise ValueError(f"{path} is no calibrator: {error}") from None
        number = hashlib.sha256(content).hexdigest()[:12]
        return cls(number, without_folders(file.source), file.delta, parts, file.prompts)


@dataclass(frozen=True, slots=True)
class _FilePart(Exact):
    """Bindings that share their calibrations."""

    bindings: tuple[Binding, ...]
    groups: Mapping[str, Mapping[str, Calibration]]


@dataclass(frozen=True, slots=True)
class _File(Exact):
    format: Literal[2]
    source: str
    delta: float
    parts: tuple[_FilePart, ...]
    prompts: str = ""


_file, binding_of = reader(_File), reader(Binding)


def _parts(part: _FilePart) -> list[Part]:
    """One for each binding."""
    if ALL not in part.groups:
        raise ValueError(f"no group {ALL!r}")
    for by_estimator in part.groups.values():
        for calibration in by_estimator.values():
            _check_curve(calibration)
    return [Part(binding, part.groups) for binding in part.bindings]


def _check_curve(calibration: Calibration) -> None:
    num_knots = len(calibration.knots)
    if not (num_knots and len(calibration.quantiles)) or num_knots != len(calibration.confidences):
        raise ValueError("no knots or no quantiles, or another number of confidences")
    if (np.diff(calibration.knots) < 0).any() or (np.diff(calibration.quantiles) < 0).any():
        raise ValueError("knots or quantiles that descend")
    if (np.diff(calibration.confidences) > 0).any():
        raise ValueError("confidence that rises with uncertainty")


def shortened(value: float) -> float:
    """A number with six digits, as quantiles have them: so equal scores stay equal to one.

    >>> shortened(0.6931471805599453)
    0.693147
    """
    return float(f"{value:.6g}")


def distance(quantiles: Array, uncertainties: Array) -> float:
    """Largest difference of the two distribution functions, in [0, 1]. Kolmogorov 1933.

    quantiles: (Q,) of the reference, ascending. uncertainties: (n,).
    """
    points = np.unique(np.concatenate([quantiles, uncertainties]))
    served = np.searchsorted(np.sort(uncertainties), points, "right") / len(uncertainties)
    reference = np.searchsorted(quantiles, points, "right") / len(quantiles)
    return float(np.abs(served - reference).max())


def critical_distance(num_reference: float, num_served: float, error: float) -> float:
    """Distance above which two samples of one distribution lie with probability `error`."""
    scale = math.sqrt(-math.log(error / 2) / 2)
    return scale * math.sqrt(1 / num_reference + 1 / num_served)


def shift(
    calibration: Calibration, served: Array, windows: Sequence[int] = WINDOWS, share: float = 1.0
) -> float:
    """The largest distance of a full window from the reference, as a share of what chance explains.

    Parts of one answer may be all alike: of parts as many count as answers have them, and the
    reference's answers are taken to have as many parts as the served ones.

    served: (n,) uncertainties, the latest last. 0 before a window is full.
    share: answers a number of `served`; below 1 where these are of parts.
    """
    largest = 0.0
    for size in windows:
        if len(served) < size:
            continue
        apart = distance(calibration.quantiles, served[-size:])
        numbers = calibration.num_labels * share, size * share
        limit = critical_distance(*numbers, _SIGNIFICANCE / len(windows))
        largest = max(largest, apart / limit)
    return largest


class ShiftMonitor:
    """The latest uncertainties of one calibrated estimator beside the reference's.

    Attributes:
        shift: how far they lie apart, as `shift` says; computed anew after every 20 of them.
    """

    def __init__(self, calibration: Calibration) -> None:
        self._calibration = calibration
        self._latest: deque[float] = deque(maxlen=max(WINDOWS))
        self._num_observed = self._num_answers = 0
        self.shift = 0.0

    @property
    def has_shifted(self) -> bool:
        return self.shift > 1

    def observe(self, *uncertainties: float) -> None:
        """Take the uncertainty of one answer that was computed, or those of its parts."""
        self._latest.extend(map(shortened, uncertainties))
        self._num_observed += len(uncertainties)
        self._num_answers += 1
        if self._num_answers % _SHIFT_EVERY == 0:
            share = self._num_answers / self._num_observed
            self.shift = shift(self._calibration, np.array(self._latest), share=share)
