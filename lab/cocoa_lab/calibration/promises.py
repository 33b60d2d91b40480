"""What becomes of a promise over many calibrations, and where traffic shifts from kind to kind.

    python -m cocoa_lab.calibration.promises FOLDER … --estimator rb_cocoa_sp --num-labels 300
    python -m cocoa_lab.calibration.promises FOLDER … --made-of OTHER

Each folder is one of `cocoa evaluate`, whose answers stand for all that are to come. Of a run over
parts the labels of an answer's parts are drawn together, and `--num-labels` counts answers. With
`--made-of` the labels are another run's, of another form of prompts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from app.scoring.defaults import DEFAULT_ESTIMATORS
from cocoa_lab.answers import answers_of
from cocoa_lab.calibration.fitting import CannotCalibrate, fit
from cocoa_lab.calibration.prompts import STATES, domain_of, read_states
from cocoa_lab.calibration.thresholds import Counts
from cocoa_lab.comparison import Column
from cocoa_lab.lines import objects_in
from cocoa_lab.metrics import ece, expected_ece
from cocoa_lab.overwriting import UNITS
from cocoa_lab.rendering import markdown_table
from models.calibration import Calibration, ShiftMonitor
from models.records import Array

_LONGEST_STREAM = 2000


@dataclass(frozen=True, slots=True)
class Promise:
    """What calibrations of so many labels promised, and what all answers say of it.

    Attributes:
        num_draws: calibrations that could be fitted.
        share_promised: of them, those that have a threshold.
        share_broken: of all, those whose threshold accepts more wrong ones than promised.
        accepted: mean share of the answers that pass, 0 without a threshold.
        best: the largest share that any threshold of this score could let pass.
        ece, expected: mean calibration error, and what exact confidences would show on as many.
    """

    num_draws: int
    share_promised: float
    share_broken: float
    accepted: float
    best: float
    ece: float
    expected: float


@dataclass(frozen=True, slots=True)
class Shift:
    """A kind of question that the calibration never had, as the only one from some moment on.

    Attributes:
        share_told: of streams, those that raise the alarm within 2,000 answers.
        until: median answers until the alarm; None where most streams raise none.
        accepted, wrong: share of the kind's answers that pass, and of these that are wrong.
    """

    kind: str
    share_told: float
    until: float | None
    accepted: float
    wrong: float | None


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """What promises are worth for another form of prompts than their labels had.

    Attributes:
        share_promised: of calibrations, those that have a threshold.
        share_broken: of these, those whose threshold accepts more wrong ones than promised.
        accepted, wrong: mean share of the answers that pass, and of these that are wrong.
    """

    share_promised: float
    share_broken: float
    accepted: float
    wrong: float


def elsewhere(
    made_of: tuple[Array, Array],
    met: tuple[Array, Array],
    *,
    num_labels: int,
    target: float,
    num_draws: int = 1000,
    seed: int = 0,
) -> Elsewhere:
    """Calibrations of labels of one form, held to all answers of another.

    made_of, met: uncertainties (n,), finite, and whether each answer is right (n,), 0 or 1.
    """
    rng = np.random.default_rng(seed)
    uncertainty, correct = met
    accepted, wrong = [], []
    for _ in range(num_draws):
        rows = rng.integers(len(made_of[0]), size=num_labels)
        try:
            one = fit(made_of[0][rows], made_of[1][rows])
        except CannotCalibrate:
            continue
        if one.threshold(target).uncertainty is not None:
            passes = _accepted(one, target, uncertainty)
            accepted.append(passes.mean())
            wrong.append(_loss(passes, correct, None) if passes.any() else 0.0)
    is_broken = np.array(wrong) > target
    return Elsewhere(
        share_promised=len(accepted) / num_draws,
        share_broken=float(np.mean(is_broken)) if accepted else 0.0,
        accepted=float(np.mean(accepted or [0.0])),
        wrong=float(np.mean(wrong or [0.0])),
    )


def promise(
    uncertainty: Array,
    correct: Array,
    *,
    num_labels: int,
    target: float,
    num_draws: int = 1000,
    seed: int = 0,
    answers: Counts | None = None,
) -> Promise:
    """Calibrations of labels that are drawn with replacement, held to all answers.

    Args:
        uncertainty: (n,), finite.
        correct: (n,), 0 or 1.
        num_labels: of each calibration.
        target: promised share of wrong ones among the accepted.
        num_draws: calibrations.
        seed: of the draws.
        answers: (n,) which labels are of parts of one answer; then answers are drawn, and
            `num_labels` counts them. None where each is an answer.
    """
    rng = np.random.default_rng(seed)
    rows_of = _rows_of(np.arange(len(correct)) if answers is None else answers)
    accepted: list[float] = []
    errors: list[float] = []
    broken = promised = 0
    for _ in range(num_draws):
        drawn = [rows_of[answer] for answer in rng.integers(len(rows_of), size=num_labels)]
        rows, drawn_answers = np.concatenate(drawn), None
        if answers is not None:  # one that is drawn twice counts as two
            drawn_answers = np.repeat(np.arange(num_labels), list(map(len, drawn)))
        try:
            one = fit(uncertainty[rows], correct[rows], drawn_answers)
        except CannotCalibrate:
            continue
        passes = _accepted(one, target, uncertainty)
        accepted.append(float(passes.mean()))
        promised += bool(passes.any())
        broken += bool(passes.any()) and _loss(passes, correct, answers) > target
        confidence = np.interp(uncertainty, one.knots, one.confidences)
        errors.append(_known(ece(confidence, correct)))
    best = 0.0
    for level in np.unique(uncertainty):
        passes = uncertainty <= level
        if _loss(passes, correct, answers) <= target:
            best = float(passes.mean())
    num_fitted = max(len(accepted), 1)
    exact = np.interp(uncertainty, *_curve(uncertainty, correct))
    return Promise(
        num_draws=len(accepted),
        share_promised=promised / num_fitted,
        share_broken=broken / num_fitted,
        accepted=float(np.mean(accepted or [0.0])),
        best=best,
        ece=float(np.mean(errors or [np.nan])),
        expected=_known(expected_ece(exact, correct, num_draws=200)),
    )


def shifts(
    uncertainty: Array,
    correct: Array,
    kinds: Sequence[str],
    *,
    num_labels: int,
    target: float,
    num_streams: int = 200,
    seed: int = 0,
) -> list[Shift]:
    """Each kind as the only one that is served after a calibration on the others."""
    rng, found = np.random.default_rng(seed), []
    names = np.array(kinds)
    for kind in dict.fromkeys(kinds):
        others, own = np.flatnonzero(names != kind), np.flatnonzero(names == kind)
        until, passed, wrong = [], 0, 0
        num_served = 0
        for _ in range(num_streams):
            rows = rng.choice(others, size=num_labels)
            try:
                one = fit(uncertainty[rows], correct[rows])
            except CannotCalibrate:
                continue
            served = rng.choice(own, size=_LONGEST_STREAM)
            length = _until_alarm(one, uncertainty[served])
            until.append(length)
            passes = _accepted(one, target, uncertainty[served[: int(min(length, len(served)))]])
            passed += int(passes.sum())
            wrong += int((1 - correct[served[: len(passes)]][passes]).sum())
            num_served += len(passes)
        if not until:
            continue  # the others cannot be calibrated
        told = np.isfinite(until)
        found.append(
            Shift(
                kind=kind,
                share_told=float(told.mean()),
                until=float(np.median(until)) if told.mean() > 0.5 else None,
                accepted=passed / max(num_served, 1),
                wrong=wrong / passed if passed else None,
            )
        )
    return found


def main(
    folders: Annotated[list[Path], typer.Argument(help="Of `cocoa evaluate`, greedy answers.")],
    estimator: Annotated[str, typer.Option(help="Whose scores are calibrated.")] = (
        DEFAULT_ESTIMATORS[0]
    ),
    num_labels: Annotated[int, typer.Option(help="Of each calibration.")] = 300,
    target: Annotated[float, typer.Option(help="Promised share of wrong ones.")] = 0.1,
    made_of: Annotated[Path | None, typer.Option(help="A run whose labels promise.")] = None,
) -> None:
    """Print what the promise is worth on each run's answers, and by kind what a shift does."""
    if made_of is not None:
        typer.echo(_elsewhere(made_of, folders, estimator, num_labels, target))
        return
    rows, of_shifts = [], []
    for folder in folders:
        answers, is_of_parts = None, (folder / UNITS).exists()
        column = parts_of(folder) if is_of_parts else answers_of(folder)
        known = ~np.isnan(column.scores[estimator]) & ~np.isnan(column.quality)
        u, correct = column.scores[estimator][known], (column.quality[known] == 1).astype(float)
        if is_of_parts:
            _, of_prompts = np.unique(column.ids, return_inverse=True)
            answers = of_prompts[known]
        one = promise(u, correct, num_labels=num_labels, target=target, answers=answers)
        row = [folder.name, str(len(u)), f"{correct.mean():.2f}"]
        row += [f"{value:.3f}" for value in (one.share_promised, one.share_broken, one.accepted)]
        row += [f"{value:.3f}" for value in (one.best, one.ece, one.expected)]
        rows.append(row)
        kinds = [kind for kind, is_known in zip(column.kinds, known, strict=True) if is_known]
        if len(set(kinds)) > 1 and not is_of_parts:
            for shift in shifts(u, correct, kinds, num_labels=num_labels, target=target):
                wrong = "-" if shift.wrong is None else f"{shift.wrong:.2f}"
                until = "-" if shift.until is None else f"{shift.until:.0f}"
                told = [f"{shift.share_told:.2f}", until, f"{shift.accepted:.2f}", wrong]
                of_shifts.append([folder.name, shift.kind, *told])
    head = ["answers", "n", "right", "promised", "broken", "accepted", "at best", "ECE", "exact"]
    typer.echo(markdown_table(head, rows))
    if of_shifts:
        head = ["answers", "kind", "told", "answers until then", "accepted", "wrong of these"]
        typer.echo(markdown_table(head, of_shifts))


def _elsewhere(
    made_of: Path, folders: Sequence[Path], estimator: str, num_labels: int, target: float
) -> str:
    """The table of other forms.

    It has the share of prompts that the calibrator calls foreign, where the model ran here: what
    it once wrote tells no states of prompts.
    """

    def known_of(folder: Path) -> tuple[Array, Array]:
        column = answers_of(folder, of_every_task=True)
        known = ~np.isnan(column.scores[estimator]) & ~np.isnan(column.quality)
        return column.scores[estimator][known], (column.quality[known] == 1).astype(float)

    of_form, domain = known_of(made_of), None
    if (made_of / STATES).exists():
        domain = domain_of([made_of])
    rows = []
    for folder in folders:
        one = elsewhere(of_form, known_of(folder), num_labels=num_labels, target=target)
        told = one.share_promised, one.share_broken, one.accepted, one.wrong
        foreign = "-"
        if domain is not None and (folder / STATES).exists():
            states = read_states(folder / STATES).by_id.values()
            are_foreign = [domain.is_foreign(state.astype(np.float64)) for state in states]
            foreign = f"{np.mean(are_foreign):.2f}"
        rows.append([folder.name, *map("{:.2f}".format, told), foreign])
    head = ["answers", "promised", "broken of these", "accepted", "wrong of these", "foreign"]
    return markdown_table(head, rows)


def parts_of(folder: Path) -> Column:
    """The labelled parts of a run over parts, with the ids of their answers' prompts."""
    lines = list(objects_in(folder / UNITS))
    scores = {}
    for name in lines[0]["scores"]:
        scores[name] = np.array([line["scores"][name] for line in lines], dtype=np.float64)
    correct = np.array([line["correct"] for line in lines])
    kinds, ids = [line["task"] for line in lines], [line["id"] for line in lines]
    return Column(folder.name, correct, is_binary=True, scores=scores, kinds=kinds, ids=ids)


def _loss(passes: NDArray[np.bool_], correct: Array, answers: Counts | None) -> float:
    """What a target bounds: the wrong ones among those that pass; of parts its mean over answers.

    An answer of which no part passes has none.
    """
    wrong = passes * (1 - correct)
    if answers is None:
        return float(wrong.sum() / passes.sum())
    num_passing, num_wrong = np.bincount(answers, passes), np.bincount(answers, wrong)
    return float((num_wrong / np.maximum(num_passing, 1)).mean())


def _rows_of(answers: Counts) -> list[Counts]:
    """The rows of each answer, in the order of their numbers."""
    order = np.argsort(answers, kind="stable")
    _, starts = np.unique(answers[order], return_index=True)
    return np.split(order, starts[1:])


def _accepted(one: Calibration, target: float, uncertainty: Array) -> NDArray[np.bool_]:
    threshold = one.threshold(target)
    if threshold.uncertainty is None:
        return np.zeros(len(uncertainty), dtype=bool)
    return uncertainty <= threshold.uncertainty


def _until_alarm(one: Calibration, uncertainty: Array) -> float:
    monitor = ShiftMonitor(one)
    for number, value in enumerate(uncertainty.tolist(), start=1):
        monitor.observe(value)
        if monitor.has_shifted:
            return number
    return float("inf")


def _known(error: float | None) -> float:
    return np.nan if error is None else error


def _curve(uncertainty: Array, correct: Array) -> tuple[Array, Array]:
    """The curve of all answers, which stands for exact confidences."""
    one = fit(uncertainty, correct)
    return one.knots, one.confidences


if __name__ == "__main__":
    typer.run(main)
