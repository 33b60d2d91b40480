"""How well every estimator ranks the answers of a run."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from cocoa_lab import comparison
from cocoa_lab.comparison import POOLED, Column, Table
from cocoa_lab.metrics import Metric, prr
from cocoa_lab.run import Run, ScoredPrompt, Variant
from models.records import Array

# What an estimator has to rank better than, or it says no more: how many tokens an answer has, and
# the share of its samples that are another text.
LENGTH, EQUAL_TEXTS = CONTROLS = ("length", "equal_texts")


@dataclass(frozen=True, slots=True)
class Rankings:
    """Metrics of a run's estimators.

    Attributes:
        columns: one a task, by strategy, under the run's default similarity function.
        tables: metric to strategy to table, "prr" first; tasks, their mean, and all answers pooled.
        controls: metric to strategy to what is no estimator, on the same resamples (`CONTROLS`).
        by_similarity: similarity function to PRR under the first strategy, the default first.
        by_draw: strategy to number of samples to PRR, the default first.
        left_out: task that ranks nothing to strategy to the reason. It is left out of the means of
            all strategies, so that these are over the same tasks.
        undefined_resamples: strategy to task to the resamples on which PRR is undefined.
    """

    columns: Mapping[str, Sequence[Column]]
    tables: Mapping[str, Mapping[str, Table]]
    controls: Mapping[str, Mapping[str, Table]]
    by_similarity: Mapping[str, Table]
    by_draw: Mapping[str, Mapping[str, Table]]
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

    table_of = partial(_table, left_out=left_out, num_resamples=num_resamples, seed=seed)
    tables: dict[str, dict[str, Table]] = {}
    controls: dict[str, dict[str, Table]] = {}
    for metric, function in comparison.metrics_of(every[first]).items():
        tables[metric], controls[metric] = {}, {}
        for strategy in strategies:
            tables[metric][strategy] = table_of(function, columns[strategy])
            plan = run.variants.index(first._replace(strategy=strategy))
            others = _with_controls(columns[strategy], run, plan)
            controls[metric][strategy] = table_of(function, others)
    by_similarity: dict[str, Table] = {}
    for name in similarities:
        by_similarity[name] = table_of(prr, every[first._replace(similarity=name)])
    by_draw: dict[str, dict[str, Table]] = {}
    for strategy in strategies:
        by_draw[strategy] = {}
        for draw in draws:
            variant = first._replace(strategy=strategy, draw=draw)
            by_draw[strategy][draw] = table_of(prr, every[variant])
    undefined: dict[str, dict[str, int]] = {}
    for strategy in strategies:
        undefined[strategy] = _undefined(columns[strategy], num_resamples, seed)
    return Rankings(
        columns=columns,
        tables=tables,
        controls=controls,
        by_similarity=by_similarity,
        by_draw=by_draw,
        left_out=left_out,
        undefined_resamples=undefined,
    )


def _table(
    metric: Metric,
    columns: Sequence[Column],
    left_out: Collection[str],
    num_resamples: int,
    seed: int,
) -> Table:
    """Of each task, of their mean, and of all their answers pooled."""
    found = dict(
        comparison.table(metric, columns, left_out=left_out, num_resamples=num_resamples, seed=seed)
    )
    every = comparison.pooled(columns, left_out)
    if every is not None:
        found[POOLED] = comparison.measure(
            metric, every, num_resamples=num_resamples, seed=seed + len(columns)
        )
    return found


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


def _with_controls(columns: Sequence[Column], run: Run, plan: int) -> list[Column]:
    """The tasks with `CONTROLS` in the place of the estimators."""
    found = []
    for column in columns:
        rows = run.rows_of(column.task)
        num_tokens = _num_tokens(run, rows, plan)
        controls = {
            LENGTH: np.where(num_tokens > 0, num_tokens, np.nan),
            EQUAL_TEXTS: np.array([_share_unequal(run.prompts[i], plan) for i in rows]),
        }
        found.append(replace(column, scores=controls))
    return found


def _share_unequal(prompt: ScoredPrompt, plan: int) -> float:
    """Share of the samples that are another text than the answer, up to case; NaN without any."""
    generation, answer = prompt.recording.generation, prompt.answers[plan]
    if generation is None:
        return np.nan
    others = list(generation.samples[: answer.num_samples])
    if answer.sample is not None:
        del others[answer.sample]
    if not others:
        return np.nan
    text = answer.text.strip().casefold()
    return float(np.mean([one.compared_text.strip().casefold() != text for one in others]))


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
