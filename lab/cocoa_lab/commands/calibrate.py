"""`cocoa calibrate`: from labelled results to a calibrator that the service loads."""

import hashlib
import re
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from app.cli.environment import settings_or_exit
from cocoa_lab.commands.failing import errors_told, reason_of


@errors_told()
def calibrate(
    out: Annotated[Path, typer.Option(help="The calibrator's file, JSON; plots lie beside it.")],
    results: Annotated[
        list[Path] | None,
        typer.Option(
            help="Folder of `cocoa evaluate`, with its results.json and scores; may be repeated."
        ),
    ] = None,
    feedback: Annotated[
        str | None,
        typer.Option(
            help="File or redis:// URL with the labels that `POST /feedback` kept, in place of "
            "--results or beside it."
        ),
    ] = None,
    by: Annotated[
        Literal["task"] | None,
        typer.Option(help='"task" adds a calibrator for each task, chosen per request.'),
    ] = None,
    correct_at: Annotated[
        float | None,
        typer.Option(help="Quality from which an answer is right, where it has degrees."),
    ] = None,
    strategy: Annotated[
        Literal["greedy", "sample", "most_probable", "most_probable_normalized", "mbr"] | None,
        typer.Option(help="Of the answers of --results; all of the run's by default."),
    ] = None,
    similarity: Annotated[
        str | None, typer.Option(help="Function, of --results; all by default.")
    ] = None,
    num_samples: Annotated[
        str | None, typer.Option(help="Number of samples, of --results; all by default.")
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(help="At which --results were drawn; any by default.")
    ] = None,
    namespace: Annotated[
        str | None,
        typer.Option(help='Whose labels of --feedback are taken; "" is that of no key.'),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite another calibrator.")] = False,
) -> None:
    """Fit confidence, percentiles and thresholds for every estimator of labelled answers."""
    if not results and feedback is None:
        typer.echo("give --results or --feedback", err=True)
        raise typer.Exit(2)
    if feedback is None and namespace is not None:
        typer.echo("--namespace chooses among --feedback", err=True)
        raise typer.Exit(2)
    if not results and (strategy or similarity or num_samples or temperature is not None):
        options = "--strategy, --similarity, --num-samples and --temperature"
        typer.echo(f"{options} choose among --results", err=True)
        raise typer.Exit(2)
    from rich.console import Console

    from app.plugins.labels.protocol import FeedbackConfig, StoreFailed
    from cocoa_lab.calibration import outputs
    from cocoa_lab.calibration.calibrating import calibrate as fit_all
    from cocoa_lab.calibration.calibrating import to_json
    from cocoa_lab.calibration.feedback import read_feedback
    from cocoa_lab.calibration.fitting import CannotCalibrate
    from cocoa_lab.calibration.labels import Labelled, read_labels
    from cocoa_lab.calibration.prompts import domain_of
    from cocoa_lab.distances import domain_to_bytes
    from cocoa_lab.run import numbers_of_samples
    from models.calibration import ALL
    from models.probes.domain import beside

    if out.exists() and not force:
        typer.echo(f"{out} exists; --force overwrites it", err=True)
        raise typer.Exit(1)
    sources: dict[str, list[Labelled]] = {}
    notes: list[str] = []
    try:
        if num_samples is not None:
            numbers_of_samples(num_samples)
        for folder in results or ():
            of_run, source = read_labels(
                folder,
                correct_at,
                strategy=strategy,
                similarity=similarity,
                draw=num_samples,
                temperature=temperature,
            )
            sources.setdefault(source, []).extend(of_run)
        if feedback is not None:
            config: FeedbackConfig = vars(settings_or_exit())["feedback"]
            sent, source, notes = read_feedback(feedback, config, correct_at, namespace)
            sources.setdefault(source, []).extend(sent)
        fitted = fit_all(sources, by_task=by == "task")
    except (CannotCalibrate, StoreFailed, OSError, ValueError) as error:
        _tell(reason_of(error), err=True)
        raise typer.Exit(1) from None
    calibrator, labels = fitted.calibrator, fitted.labels[0]
    by_estimator = calibrator.parts[0].groups[ALL]
    domain = b""
    try:
        domain = domain_to_bytes(domain_of(results or ()))
        calibrator = replace(calibrator, prompts=hashlib.sha256(domain).hexdigest())
    except CannotCalibrate as error:
        notes.append(f"foreign prompts cannot be told from these: {error}")
    checks = outputs.checks_of(calibrator, labels)
    console = Console()
    console.print(outputs.table(by_estimator, checks))
    shown = outputs.shown_estimators(by_estimator)
    for line in outputs.lines(fitted):
        console.print(line)
    for note in (*notes, *fitted.notes):
        _tell(f"note: {note}")
    plots = out.parent / f"{out.stem}-plots"
    outputs.write_plots(calibrator, labels, checks, shown, plots)
    if domain:
        beside(out).write_bytes(domain)
    out.write_text(to_json(calibrator), encoding="utf-8")
    typer.echo(f"{calibrator.source}: {out}, {plots}/; serve it with COCOA_CALIBRATOR={out}")


def _tell(text: str, *, err: bool = False) -> None:
    """Print a line with what its source wrote, such as a task, but no control character of it."""
    from app.plugins.labels.protocol import CONTROL

    typer.echo(re.sub(f"[{CONTROL}]", lambda found: ascii(found[0])[1:-1], text), err=err)
