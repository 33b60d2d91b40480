"""What the scores of the labelled parts of a run are worth."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from app.scoring.units import ScoredUnit
from cocoa_lab.calibration.checking import cross_check
from cocoa_lab.judges import Verdict
from cocoa_lab.metrics import Interval, auroc, ece, prr
from cocoa_lab.parts.labelling import LabelledParts
from cocoa_lab.parts.measures import Answers, Kept, agreement, clustered, kappa, kept_at
from cocoa_lab.parts.running import PartsRun
from models.records import Array

# What samples say against a sentence, beside the estimators: alone, and as a share of what they say
# of it at all.
_CONTRADICTION, _SHARE_DENIED = "contradiction", "contradiction / (support + contradiction)"
_LEAST = 1e-9  # keeps that share finite where they say nothing

Metric = Callable[[Array, Array], float | None]
Metrics = Mapping[str, Interval | None]
Rows = NDArray[np.bool_]

_RANKING: Mapping[str, Metric] = {"prr": prr, "roc_auc": auroc}


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far the labels of a judge are those by rule.

    Attributes:
        counts: of the right parts, then of the wrong ones: how many the judge calls right, how many
            wrong, and of how many it says nothing, which the other values leave out.
        agreement: share of the parts of which both say the same.
        kappa: agreement beyond that of chance.
    """

    counts: tuple[tuple[int, int, int], tuple[int, int, int]]
    agreement: Interval | None
    kappa: Interval | None


@dataclass(frozen=True, slots=True)
class Measured:
    """What the scores of all labelled parts are worth.

    Attributes:
        metrics: estimator to metric to its value; None where it is undefined. `lead` is how far the
            primary estimator's PRR lies above its own.
        by_draw: of each further draw of samples, estimator to its PRR.
        errors: kind of error to how many parts have it, and the ROC-AUC of telling these from the
            right ones by the primary estimator.
        kept: estimator to what is left while parts are dropped by it.
        num_parts, num_right: labelled ones.
        judge: against the labels by rule; None where not both are there.
    """

    metrics: Mapping[str, Metrics]
    by_draw: Mapping[str, Metrics]
    errors: Mapping[str, tuple[int, Interval | None]]
    kept: Mapping[str, Sequence[Kept]]
    num_parts: int
    num_right: int
    judge: Agreement | None = None


class _Measuring:
    """Metrics of scores of the same labelled parts, with intervals over their answers."""

    def __init__(self, run: PartsRun, num_resamples: int, seed: int) -> None:
        verdicts: list[Verdict] = []
        answers: list[int] = []
        for number, one in enumerate(run.answers):
            verdicts += one.labelled.verdicts
            answers += [number] * len(one.labelled.verdicts)
        self.correct = np.array([one.is_right for one in verdicts], dtype=np.float64)
        self.errors = np.array([one.error or "" for one in verdicts])
        self.answers: Answers = np.array(answers, dtype=int)
        self._num_resamples, self._seed = num_resamples, seed

    def interval(self, metric: Metric, values: Array, rows: Rows) -> Interval | None:
        """Of values (n,) or (n, 2), of which only these rows count."""
        return clustered(
            metric,
            values[rows],
            self.correct[rows],
            self.answers[rows],
            num_resamples=self._num_resamples,
            seed=self._seed,
        )

    def all_of(self, u: Array, primary: Array | None) -> dict[str, Interval | None]:
        """PRR, its distance from the primary estimator's, ROC-AUC and the calibration error."""
        known = ~np.isnan(u)
        found = {name: self.interval(one, u, known) for name, one in _RANKING.items()}
        found["ece"] = None
        check = cross_check(u[known], self.correct[known], self.answers[known])
        if check is not None:
            confidence = np.full(len(u), np.nan)
            confidence[known] = check.confidence
            found["ece"] = self.interval(ece, confidence, known)
        found["lead"] = None
        if primary is not None and primary is not u:
            both = known & ~np.isnan(primary)
            found["lead"] = self.interval(_lead, np.stack([primary, u], axis=1), both)
        return found

    def of_errors(self, u: Array) -> dict[str, tuple[int, Interval | None]]:
        """How many parts have each kind of error, and how well they are told from right ones."""
        found: dict[str, tuple[int, Interval | None]] = {}
        for kind in sorted({*self.errors.tolist()} - {""}):
            of_kind = self.errors == kind
            rows = ~np.isnan(u) & (of_kind | (self.correct == 1))
            found[kind] = int(of_kind.sum()), self.interval(auroc, u, rows)
        return found

    def of_judge(self, said: Array, by_rule: Rows) -> Agreement:
        """Of a judge's 1 (right), 0 (wrong) and NaN (neither) of the parts with labels by rule."""
        counts = []
        for value in (1, 0):
            of_value = said[by_rule & (self.correct == value)]
            right, wrong = int((of_value == 1).sum()), int((of_value == 0).sum())
            counts.append((right, wrong, len(of_value) - right - wrong))
        told = by_rule & ~np.isnan(said)
        if not told.any():
            return Agreement((counts[0], counts[1]), None, None)
        values = [self.interval(metric, said, told) for metric in (agreement, kappa)]
        return Agreement((counts[0], counts[1]), *values)


def measure(run: PartsRun, num_resamples: int, seed: int) -> Measured:
    """PRR at 50 %, ROC-AUC and the calibration error of each estimator, on each draw of samples.

    Calibration errors are those of confidences by curves that were fitted on the parts of other
    answers.
    """
    measuring = _Measuring(run, num_resamples, seed)
    scores = _scores([one.labelled for one in run.answers])
    primary = scores.get(run.primary)
    metrics: dict[str, Metrics] = {}
    kept: dict[str, Sequence[Kept]] = {}
    for name, u in scores.items():
        metrics[name] = measuring.all_of(u, primary)
        known = ~np.isnan(u)
        kept[name] = kept_at(u[known], measuring.correct[known], measuring.answers[known])
    by_draw: dict[str, Metrics] = {}
    for draw in run.answers[0].by_draw:
        of_draw = _scores([one.by_draw[draw] for one in run.answers])
        by_draw[draw] = {
            name: measuring.interval(prr, u, ~np.isnan(u)) for name, u in of_draw.items()
        }
    errors: dict[str, tuple[int, Interval | None]] = {}
    if primary is not None:
        errors = measuring.of_errors(primary)
    num_right = int(measuring.correct.sum())
    found = Measured(metrics, by_draw, errors, kept, len(measuring.correct), num_right)
    if not any(one.labelled.judgements for one in run.answers):
        return found
    said, by_rule = _said([one.labelled for one in run.answers])
    return replace(found, judge=measuring.of_judge(said, by_rule))


def _lead(scores: Array, correct: Array) -> float | None:
    """How far the PRR of the first of two scores (n, 2) lies above that of the second."""
    first, second = prr(scores[:, 0], correct), prr(scores[:, 1], correct)
    if first is None or second is None:
        return None
    return first - second


def _said(answers: Sequence[LabelledParts]) -> tuple[Array, Rows]:
    """Of each labelled part (n,) a judge's word, NaN for none, and whether its label is by rule."""
    said = np.full(sum(len(one.parts) for one in answers), np.nan)
    by_rule = np.zeros(len(said), dtype=bool)
    row = 0
    for one in answers:
        for number, verdict in enumerate(one.judgements, row):
            by_rule[number] = True
            if verdict is not None:
                said[number] = verdict.is_right
        row += len(one.parts)
    return said, by_rule


def _scores(answers: Sequence[LabelledParts]) -> dict[str, Array]:
    """Scores (n,) of all labelled parts by estimator, NaN where one has none.

    Those that no part has are left out.
    """
    rows = [_signals(part) for one in answers for part in one.parts]
    found: dict[str, Array] = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        u = np.array([row.get(name) for row in rows], dtype=np.float64)  # NaN for None
        if not np.isnan(u).all():
            found[name] = u
    return found


def _signals(part: ScoredUnit) -> dict[str, float | None]:
    """Scores of a part and, of a sentence, what its samples say against it."""
    says, denies = part.unit.support, part.unit.contradiction
    if says is None or denies is None:
        return dict(part.scores)
    share = denies / (says + denies + _LEAST)
    return {**part.scores, _CONTRADICTION: denies, _SHARE_DENIED: share}
