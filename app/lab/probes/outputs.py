"""What training and evaluating a probe leave behind: tables, plots, report.md, results.json."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from app.lab.comparison import MEAN
from app.lab.datasets import Example
from app.lab.plots import save
from app.lab.probes.checkpoint import Epoch
from app.lab.probes.collection import Collection
from app.lab.probes.comparing import (
    MAX_LOSS_ON_AVERAGE,
    MAX_LOSS_PER_TASK,
    SEEN,
    UNSEEN,
    Contrast,
    Predicted,
    agreement,
    contrasts,
    leave_one_out,
    light_name,
    predictions,
    within_bounds,
)
from app.lab.probes.from_collection import Training
from app.lab.probes.plots import difference_figure, loss_figure, prediction_figure
from app.lab.probes.training import Trained
from app.lab.quality import QUALITY, default_quality
from app.lab.report import markdown_table, number, signed
from models.metrics import Interval
from models.probes.card import Card, Target, check_model
from models.probes.probe import TrainedProbe
from models.records import Array


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What is to be measured.

    Attributes:
        measured: answers to `examples`, with features of all layers of `training`.
        training: the probe's own collection; None leaves no task out.
        quality: name of the measure; None takes each task's own.
    """

    probe: TrainedProbe
    measured: Collection
    examples: Sequence[Example]
    training: Collection | None
    quality: str | None
    num_resamples: int
    seed: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was measured, by probe: the one as it is, and those that never saw the task."""

    card: Card
    num_answers: int
    by_probe: Mapping[str, Predicted]
    agreements: Mapping[str, Mapping[str, Mapping[str, float | None]]]
    contrasts: Sequence[Contrast]
    true: Array


def show_training(card: Card, trained: Trained) -> None:
    """Print the best validation loss of every layer, and the figures of the chosen one."""
    table = Table(
        "layer", "epochs", "best validation loss", title=f"{card.target}, {card.architecture}"
    )
    for layer in dict.fromkeys(epoch.layer for epoch in trained.epochs):
        losses = [epoch.validation_loss for epoch in trained.epochs if epoch.layer == layer]
        mark = " (chosen)" if layer == trained.layer else ""
        table.add_row(f"{layer}{mark}", str(len(losses)), f"{min(losses):.5f}")
    console = Console()
    console.print(table)
    for split, metrics in trained.metrics.items():
        figures = ", ".join(
            f"{name} {value:.4f}" for name, value in metrics.items() if value is not None
        )
        console.print(f"{split} ({trained.sizes[split]} answers): {figures}")


def write_training_plots(trained: Trained, target: Target, out: Path) -> None:
    """Loss curves, and predictions against the truth on the third split."""
    folder = out / "plots"
    folder.mkdir(exist_ok=True)
    save(loss_figure(trained.epochs, trained.layer), folder / "losses")
    predicted, true = trained.predictions
    title = f"{target}, {len(true)} answers of the third split"
    save(prediction_figure(predicted, true, title), folder / "predictions")


def evaluate_probe(asked: Evaluation, out: Path, on_epoch: Callable[[Epoch], None]) -> Outcome:
    """Predictions of the probe, measured.

    Where its collection is at hand, those of probes that never saw the task are measured too.

    Raises:
        ProbeMismatch: the probe is another model's than the answers.
    """
    card, measured = asked.probe.card, asked.measured
    check_model(card, measured.header.model, measured.header.revision)
    by_probe = {SEEN: predictions(asked.probe, measured)}
    if asked.training is not None:
        how = Training(card.target, card.architecture, seed=card.seed)
        by_probe[UNSEEN] = leave_one_out(asked.training, how, measured, out / "left-out", on_epoch)
    quality, is_binary = _quality(asked)
    return Outcome(
        card=card,
        num_answers=len(measured.rows),
        by_probe=by_probe,
        agreements={
            name: agreement(measured, card, predicted) for name, predicted in by_probe.items()
        },
        contrasts=contrasts(
            measured,
            card.target,
            quality,
            is_binary,
            by_probe,
            num_resamples=asked.num_resamples,
            seed=asked.seed,
        ),
        true=np.array([row.scores.get(card.target) for row in measured.rows], dtype=np.float64),
    )


def write_evaluation(outcome: Outcome, out: Path, command: str) -> None:
    """report.md, results.json and plots."""
    folder = out / "plots"
    folder.mkdir(exist_ok=True)
    by_name: dict[str, dict[str, Mapping[str, Interval]]] = {}
    for one in outcome.contrasts:
        by_name.setdefault(light_name(one.name), {})[one.probe] = one.differences
    columns = list(outcome.contrasts[0].full)
    bounds = {
        column: MAX_LOSS_ON_AVERAGE if column == MEAN else MAX_LOSS_PER_TASK for column in columns
    }
    save(difference_figure(by_name, bounds), folder / "light-full")
    true = (
        outcome.true
        if outcome.card.split is None
        else (outcome.true > outcome.card.split).astype(float)
    )
    title = f"{outcome.card.target}, {outcome.num_answers} answers"
    save(prediction_figure(outcome.by_probe[SEEN].values, true, title), folder / "predictions")
    (out / "report.md").write_text(_markdown(outcome, columns, command), encoding="utf-8")
    results = {
        "command": command,
        "card": asdict(outcome.card),
        "num_answers": outcome.num_answers,
        "agreement": outcome.agreements,
        "contrasts": [
            asdict(one) | {"within_bounds": within_bounds(one)} for one in outcome.contrasts
        ],
    }
    (out / "results.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def _quality(asked: Evaluation) -> tuple[Array, bool]:
    """Quality (N,) of the answers, and whether it is 0 or 1 on all tasks."""
    by_id = {example.id: example for example in asked.examples}
    rows = asked.measured.rows
    values, binary = np.full(len(rows), np.nan), True
    for task in dict.fromkeys(row.task for row in rows):
        index = [i for i, row in enumerate(rows) if row.task == task]
        measure = QUALITY[asked.quality or default_quality(task)]
        values[index] = measure([rows[i].text for i in index], [by_id[rows[i].id] for i in index])
        binary = binary and measure.is_binary
    return values, binary


def _markdown(outcome: Outcome, columns: Sequence[str], command: str) -> str:
    card = outcome.card
    facts = [
        f"    {command}",
        f"Probe `{card.sha256[:12]}` on layer {card.layer} of {card.model_id} ({card.revision}), "
        f"{card.architecture}, "
        f"trained on {card.sizes['training']} answers to {card.training_set}; "
        f"measured on {outcome.num_answers} other answers.",
    ]
    parts = [f"# Light against full: {card.target}", *facts, "## Predictions against samples"]
    for probe, by_task in outcome.agreements.items():
        names = list(next(iter(by_task.values())))
        rows = [
            [task, *(_shown(values[name]) for name in names)] for task, values in by_task.items()
        ]
        parts += [f"### A probe {probe}", markdown_table(["task", *names], rows)]
    parts.append("## PRR")
    for probe in outcome.by_probe:
        parts += [
            f"### A probe {probe}",
            _contrast_table([c for c in outcome.contrasts if c.probe == probe], columns),
        ]
    bound = f"{MAX_LOSS_PER_TASK} on each task and {MAX_LOSS_ON_AVERAGE} on average"
    parts.append(
        f"Difference: light minus full on the same prompts, 95 % interval. "
        f"Bound: a loss of at most {bound}."
    )
    return "\n\n".join(parts) + "\n"


def _contrast_table(rows: Sequence[Contrast], columns: Sequence[str]) -> str:
    head = [
        "score",
        *(f"{column}: full, light, difference" for column in columns),
        "within the bound",
    ]
    lines = []
    for one in rows:
        cells = [_contrast_cell(one, column) for column in columns]
        lines.append([f"`{light_name(one.name)}`", *cells, "yes" if within_bounds(one) else "no"])
    return markdown_table(head, lines)


def _contrast_cell(one: Contrast, column: str) -> str:
    if column not in one.differences:
        return "-"
    full, light, lost = one.full[column], one.light[column], one.differences[column]
    interval = f"[{signed(lost.low)}, {signed(lost.high)}]"
    return f"{number(full.value)}, {number(light.value)}, **{signed(lost.value)}** {interval}"


def _shown(value: float | None) -> str:
    return "-" if value is None else number(value)
