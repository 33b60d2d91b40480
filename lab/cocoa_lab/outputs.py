"""The files of a run: results.json, scores.jsonl, reports, tables and the plots."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from cocoa_lab import rendering, report
from cocoa_lab.comparison import MEAN, ByEstimator, Column, intervals, overall, without
from cocoa_lab.exports import write_tables
from cocoa_lab.overwriting import RESULTS, check_replaceable
from cocoa_lab.plots import (
    ranking_figure,
    rejection_figure,
    reliability_figure,
    samples_figure,
    save,
)
from cocoa_lab.rankings import Rankings, rank
from cocoa_lab.recommendation import recommend
from cocoa_lab.report import Report
from cocoa_lab.run import Run
from cocoa_lab.summary import only_compared, summarise

# The methods of a figure, where the run has them.
_RELIABILITY = ("rb_cocoa_root_sp", "sp", "inconsistency", "cocoa_sp")
_CURVES = (*_RELIABILITY, "ppl", "cocoa_ppl", "semantic_entropy")
_MIN_RELIABILITY_PROMPTS = 20


def settings_of(dataset: str, seed: int, draws: Sequence[int] | None) -> dict[str, Any]:
    """What a run has in common with those that may replace its results, and is known first.

    draws: numbers of samples; None where they are not known yet.
    """
    settings: dict[str, Any] = {"command": "evaluate", "dataset": dataset, "seed": seed}
    if draws is not None:
        settings["num_samples"] = ",".join(map(str, draws))
    return settings


def write(
    run: Run, out: Path, command: str, num_resamples: int = 1000, *, force: bool = False
) -> Report:
    """Every file of the run but its generations; what they say.

    Raises:
        AnotherRun: results of a larger or another run lie there, and `force` does not say that they
            may go.
    """
    if not force:
        check_replaceable(out, _settings(run), run.num_prompts)
    rankings = rank(run, num_resamples)
    plots = _plots(rankings, out)
    page = summarise(run, rankings, plots, command, num_resamples)
    results = json.dumps(_results(run, rankings, page), indent=1) + "\n"
    (out / "scores.jsonl").write_text("".join(_score_lines(run)), encoding="utf-8")
    (out / RESULTS).write_text(results)
    (out / "report.md").write_text(rendering.markdown(page), encoding="utf-8")
    (out / "report.html").write_text(rendering.html(page), encoding="utf-8")
    write_tables([*page.grids, *page.similarity_grids, *page.sample_grids], out)
    return page


def _plots(rankings: Rankings, out: Path) -> dict[str, str]:
    """Write the figures of every strategy; caption to SVG of the first one's."""
    folder = out / "plots"
    folder.mkdir(exist_ok=True)
    plots = []
    for strategy, columns in rankings.columns.items():
        table = rankings.tables["prr"][strategy]
        told = without(table, rankings.left_out)
        column = overall(told) or overall(table) or next(iter(table))
        drawn = _strategy_plots(strategy, columns, column, table[column], folder)
        by_draw = {draw: one.get(column, {}) for draw, one in rankings.by_draw[strategy].items()}
        if len(by_draw) > 1 and all(by_draw.values()):
            what = _in_words(column)
            figure = samples_figure(by_draw, f"PRR, {what}, {strategy} answers")
            drawn[f"PRR by the number of samples, {what}, {strategy} answers."] = save(
                figure, folder / f"samples-{strategy}"
            )
        plots.append(drawn)
    return plots[0]


def _strategy_plots(
    strategy: str,
    every_column: Sequence[Column],
    shown: str,
    measured: ByEstimator,
    folder: Path,
) -> dict[str, str]:
    """Write one strategy's figures.

    Args:
        strategy: of the answers.
        every_column: its tasks; those without any quality are not drawn.
        shown: name of the column whose methods are compared.
        measured: the values of that column.
        folder: of the figures.
    """
    what = _in_words(shown)
    values = intervals(measured)
    columns = [column for column in every_column if len(column.known_quality)]
    plots: dict[str, str] = {}
    if values:
        figure = ranking_figure(values, f"PRR, {what}, {strategy} answers")
        caption = f"Every method, {strategy} answers: PRR, {what}."
        plots[caption] = save(figure, folder / f"prr-{strategy}")
    if not columns:
        return plots
    names = list(filter(values.__contains__, _CURVES)) or list(values)[:6]
    caption = (
        f"Rejection curves, {strategy} answers: the mean quality of what is kept while the "
        "least certain answers are rejected. Solid CoCoA, dashed its base in the same colour."
    )
    plots[caption] = save(rejection_figure(columns, names), folder / f"rejection-{strategy}")
    binary = list(filter(_is_reliable, columns))
    reliable = list(filter(columns[0].scores.__contains__, _RELIABILITY))
    if binary and reliable:
        caption = (
            f"Reliability, {strategy} answers. There is no confidence before a calibrator: "
            "here it is an isotonic fit on one half of the prompts, shown on the other half."
        )
        figure = reliability_figure(binary, reliable)
        plots[caption] = save(figure, folder / f"reliability-{strategy}")
    return plots


def _in_words(column: str) -> str:
    """Name of a column as captions have it."""
    if column == MEAN:
        return "mean over tasks"
    return column


def _is_reliable(column: Column) -> bool:
    return column.is_binary and len(column.known_quality) >= _MIN_RELIABILITY_PROMPTS


def _settings(run: Run) -> dict[str, Any]:
    header = run.header
    draws = dict.fromkeys(variant.draw for variant in run.variants)
    return settings_of(header.dataset, header.seed, list(map(int, draws))) | {
        "model": header.model,
        "revision": header.revision,
    }


def _results(run: Run, rankings: Rankings, page: Report) -> dict[str, Any]:
    recommended = recommend(rankings)
    metrics: dict[str, Any] = {}
    for metric, tables in rankings.tables.items():
        metrics[metric] = {}
        for strategy, table in tables.items():
            metrics[metric][strategy] = report.to_json(table)
    similarity: dict[str, Any] = {}
    for name, table in rankings.by_similarity.items():
        similarity[name] = report.to_json(only_compared(table))
    return {
        "settings": _settings(run),
        "num_prompts": run.num_prompts,
        "header": asdict(run.header),
        "origin": asdict(run.origin),
        "facts": page.facts,
        "speed": run.speed,
        "costs": list(map(asdict, run.costs)),
        "tasks": _tasks(run, rankings),
        **metrics,
        "controls": _controls(rankings),
        "undefined_resamples": rankings.undefined_resamples,
        "similarity": similarity,
        "samples": _draws(rankings),
        "claims": list(map(asdict, page.claims)),
        "sample_claims": list(map(asdict, page.sample_claims)),
        "rao_blackwell_claims": list(map(asdict, page.rao_blackwell_claims)),
        "similarity_claims": list(map(asdict, page.similarity_claims)),
        "alternative_claims": list(map(asdict, page.alternative_claims)),
        "notes": page.notes,
        "recommendation": recommended and asdict(recommended),
    }


def _controls(rankings: Rankings) -> dict[str, Any]:
    """Metric to strategy to column to what is no estimator."""
    found: dict[str, Any] = {}
    for metric, tables in rankings.controls.items():
        found[metric] = {strategy: report.to_json(table) for strategy, table in tables.items()}
    return found


def _draws(rankings: Rankings) -> dict[str, Any]:
    """Strategy to number of samples to PRR."""
    found: dict[str, Any] = {}
    for strategy, by_draw in rankings.by_draw.items():
        found[strategy] = {}
        for draw, table in by_draw.items():
            found[strategy][draw] = {"prr": report.to_json(table)}
    return found


def _tasks(run: Run, rankings: Rankings) -> list[dict[str, Any]]:
    tasks = []
    for i, (task, measure) in enumerate(run.measure_names.items()):
        mean_quality = {}
        for strategy, columns in rankings.columns.items():
            mean_quality[strategy] = columns[i].mean_quality
        num_prompts = len(run.rows_of(task))
        facts = {"task": task, "quality": measure, "num_prompts": num_prompts}
        left_out = rankings.left_out.get(task)  # by strategy, why the task ranks nothing
        tasks.append(facts | {"mean_quality": mean_quality, "left_out": left_out})
    return tasks


def _score_lines(run: Run) -> Iterator[str]:
    for i, prompt in enumerate(run.prompts):
        for answer in prompt.answers:
            quality = float(run.qualities[answer.variant][i])
            example = prompt.example
            facts = {"task": example.task, "input": example.input, "quality": quality}
            line = {**facts, **asdict(answer)}
            if np.isnan(quality):
                line["quality"] = None
            yield json.dumps(line, ensure_ascii=False) + "\n"
