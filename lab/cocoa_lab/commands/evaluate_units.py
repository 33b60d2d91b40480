"""`cocoa evaluate --units`: how well scores tell right parts of answers from wrong ones."""

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from cocoa_lab.commands.command_line import command_line
from cocoa_lab.commands.progress import progress_of

if TYPE_CHECKING:
    from app.settings import Settings
    from cocoa_lab.judge import JudgeModel
    from cocoa_lab.parts.examples import PartsOf


def evaluate_units(
    dataset: str,
    out: Path,
    *,
    units: "PartsOf",
    limit: int | None,
    num_samples: str | None,
    estimators: str | None,
    similarity: str | None,
    temperature: float | None,
    answer_temperature: float | None,
    seed: int,
    num_resamples: int,
    settings: "Settings",
    judge: "JudgeModel | None",
    rescore: bool,
    force: bool,
) -> None:
    """Score the parts of each answer of a file, label them, and report; see the options' help."""
    from cocoa_lab.datasets import drawn
    from cocoa_lab.overwriting import GENERATIONS, check_replaceable
    from cocoa_lab.parts import outputs
    from cocoa_lab.parts.examples import read_parts
    from cocoa_lab.parts.measured import measure
    from cocoa_lab.parts.running import PartsSpec, evaluate_parts
    from cocoa_lab.recordings import stored
    from cocoa_lab.run import numbers_of_samples
    from models.records import SamplingParams

    wanted: list[str] | None = None
    if estimators is not None:
        wanted = _known(estimators)
    most = SamplingParams().num_samples
    examples = drawn(read_parts(Path(dataset), units, judged=judge is not None), limit, seed)
    if rescore:
        header, recordings = stored(out / GENERATIONS, temperature, answer_temperature)
        most = header.sampling["num_samples"]
        examples = [one for one in examples if one.example.id in recordings]
    draws = numbers_of_samples(num_samples or str(most))
    settings_of = {"command": "evaluate", "dataset": dataset, "seed": seed, "units": units}
    settings_of["judge"] = judge and judge.name
    settings_of["num_samples"] = ",".join(map(str, draws))
    if not force:
        check_replaceable(out, settings_of, len(examples))
    out.mkdir(parents=True, exist_ok=True)
    spec = PartsSpec(
        dataset=dataset,
        units=units,
        examples=examples,
        generations=out / GENERATIONS,
        draws=draws,
        seed=seed,
        estimators=wanted,
        similarity=similarity,
        rescore=rescore,
        judge=judge,
        temperature=temperature,
        answer_temperature=answer_temperature,
    )
    with progress_of("prompts") as progress:
        task = progress.add_task("evaluating", total=len(examples))
        scored = evaluate_parts(spec, settings, lambda: progress.advance(task))
        run = asyncio.run(scored)
    found = measure(run, num_resamples, seed)
    outputs.write(run, out, command_line(sys.argv[1:]), settings_of, found)
    for line in outputs.facts_of(run, found):
        typer.echo(line)
    typer.echo(f"{len(examples)} prompts: {out / 'report.md'}, results.json, units.jsonl, plots/")


def _known(names: str) -> list[str]:
    """The names between commas, each once, all of estimators that are defined for parts.

    Raises:
        BadParameter: one that is not.
    """
    from models.estimators import known_estimators, needs
    from models.units.unit import Unit

    found = list(dict.fromkeys(map(str.strip, names.split(","))))
    for name in found:
        if name not in known_estimators() or not needs([name]) <= Unit.SUPPLIED:
            message = f"{name!r} is no estimator that is defined for parts of answers"
            raise typer.BadParameter(message, param_hint="--estimators")
    return found
