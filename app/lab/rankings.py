"""How well every estimator ranks the answers of a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from app.lab import comparison
from app.lab.comparison import Column, Table
from app.lab.run import Run
from models.metrics import prr
from models.records import Array


@dataclass(frozen=True, slots=True)
class Rankings:
    """Metrics of a run's estimators.

    Attributes:
        columns: one a task, by strategy, under the run's default similarity function.
        tables: metric to strategy to table, "prr" first.
        by_similarity: similarity function to PRR under the first strategy, the default first.
        left_out: task that ranks nothing to strategy to the reason. It is left out of the means of
            all strategies, so that these are over the same tasks.
        undefined_resamples: strategy to task to the resamples on which PRR is undefined.
    """

    columns: Mapping[str, Sequence[Column]]
    tables: Mapping[str, Mapping[str, Table]]
    by_similarity: Mapping[str, Table]
    left_out: Mapping[str, Mapping[str, str]]
    undefined_resamples: Mapping[str, Mapping[str, int]]

    @property
    def strategies(self) -> list[str]:
        """In the order in which they were named."""
        return list(self.columns)


def rank(run: Run, num_resamples: int) -> Rankings:
    """Metrics with intervals, resampled with the run's seed."""
    every = _columns(run)
    strategies = list(dict.fromkeys(strategy for strategy, _ in every))
    columns = {strategy: every[strategy, run.similarities[0]] for strategy in strategies}
    seed = run.header.seed
    left_out = _left_out(every)
    tables: dict[str, dict[str, Table]] = {}
    for metric, function in comparison.metrics_of(columns[strategies[0]]).items():
        tables[metric] = {}
        for strategy in strategies:
            tables[metric][strategy] = comparison.table(
                function,
                columns[strategy],
                left_out=left_out,
                num_resamples=num_resamples,
                seed=seed,
            )
    by_similarity: dict[str, Table] = {}
    for name in dict.fromkeys(run.similarities):
        if (key := (strategies[0], name)) in every:
            by_similarity[name] = comparison.table(
                prr, every[key], left_out=left_out, num_resamples=num_resamples, seed=seed
            )
    undefined = {name: _undefined(columns[name], num_resamples, seed) for name in strategies}
    return Rankings(columns, tables, by_similarity, left_out, undefined)


def _columns(run: Run) -> dict[tuple[str, str], list[Column]]:
    """A column for each task, by strategy and similarity function."""
    columns: dict[tuple[str, str], list[Column]] = {}
    for plan, first in enumerate(run.prompts[0].answers):
        key = first.strategy, first.similarity
        for task in run.measure_names:
            rows = run.rows_of(task)
            scores = {name: _scores(run, rows, plan, name) for name in first.scores}
            column = Column(task, run.qualities[key][rows], task in run.binary_tasks, scores)
            columns.setdefault(key, []).append(column)
    return columns


def _left_out(every: Mapping[tuple[str, str], Sequence[Column]]) -> dict[str, dict[str, str]]:
    """Tasks that rank nothing under any strategy or similarity function, with the reasons."""
    left_out: dict[str, dict[str, str]] = {}
    for (strategy, _), columns in every.items():
        for column in columns:
            if (why := comparison.why_left_out(column)) is not None:
                left_out.setdefault(column.task, {}).setdefault(strategy, why)
    return left_out


def _undefined(columns: Sequence[Column], num_resamples: int, seed: int) -> dict[str, int]:
    """Resamples of each task without a PRR; drawn as `comparison.table` draws them."""
    undefined: dict[str, int] = {}
    for i, column in enumerate(columns):
        undefined[column.task] = comparison.undefined_resamples(
            column, num_resamples=num_resamples, seed=seed + i
        )
    return undefined


def _scores(run: Run, rows: Sequence[int], plan: int, estimator: str) -> Array:
    """Uncertainties (n,), NaN where the estimator has no value."""
    scores = [run.prompts[i].answers[plan].scores[estimator] for i in rows]
    return np.array([np.nan if score is None else score for score in scores])
