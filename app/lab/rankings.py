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
    """

    columns: Mapping[str, Sequence[Column]]
    tables: Mapping[str, Mapping[str, Table]]
    by_similarity: Mapping[str, Table]

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
    tables: dict[str, dict[str, Table]] = {}
    for metric, function in comparison.metrics_of(columns[strategies[0]]).items():
        tables[metric] = {}
        for strategy in strategies:
            tables[metric][strategy] = comparison.table(
                function, columns[strategy], num_resamples=num_resamples, seed=seed
            )
    by_similarity: dict[str, Table] = {}
    for name in dict.fromkeys(run.similarities):
        if (key := (strategies[0], name)) in every:
            by_similarity[name] = comparison.table(
                prr, every[key], num_resamples=num_resamples, seed=seed
            )
    return Rankings(columns, tables, by_similarity)


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


def _scores(run: Run, rows: Sequence[int], plan: int, estimator: str) -> Array:
    """Uncertainties (n,), NaN where the estimator has no value."""
    scores = [run.prompts[i].answers[plan].scores[estimator] for i in rows]
    return np.array([np.nan if score is None else score for score in scores])
