"""Calibration errors of the parts of answers, with places held out whole, and how far they move.

Prompts about one place have nearly one answer, so that folds of answers would hold out what they
were fitted on. The error of one parting is mostly chance where labels are few: ten are averaged.
"""

import json
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from cocoa_lab.calibration.checking import cross_check
from cocoa_lab.calibration.labels import read_labels
from cocoa_lab.metrics import ece
from cocoa_lab.parts.measures import clustered

_NUM_PARTINGS = 10


def main(
    results: Annotated[Path, typer.Argument(help="Of `cocoa evaluate --units`.")],
    testbed: Annotated[Path, typer.Argument(help="Its dataset, of an embedded world.")],
    estimator: str = "cocoa_sp",
) -> None:
    """Print a line for each number of samples of the run."""
    place_of: dict[str, str] = {}
    for line in map(json.loads, testbed.read_text("utf-8").splitlines()):
        place_of[line["id"]] = line.get("subject") or line["id"]
    for one in read_labels(results)[0]:
        if estimator not in one.labels.scores:
            continue
        uncertainty = one.labels.scores[estimator]
        known = ~np.isnan(uncertainty)
        names = [place_of[name.partition(" ")[0]] for name in one.labels.ids]
        _, of_rows = np.unique(names, return_inverse=True)
        places, correct = of_rows[known], one.labels.correct[known]
        checks = []
        for seed in range(_NUM_PARTINGS):
            check = cross_check(uncertainty[known], correct, places, seed)
            if check is None:
                raise typer.BadParameter("too few labels", param_hint="results")
            checks.append(check)
        errors = np.array([check.ece for check in checks])
        exact = np.mean([check.expected for check in checks])
        interval = clustered(ece, checks[0].confidence, correct, places, num_resamples=300)
        between = ""
        if interval is not None:
            between = f" [{interval.low:.3f}, {interval.high:.3f}]"
        typer.echo(
            f"{one.bindings[0].num_samples} samples at most, {len(correct)} labels: ECE "
            f"{errors.mean():.3f}, {errors.min():.3f} to {errors.max():.3f}; of the first "
            f"parting {errors[0]:.3f}{between}; of exact confidences {exact:.3f}"
        )


if __name__ == "__main__":
    typer.run(main)
