"""What draws are worth: those that do not repeat beside `auto`, and what was not found at all.

docs/results-in-detail.md says what was found, and by which commands.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from app.scoring.result import Result
from app.scoring.scorer import Scorer
from app.settings import Settings
from cocoa_lab.datasets import load
from cocoa_lab.examples import Example
from cocoa_lab.loading import lab_scorer
from cocoa_lab.metrics import prr
from cocoa_lab.quality import QUALITY, quality_names, score_by_task
from cocoa_lab.recordings import RecordingHeader
from cocoa_lab.running import each, sampling_of
from cocoa_lab.scoring import ask_of
from models.estimators import ESTIMATORS, FOUND_MASS_NEEDS, found_mass, needs
from models.records import Array, SamplingParams

_AUTO = SamplingParams(num_samples=10, max_new_tokens=64, stop_mass=0.7)
_KINDS: Mapping[str, SamplingParams] = {
    "auto": _AUTO,
    "auto, at most 5": replace(_AUTO, num_samples=5),
    "distinct, at most 5": replace(_AUTO, num_samples=5, distinct=True),
}
_SCORES = ("rb_cocoa_sp", "unseen_rb_cocoa_sp")
_MANY = 400
_FEW = (3, 5, 10)
_RESAMPLES = 200

_Indices = NDArray[np.int64]
_Tasks = NDArray[np.str_]

app = typer.Typer()


@app.command()
def ranks(
    dataset: Annotated[str, typer.Argument(help="As `cocoa evaluate` takes it.")] = "testbed",
    limit: Annotated[int | None, typer.Option(help="That many prompts.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Draws of the samples.")] = 3,
) -> None:
    """PRR, tokens and samples of each kind of draws, and how far it is from `auto`."""
    asyncio.run(_ranks(load(dataset, limit=limit), dataset, seeds))


@app.command()
def shrinkage(
    dataset: Annotated[str, typer.Argument(help="As `cocoa evaluate` takes it.")] = "testbed",
    limit: Annotated[int | None, typer.Option(help="That many prompts.")] = None,
) -> None:
    """Bias and error of a few samples' dissimilarity against many others', and least squares."""
    asyncio.run(_shrinkage(load(dataset, limit=limit), dataset))


async def _ranks(examples: list[Example], dataset: str, seeds: int) -> None:
    tasks = np.array([example.task for example in examples])
    results: dict[str, list[list[Result]]] = {}
    async with lab_scorer(Settings()) as scorer:
        for kind, sampling in _KINDS.items():
            results[kind] = []
            for seed in range(seeds):
                wanted = replace(sampling, seed=seed)
                scored = await _scored(scorer, examples, dataset, wanted, _SCORES)
                results[kind].append(scored)
    texts = [result.evidence.subject.answer.text for result in results["auto"][0]]
    measures = {task: QUALITY[name] for task, name in quality_names(examples, None).items()}
    right = await score_by_task(texts, examples, measures, None)
    for name in _SCORES:
        auto = np.array([_values(one, name) for one in results["auto"]])
        for kind, found in results.items():
            values = np.array([_values(one, name) for one in found])
            drawn = [result.evidence.subject.samples for one in found for result in one]
            tokens = np.mean([sum(sample.num_tokens for sample in one) for one in drawn])
            whole = _mean_prr(values, right, tasks, np.arange(len(right)))
            low, high = _interval(values, auto, right, tasks)
            typer.echo(
                f"{name}, {kind}: PRR {whole:.3f}, {tokens:.1f} tokens in "
                f"{np.mean([len(one) for one in drawn]):.1f} samples; "
                f"PRR - that of auto [{low:+.3f}, {high:+.3f}]"
            )


async def _shrinkage(examples: list[Example], dataset: str) -> None:
    async with lab_scorer(Settings()) as scorer:
        sampling = SamplingParams(num_samples=_MANY, max_new_tokens=64, seed=0)
        results = await _scored(scorer, examples, dataset, sampling, ("rb_consistency",))
    for num_samples in _FEW:
        rows = np.array([_of_few(result, num_samples) for result in results])
        truth, consistency, weighed, mass = rows.T
        lacking = (1 - mass) * mass * (1 - consistency)
        found = [_least_squares(lacking, truth - weighed, np.arange(len(rows)))]
        rng = np.random.default_rng(0)
        for _ in range(_RESAMPLES):
            chosen = rng.integers(len(rows), size=len(rows))
            found.append(_least_squares(lacking, truth - weighed, chosen))
        low, high = np.percentile(found[1:], [2.5, 97.5])
        typer.echo(f"M = {num_samples}: least squares {found[0]:.2f} [{low:.2f}, {high:.2f}]")
        estimates = {"consistency": consistency, "rb": weighed, "unseen_rb": weighed + lacking / 2}
        for name, values in estimates.items():
            error = values - truth
            typer.echo(f"  {name}: bias {error.mean():+.3f}, RMSE {np.sqrt((error**2).mean()):.3f}")


async def _scored(
    scorer: Scorer,
    examples: list[Example],
    dataset: str,
    sampling: SamplingParams,
    estimators: Sequence[str],
) -> list[Result]:
    info = scorer.workers.generator.info
    header = RecordingHeader(
        dataset, info.model_id, info.revision, sampling.seed or 0, sampling_of(10), (), False
    )

    async def one(example: Example) -> Result:
        ask = ask_of(example, header)
        drawn = replace(sampling, seed=ask.sampling.seed, stop=ask.sampling.stop)
        return await scorer.run(replace(ask, sampling=drawn, estimators=tuple(estimators)))

    return await each(examples, one)


def _of_few(result: Result, num_samples: int) -> tuple[float, float, float, float]:
    """Mean dissimilarity of all samples but the first ones, and what these say of it."""
    known = dict(result.evidence.statistics)
    others = known["similarity"][num_samples:]
    for name in needs(["rb_consistency"]) - {"answer_token_logprobs"}:
        known[name] = known[name][:num_samples]
    mass = found_mass(**{name: known[name] for name in FOUND_MASS_NEEDS})
    given = {name: known[name] for name in needs(["rb_consistency"])}
    consistency = 1.0 - float(known["similarity"].mean())
    weighed = ESTIMATORS["rb_consistency"](**given)
    return 1.0 - float(others.mean()), consistency, weighed, mass


def _least_squares(x: Array, y: Array, chosen: _Indices) -> float:
    return float((x[chosen] * y[chosen]).sum() / (x[chosen] ** 2).sum())


def _values(results: Sequence[Result], name: str) -> list[float]:
    values = []
    for result in results:
        value = result.scores[name]
        values.append(np.inf if value is None else value)
    return values


def _mean_prr(values: Array, right: Array, tasks: _Tasks, chosen: _Indices) -> float:
    """Mean over draws of the samples (rows of values) and over tasks."""
    found = []
    for task in np.unique(tasks):
        of_task = chosen[tasks[chosen] == task]
        for row in values:
            found.append(prr(row[of_task], right[of_task]))
    return float(np.mean([one for one in found if one is not None]))


def _interval(values: Array, others: Array, right: Array, tasks: _Tasks) -> tuple[float, float]:
    rng, differences = np.random.default_rng(0), []
    for _ in range(_RESAMPLES):
        chosen = np.sort(rng.integers(len(right), size=len(right)))
        above = _mean_prr(values, right, tasks, chosen) - _mean_prr(others, right, tasks, chosen)
        differences.append(above)
    low, high = np.percentile(differences, [2.5, 97.5])
    return float(low), float(high)


if __name__ == "__main__":
    app()
