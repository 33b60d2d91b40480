"""What training and evaluating a probe leave behind: tables, report.md, results.json."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from cocoa_lab.overwriting import RESULTS
from cocoa_lab.probes.comparing import (
    MAX_LOSS_ON_AVERAGE,
    MAX_LOSS_PER_TASK,
    Contrast,
    light_name,
    within_bounds,
)
from cocoa_lab.probes.evaluation import ProbeEvaluation
from cocoa_lab.probes.training import Trained
from cocoa_lab.rendering import markdown_table
from cocoa_lab.report import number, signed
from models.probes.card import Card


def show_training(card: Card, trained: Trained) -> None:
    """Print the best validation loss of every layer, and the figures of the chosen one."""
    title = f"{card.target}, {card.architecture}"
    table = Table("layer", "epochs", "best validation loss", title=title)
    by_layer: dict[int, list[float]] = {}
    for epoch in trained.epochs:
        by_layer.setdefault(epoch.layer, []).append(epoch.validation_loss)
    for layer, losses in by_layer.items():
        mark = " (chosen)" * (layer == trained.layer)
        table.add_row(f"{layer}{mark}", str(len(losses)), f"{min(losses):.5f}")
    console = Console()
    console.print(table)
    for split, metrics in trained.metrics.items():
        figures = []
        for name, value in metrics.items():
            if value is not None:
                figures.append(f"{name} {value:.4f}")
        console.print(f"{split} ({trained.sizes[split]} answers): {', '.join(figures)}")


def settings_of(card: Card, dataset: str, seed: int) -> dict[str, Any]:
    """What an evaluation has in common with those that may replace its results."""
    return {"command": "probe evaluate", "probe": card.sha256, "dataset": dataset, "seed": seed}


def write_evaluation(
    evaluation: ProbeEvaluation, out: Path, command: str, dataset: str, seed: int
) -> None:
    """report.md and results.json.

    dataset, seed: of the prompts.
    """
    (out / "report.md").write_text(_markdown(evaluation, command), encoding="utf-8")
    results = {
        "settings": settings_of(evaluation.card, dataset, seed),
        "num_prompts": evaluation.num_answers,
        "command": command,
        "card": asdict(evaluation.card),
        "num_answers": evaluation.num_answers,
        "num_own_prompts": evaluation.num_own,
        "agreement": evaluation.agreements,
        "contrasts": list(map(_contrast_json, evaluation.contrasts)),
        "notes": list(evaluation.notes),
    }
    (out / RESULTS).write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def _contrast_json(one: Contrast) -> dict[str, Any]:
    return asdict(one) | {"within_bounds": within_bounds(one)}


def _markdown(evaluation: ProbeEvaluation, command: str) -> str:
    card = evaluation.card
    parts = [
        f"# Light against full: {card.target}",
        f"    {command}",
        f"Probe `{card.sha256[:12]}` on layer {card.layer} of {card.model_id} ({card.revision}), "
        f"{card.architecture}, "
        f"trained on {card.sizes['training']} answers to {card.training_set}; "
        f"measured on {evaluation.num_answers} answers, {_own(evaluation)}.",
        "## Predictions against samples",
    ]
    for probe, by_task in evaluation.agreements.items():
        parts += [f"### A probe {probe}", _agreement_table(by_task)]
    parts.append("## PRR")
    for probe in evaluation.by_probe:
        own = [one for one in evaluation.contrasts if one.probe == probe]
        parts += [f"### A probe {probe}", _contrast_table(own)]
    bound = f"{MAX_LOSS_PER_TASK} on each task and {MAX_LOSS_ON_AVERAGE} on average"
    parts.append(
        f"Difference: light minus full on the same prompts, 95 % interval. "
        f"Bound: a loss of at most {bound}. It is kept where every interval lies at or above it, "
        "and not where one lies below; all else cannot be judged."
    )
    if evaluation.notes:
        parts += ["## Notes", "\n".join(f"- {note}" for note in evaluation.notes)]
    return "\n\n".join(parts) + "\n"


def _own(evaluation: ProbeEvaluation) -> str:
    if evaluation.num_own is None:
        return "how many of them to its own prompts only its collection (`--collected`) tells"
    return f"{evaluation.num_own or 'none'} of them to its own prompts"


def _agreement_table(by_task: Mapping[str, Mapping[str, float | None]]) -> str:
    names = list(next(iter(by_task.values())))
    lines = []
    for task, values in by_task.items():
        lines.append([task, *map(number, values.values())])
    return markdown_table(["task", *names], lines)


def _contrast_table(contrasts: Sequence[Contrast]) -> str:
    columns, left_out = contrasts[0].columns, contrasts[0].left_out
    figures = []
    for column in columns:
        mark = " (left out)" * (column in left_out)
        figures.append(f"{column}{mark}: full, light, difference")
    lines = []
    for one in contrasts:
        cells = [_contrast_cell(one, column) for column in columns]
        lines.append([f"`{light_name(one.name)}`", *cells, within_bounds(one)])
    return markdown_table(["score", *figures, "within the bound"], lines)


def _contrast_cell(one: Contrast, column: str) -> str:
    if column not in one.differences:
        return "-"
    full, light, lost = one.full[column], one.light[column], one.differences[column]
    interval = f"[{signed(lost.low)}, {signed(lost.high)}]"
    return f"{number(full.value)}, {number(light.value)}, **{signed(lost.value)}** {interval}"
