"""Whether the curve of one number of samples may serve another: calibration error, held out.

Over what `cocoa evaluate` has left of the same answers with both numbers. The labels are split at
random, curves are fitted to one part, and read on the other.
"""

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from cocoa_lab.calibration.fitting import fit
from cocoa_lab.calibration.labels import Labels, read_labels
from cocoa_lab.metrics import ece, expected_ece
from models.records import Array

_NUM_DRAWS = 200


def main(
    results: Annotated[Path, typer.Argument(help="Of `cocoa evaluate`.")],
    estimators: str = "rb_cocoa_sp,cocoa_sp,consistency,lexical_similarity",
    samples: Annotated[str, typer.Option(help="Of the curve.")] = "10",
    served: Annotated[str, typer.Option(help="What is read by it.")] = "auto",
    labels: Annotated[int, typer.Option(help="Of them a curve is fitted to.")] = 1261,
    splits: int = 10,
    correct_at: Annotated[float | None, typer.Option(help="As `cocoa calibrate`'s.")] = None,
) -> None:
    """Print calibration errors, means over the splits, and what exact confidences would show."""
    known, other = (_labels(results, draw, correct_at) for draw in (samples, served))
    if known.ids != other.ids:
        raise typer.BadParameter("the two draws are not of the same answers")
    typer.echo(f"| {labels} labels | {samples} on {samples} | on {served} | own | exact |")
    typer.echo("|---|---|---|---|---|")
    for name in estimators.split(","):
        errors = _errors(known.scores[name], other.scores[name], known.correct, labels, splits)
        typer.echo(f"| {name} | " + " | ".join(f"{error:.3f}" for error in errors) + " |")


def _labels(results: Path, draw: str, correct_at: float | None) -> Labels:
    [found], _ = read_labels(results, correct_at, strategy="greedy", draw=draw)
    return found.labels


def _errors(known: Array, other: Array, correct: Array, num_labels: int, splits: int) -> Array:
    """(4,): the curve on its own draw, on the other one, that one's own, and an exact one there."""
    rng, errors = np.random.default_rng(0), []
    for _ in range(splits):
        order = rng.permutation(len(correct))
        fitted, read = order[:num_labels], order[num_labels:]
        confidences = []
        for curve, uncertainty in ((known, known), (known, other), (other, other)):
            knots = fit(curve[fitted], correct[fitted])
            confidences.append(np.interp(uncertainty[read], knots.knots, knots.confidences))
        told = [ece(one, correct[read]) for one in confidences]
        told.append(expected_ece(confidences[-1], correct[read], num_draws=_NUM_DRAWS))
        errors.append(told)
    means: Array = np.mean(np.array(errors, dtype=np.float64), axis=0)
    return means


if __name__ == "__main__":
    typer.run(main)
