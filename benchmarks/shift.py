"""How often the monitor of a calibrator's scores tells a change, and how soon; and false alarms.

A simulation over scores that `cocoa evaluate` has left: a calibration is drawn from a run's labels,
then a stream is served: of the remaining prompts, of one of their tasks, or of another model's.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from models.calibration import WINDOWS, Calibration, shift
from models.records import Array

_NUM_LABELS, _NUM_SERVED = 1000, 2000


def main(
    results: Annotated[Path, typer.Argument(help="Of `cocoa evaluate`, of the model that serves.")],
    other: Annotated[Path, typer.Argument(help="Of another model, of the same prompts.")],
    estimator: str = "rb_cocoa_sp",
    tasks: Annotated[
        str, typer.Option(help="Of the calibration.")
    ] = "facts,arithmetic,translation",
    streams: Annotated[int, typer.Option(help="Of each kind.")] = 200,
    unchanged_streams: Annotated[int, typer.Option(help="Without a change.")] = 600,
) -> None:
    """Print the share of streams that raise an alarm, by the first window alone and by both."""
    names = tasks.split(",")
    own, another = _scores(results, estimator, names), _scores(other, estimator, names)
    alone, both = {}, {}
    for served in ("unchanged", *names, "another model"):
        number = unchanged_streams if served == "unchanged" else streams
        alone[served] = _shares(own, another, served, WINDOWS[:1], number)
        both[served] = _shares(own, another, served, WINDOWS, number)
    typer.echo("| served | alarm by 1,000 | by 2,000 | one window alone, by 2,000 |")
    typer.echo("|---|---|---|---|")
    for served, (early, late) in both.items():
        typer.echo(f"| {served} | {early:.3f} | {late:.3f} | {alone[served][1]:.3f} |")


def _scores(folder: Path, estimator: str, tasks: list[str]) -> dict[str, Array]:
    """Uncertainties by task, of the run's first variant."""
    found: dict[str, list[float]] = {task: [] for task in tasks}
    variant = None
    with (folder / "scores.jsonl").open(encoding="utf-8") as lines:
        for line in map(json.loads, lines):
            this: Any = line["strategy"], line["similarity"], line["draw"]
            variant = variant or this
            if this == variant and line["task"] in found:
                found[line["task"]].append(line["scores"][estimator])
    return {task: np.array(scores) for task, scores in found.items()}


def _shares(
    own: Mapping[str, Array],
    another: Mapping[str, Array],
    served: str,
    windows: tuple[int, ...],
    streams: int,
) -> tuple[float, float]:
    """Shares of streams with an alarm among their first 1,000 answers, and among 2,000."""
    rng, early, late = np.random.default_rng(0), 0, 0
    tasks = np.concatenate([np.full(len(scores), task) for task, scores in own.items()])
    scores = np.concatenate(list(own.values()))
    for _ in range(streams):
        order = rng.permutation(len(scores))
        labelled, rest = order[:_NUM_LABELS], order[_NUM_LABELS:]
        pool = scores[rest]
        if served == "another model":
            pool = np.concatenate(list(another.values()))
        elif served in own:
            pool = pool[tasks[rest] == served]
        first = _first_alarm(scores[labelled], rng.choice(pool, _NUM_SERVED), windows)
        early += first <= _NUM_SERVED // 2
        late += first <= _NUM_SERVED
    return early / streams, late / streams


def _first_alarm(labelled: Array, served: Array, windows: tuple[int, ...]) -> float:
    """After how many answers there was an alarm, looking at each 50th; infinity without one."""
    quantiles = np.quantile(labelled, np.linspace(0, 1, 201))
    none = np.zeros(0)
    reference = Calibration("", none, none, quantiles, (), len(labelled), 0)
    for number in range(50, len(served) + 1, 50):
        if shift(reference, served[:number], windows) > 1:
            return number
    return float("inf")


if __name__ == "__main__":
    typer.run(main)
