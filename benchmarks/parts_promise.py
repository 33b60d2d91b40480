"""How often thresholds of parts of answers break their promise, over draws of real answers.

The answers of a run are the population: 1,000 times as many are drawn from them, a threshold is
found for each target error, and the mean over all answers of the wrong among the parts that it
keeps is compared with the target.
"""

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from cocoa_lab.calibration.fitting import TARGET_ERRORS
from cocoa_lab.calibration.labels import read_labels
from cocoa_lab.calibration.thresholds import controlled_threshold, steps_of_parts

_NUM_DRAWS = 1000


def main(
    results: Annotated[Path, typer.Argument(help="Of `cocoa evaluate --units`.")],
    estimator: str = "cocoa_sp",
) -> None:
    """Print a line for each target error."""
    [labelled, *_], _ = read_labels(results)
    uncertainty, correct, answers = labelled.labels.known(estimator)
    if answers is None:
        raise typer.BadParameter(f"{results} is no run over parts of answers")
    names, answer = np.unique(answers, return_inverse=True)
    rows_of = [np.flatnonzero(answer == one) for one in range(len(names))]
    num_broken = dict.fromkeys(TARGET_ERRORS, 0)
    kept: dict[float, list[float]] = {target: [] for target in TARGET_ERRORS}
    rng = np.random.default_rng(0)
    for _ in range(_NUM_DRAWS):
        drawn = rng.integers(len(names), size=len(names))
        rows = np.concatenate([rows_of[one] for one in drawn])
        of_rows = np.repeat(np.arange(len(names)), [len(rows_of[one]) for one in drawn])
        steps = steps_of_parts(uncertainty[rows], correct[rows], of_rows)
        for target in TARGET_ERRORS:
            found = controlled_threshold(steps, target).uncertainty
            passes = uncertainty <= (-np.inf if found is None else found)
            num_kept = np.bincount(answer, passes)
            num_wrong = np.bincount(answer, passes * (1 - correct))
            num_broken[target] += (num_wrong / np.maximum(num_kept, 1)).mean() > target
            kept[target].append(passes.mean())
    typer.echo(f"{len(names)} answers, {len(correct)} parts, {estimator}")
    for target in TARGET_ERRORS:
        shares = np.array(kept[target])
        typer.echo(
            f"target {target:g}: promise broken in {num_broken[target] / _NUM_DRAWS:.3f} of the "
            f"draws, parts kept {shares.mean():.3f}, nothing kept in {(shares == 0).mean():.3f}"
        )


if __name__ == "__main__":
    typer.run(main)
