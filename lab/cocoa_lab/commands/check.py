"""`cocoa check`: whether the promises of a calibrator hold on labels that it was not made of."""

from pathlib import Path
from typing import Annotated

import typer

from cocoa_lab.commands.failing import errors_told


@errors_told()
def check(
    calibrator: Annotated[Path, typer.Argument(help="File of `cocoa calibrate`.")],
    results: Annotated[Path, typer.Option(help="Folder of `cocoa evaluate` on other prompts.")],
    correct_at: Annotated[
        float | None,
        typer.Option(help="Quality from which an answer is right, where it has degrees."),
    ] = None,
    estimators: Annotated[
        str | None, typer.Option(help="Names with commas between; the default ones.")
    ] = None,
) -> None:
    """Hold each promise to other answers, and say what so few may show by chance."""
    from rich.console import Console
    from rich.table import Table

    from cocoa_lab.calibration.calibrating import way_of
    from cocoa_lab.calibration.checking import held_to, part_for
    from cocoa_lab.calibration.labels import read_labels
    from cocoa_lab.calibration.outputs import shown_estimators
    from models.calibration import ALL, Calibrator

    loaded = Calibrator.load(calibrator)
    labelled, _ = read_labels(results, correct_at)
    found = [(one, part) for one in labelled if (part := part_for(one, loaded)) is not None]
    if not found:
        ways = "; ".join(way_of(part.binding) for part in loaded.parts)
        raise ValueError(f"{calibrator} is of other models or ways of asking: {ways}")
    console = Console()
    for one, part in found:
        by_estimator = part.groups[ALL]
        names = estimators.split(",") if estimators else shown_estimators(by_estimator)
        columns = ("estimator", "promised wrong", "accepted", "wrong of these", "by chance")
        table = Table(*columns, box=None, pad_edge=False, title=way_of(part.binding))
        table.title_justify = "left"
        for name in names:
            u, correct, _ = one.labels.known(name)
            for threshold in by_estimator[name].thresholds:
                held = held_to(threshold, u, correct)
                target = f"{100 * threshold.target_error:g} %"
                table.add_row(name, target, held.accepted, held.wrong, held.chance)
        console.print(table)
    console.print(
        "by chance: in how many of 100 draws so many wrong ones come where the promise just holds"
    )
