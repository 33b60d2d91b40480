"""How well every estimator ranks the answers of a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from cocoa_lab import comparison
from cocoa_lab.comparison import Column, Table
from cocoa_lab.metrics import prr
from cocoa_lab.run import Run, Variant
from models.records import Array


@dataclass(frozen=True, slots=True)
class Rankings:
    """Metrics of a run's estimators.

    Attributes:
        columns: one a task, by strategy, under the run's default similarity function.
        tables: metric to strategy to table, "prr" first.
        by_similarity: similarity function to PRR under the first strategy, the default first.
        by_draw: strategy to draw of samples to PRR, the default first.
        mean_samples: samples a prompt, by strategy and draw.
        left_out: task that ranks nothing to strategy to the reason. It is left out of the means of
            all strategies, so that these are over the same tasks.
        undefined_resamples: strategy to task to the resamples on which PRR is undefined.
    """

    columns: Mapping[str, Sequence[Column]]
    tables: Mapping[str, Mapping[str, Table]]
    by_similarity: Mapping[str, Table]
    by_draw: Mapping[str, Mapping[str, Table]]
    mean_samples: Mapping[str, Mapping[str, float]]
    left_out: Mapping[str, Mapping[str, str]]
    undefined_resamples: Mapping[str, Mapping[str, int]]

    @property
    def strategies(self) -> list[str]:
        """In the order in which they were named."""
        return list(self.columns)


def rank(run: Run, num_resamples: int) -> Rankings:
    """Metrics with intervals, resampled with the run's seed."""
    every = _columns(run)
    first = run.variants[0]
    # Each once, in the order in which they were asked.
    strategies, similarities, draws = map(dict.fromkeys, zip(*every, strict=True))
    columns: dict[str, list[Column]] = {}
    for strategy in strategies:
        columns[strategy] = every[first._replace(strategy=strategy)]
    seed = run.header.seed
    left_out = _left_out(every)

    table_of = partial(comparison.table, left_out=left_out, num_resamples=num_resamples, seed=seed)
    tables: dict[str, dict[str, Table]] = {}
    for metric, function in comparison.metrics_of(every[first]).items():
        tables[metric] = {}
        for strategy in strategies:
            tables[metric][strategy] = table_of(function, columns[strategy])
    by_similarity: dict[str, Table] = {}
    for name in similarities:
        by_similarity[name] = table_of(prr, every[first._replace(similarity=name)])
    by_draw: dict[str, dict[str, Table]] = {}
    mean_samples: dict[str, dict[str, float]] = {}
    for strategy in strategies:
        by_draw[strategy], mean_samples[strategy] = {}, {}
        for draw in draws:
            variant = first._replace(strategy=strategy, draw=draw)
            by_draw[strategy][draw] = table_of(prr, every[variant])
            mean_samples[strategy][draw] = _mean_samples(run, variant)
    undefined: dict[str, dict[str, int]] = {}
    for strategy in strategies:
        undefined[strategy] = _undefined(columns[strategy], num_resamples, seed)
    return Rankings(
        columns=columns,
        tables=tables,
        by_similarity=by_similarity,
        by_draw=by_draw,
        mean_samples=mean_samples,
        left_out=left_out,
        undefined_resamples=undefined,
    )


def _columns(run: Run) -> dict[Variant, list[Column]]:
    """A column for each task, by variant."""
    columns: dict[Variant, list[Column]] = {}
    for plan, first in enumerate(run.prompts[0].answers):
        for task in run.measure_names:
            rows = run.rows_of(task)
            scores = {name: _scores(run, rows, plan, name) for name in first.scores}
            quality = run.qualities[first.variant][rows]
            num_tokens = _num_tokens(run, rows, plan)
            column = Column(task, quality, task in run.binary_tasks, scores, num_tokens)
            columns.setdefault(first.variant, []).append(column)
    return columns


def _left_out(every: Mapping[Variant, Sequence[Column]]) -> dict[str, dict[str, str]]:
    """Tasks that rank nothing under any variant, with the reasons by strategy."""
    left_out: dict[str, dict[str, str]] = {}
    for variant, columns in every.items():
        for column in columns:
            if (why := comparison.why_left_out(column)) is not None:
                left_out.setdefault(column.task, {}).setdefault(variant.strategy, why)
    return left_out


def _undefined(columns: Sequence[Column], num_resamples: int, seed: int) -> dict[str, int]:
    """Resamples of each task without a PRR; drawn as `comparison.table` draws them."""
    undefined: dict[str, int] = {}
    for i, column in enumerate(columns):
        undefined[column.task] = comparison.undefined_resamples(
            column, num_resamples=num_resamples, seed=seed + i
        )
    return undefined


def _mean_samples(run: Run, variant: Variant) -> float:
    """Samples a prompt."""
    plan = run.variants.index(variant)
    return float(np.mean([prompt.answers[plan].num_samples for prompt in run.prompts]))


def _num_tokens(run: Run, rows: Sequence[int], plan: int) -> Array:
    """Lengths (n,) of the answers in tokens; 0 where nobody knows one."""
    counts = []
    for i in rows:
        generation = run.prompts[i].recording.generation
        sample = run.prompts[i].answers[plan].sample
        if generation is None:
            counts.append(0)
        elif sample is None:
            counts.append(generation.answer.num_tokens)
        else:
            counts.append(generation.samples[sample].num_tokens)
    return np.array(counts, dtype=np.float64)


def _scores(run: Run, rows: Sequence[int], plan: int, estimator: str) -> Array:
    """Uncertainties (n,), NaN where the estimator has no value."""
    scores = [run.prompts[i].answers[plan].scores[estimator] for i in rows]
    return np.array(scores, dtype=np.float64)
