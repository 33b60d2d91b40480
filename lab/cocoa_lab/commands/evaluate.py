"""`cocoa evaluate`: how well each estimator ranks the answers to a dataset."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar, get_args

import typer

from app.cli.environment import settings_or_exit
from cocoa_lab.commands.command_line import command_line
from cocoa_lab.commands.evaluate_units import evaluate_units
from cocoa_lab.commands.failing import errors_told
from cocoa_lab.measures import MEASURES

if TYPE_CHECKING:
    from app.scoring.selection import Strategy
    from app.settings import Settings
    from cocoa_lab.evaluation import EvaluationSpec
    from cocoa_lab.judge import JudgeModel
    from cocoa_lab.run import Run

_ANSWERS = "greedy,most_probable,mbr"
_ESTIMATED_AFTER = 10  # prompts
_MEASURES = [*MEASURES, "judge"]

Name = TypeVar("Name", bound=str)


@errors_told()
def evaluate(
    dataset: Annotated[
        str,
        typer.Argument(
            help='"testbed", "testbed/facts", "testbed-chat", a .jsonl file, or a name.'
        ),
    ],
    out: Annotated[
        Path, typer.Option(help="Folder of all results; an interrupted run there is continued.")
    ],
    limit: Annotated[
        int | None, typer.Option(min=1, help="That many prompts only, drawn with the seed.")
    ] = None,
    num_samples: Annotated[
        str | None,
        typer.Option(
            help="M, the number of sampled answers; further ones after commas are compared with "
            "the first. Default: 10, or as many as are there to be scored again."
        ),
    ] = None,
    estimators: Annotated[
        str | None,
        typer.Option(
            help="Names with commas between; default: all but those that ask the model "
            "once more about each answer (p_true, bsdetector)."
        ),
    ] = None,
    similarity: Annotated[
        str | None,
        typer.Option(
            help="Similarity function; further ones after commas are compared with the first."
        ),
    ] = None,
    answers: Annotated[
        str | None,
        typer.Option(
            help=f"Answer strategies with commas between; default: {_ANSWERS}, with sample in "
            "place of greedy where --answer-temperature is named."
        ),
    ] = None,
    temperature: Annotated[
        float | None,
        typer.Option(min=0.05, max=2, help="At which samples are drawn. Default: 1."),
    ] = None,
    answer_temperature: Annotated[
        float | None,
        typer.Option(min=0.05, max=2, help="At which the answers are drawn. Default: greedy."),
    ] = None,
    quality: Annotated[
        str | None,
        typer.Option(
            help=f"Measure of the answers, each task's own by default: {', '.join(_MEASURES)}."
        ),
    ] = None,
    judge_url: Annotated[
        str | None, typer.Option(help="OpenAI-compatible server of the judge, without /v1.")
    ] = None,
    judge_model: Annotated[
        str | None, typer.Option(help="Model that judges, for --quality judge or --units.")
    ] = None,
    judge_key: Annotated[
        str | None, typer.Option(envvar="OPENAI_API_KEY", help="Key of that server.")
    ] = None,
    seed: Annotated[
        int,
        typer.Option(min=0, max=2**63 - 1, help="Repeats samples, drawn prompts and intervals."),
    ] = 0,
    num_resamples: Annotated[
        int, typer.Option(min=1, help="Resamples behind each interval.")
    ] = 1000,
    data_dir: Annotated[
        Path | None, typer.Option(help="Local copies of datasets that are else downloaded.")
    ] = None,
    units: Annotated[
        Literal["fields", "sentences", "claims"] | None,
        typer.Option(help="Score and label these parts of answers; the file has their labels."),
    ] = None,
    rescore: Annotated[
        bool, typer.Option("--rescore", help="Score what is there; load no language model.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite the results of a larger or another run.")
    ] = False,
) -> None:
    """Run a dataset through the pipeline and report how well every estimator ranks its answers."""
    from cocoa_lab import judge, outputs
    from cocoa_lab.datasets import load
    from cocoa_lab.evaluation import EvaluationSpec
    from cocoa_lab.foretelling import foretold
    from cocoa_lab.overwriting import GENERATIONS, check_replaceable
    from cocoa_lab.quality import QUALITY, quality_names
    from models.estimators import known_estimators

    settings = settings_or_exit()
    judging = _judge(judge_url, judge_model, judge_key)
    if judging is not None and (units == "fields" or (units is None and quality != "judge")):
        message = "is for --quality judge, and for --units sentences or claims"
        raise typer.BadParameter(message, param_hint="--judge-url")
    if units is not None:
        if answers is not None or quality is not None:
            message = "takes neither --answers nor --quality"
            raise typer.BadParameter(message, param_hint="--units")
        evaluate_units(
            dataset,
            out,
            units=units,
            judge=judging,
            limit=limit,
            num_samples=num_samples,
            estimators=estimators,
            similarity=similarity,
            temperature=temperature,
            answer_temperature=answer_temperature,
            seed=seed,
            num_resamples=num_resamples,
            settings=settings,
            rescore=rescore,
            force=force,
        )
        return
    own, other = "greedy", "sample"
    if answer_temperature is not None:
        own, other = other, own
    strategies = _known(answers or _ANSWERS.replace("greedy", own), _strategies(), "--answers")
    if other in strategies:
        message = "greedy answers are made without --answer-temperature, sample with one"
        raise typer.BadParameter(message, param_hint="--answers")
    measure = None
    if quality is not None:
        measure = _known(quality, _MEASURES, "--quality")[0]
    measures = dict(QUALITY)
    if measure == "judge":
        if judging is None:
            raise typer.BadParameter(
                "needs --judge-url and --judge-model", param_hint="--quality judge"
            )
        measures["judge"] = judge.measure(judging)
    draws = chosen = similarities = None
    if num_samples is not None:
        draws = _draws(num_samples)
    if similarity is not None:
        similarities = list(dict.fromkeys(similarity.split(",")))
    examples = load(dataset, limit=limit, seed=seed, data_dir=data_dir)
    if estimators is not None:
        chosen = _known(estimators, list(known_estimators()), "--estimators")
    spec = EvaluationSpec(
        dataset=dataset,
        examples=examples,
        generations=out / GENERATIONS,
        draws=draws,
        seed=seed,
        estimators=chosen,
        strategies=strategies,
        similarities=similarities,
        measure_names=quality_names(examples, measure),
        measures=measures,
        rescore=rescore,
        temperature=temperature,
        answer_temperature=answer_temperature,
    )
    if not force:
        told = outputs.settings_of(dataset, seed, draws)
        check_replaceable(out, told, len(examples))
    out.mkdir(parents=True, exist_ok=True)
    typer.echo(foretold(spec), err=True)
    run = _with_progress(spec, settings)
    page = outputs.write(run, out, command_line(sys.argv[1:]), num_resamples, force=force)
    for note in page.notes:
        typer.echo(f"note: {note}")
    typer.echo(page.recommendation)
    for cost in run.costs[:1]:
        typer.echo(f"costliest, {cost.ms:.0f} ms a prompt: {', '.join(cost.estimators)}")
    typer.echo(
        f"{len(run.prompts)} prompts: {out / 'report.html'}, report.md, "
        "results.json, scores.jsonl, plots/"
    )


def _judge(url: str | None, name: str | None, api_key: str | None) -> "JudgeModel | None":
    from cocoa_lab.judge import JudgeModel

    if url is None and name is None:
        return None
    if url is None or name is None:
        raise typer.BadParameter("belong together", param_hint="--judge-url and --judge-model")
    return JudgeModel(url, name, api_key)


def _strategies() -> "list[Strategy]":
    """Those by which an answer may be chosen here."""
    from app.scoring.selection import Strategy

    known = list(get_args(Strategy))
    known.remove("given")
    return known


def _with_progress(spec: "EvaluationSpec", settings: "Settings") -> "Run":
    from cocoa_lab.commands.progress import progress_of
    from cocoa_lab.evaluation import evaluate as run_evaluation
    from cocoa_lab.foretelling import num_recorded

    what, total = "evaluating", len(spec.examples)
    if spec.rescore:
        what, total = "scoring", num_recorded(spec)
    with progress_of("prompts") as progress:
        task = progress.add_task(what, total=total)

        def on_scored() -> None:
            progress.advance(task)
            done, elapsed = progress.tasks[0].completed, progress.tasks[0].elapsed or 0.0
            left = total - done
            if done == _ESTIMATED_AFTER and left > 0:
                minutes = elapsed / done * left / 60
                told = f"by the first {done:.0f} prompts about {minutes:.0f} min left"
                typer.echo(told, err=True)

        run = asyncio.run(run_evaluation(spec, settings, on_scored))
        progress.update(task, total=len(run.prompts) + run.num_failed)
        return run


def _draws(names: str) -> list[int]:
    from cocoa_lab.run import numbers_of_samples

    try:
        return numbers_of_samples(names)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--num-samples") from None


def _known(names: str, known: Sequence[Name], option: str) -> list[Name]:
    """The names between commas, each once.

    Raises:
        BadParameter: one that is not known.
    """
    found: dict[Name, None] = {}
    for name in map(str.strip, names.split(",")):
        if name not in known:
            raise typer.BadParameter(f"{name!r} is none of {', '.join(known)}", param_hint=option)
        found[known[known.index(name)]] = None
    return list(found)
