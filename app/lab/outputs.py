"""From scores to files: results.json, scores.jsonl, report.md, report.html and the plots."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from app.lab import comparison, report
from app.lab.comparison import MEAN, Column
from app.lab.datasets import Example
from app.lab.plots import ranking_figure, rejection_figure, reliability_figure, save
from app.lab.quality import QUALITY, Measure, default_quality
from app.lab.recordings import Header
from app.lab.report import Gallery, Report, Shown
from app.lab.running import Scored
from app.lab.scoring import AnswerScores
from models.metrics import prr
from models.records import Array
from models.similarity.protocol import PairModel

_NUM_SHOWN = 5
_RELIABILITY = ("sp", "consistency", "cocoa_ppl")
_CURVES = ("sp", "ppl", "consistency", "cocoa_sp", "cocoa_ppl", "semantic_entropy")


@dataclass(frozen=True, slots=True)
class Run:
    """A finished run.

    Attributes:
        scored: the examples that have a generation, one at least.
        num_failed: examples that have none, for `errors`.
        qualities: name of the measure by task.
        similarities: function of each plan; the first serves all tables.
        models: role to model and revision.
        pair_model: for the measures that read one.
        speed: prompts a second and how it was measured; empty where something was there before.
    """

    header: Header
    scored: Sequence[Scored]
    num_failed: int
    errors: Sequence[str]
    qualities: Mapping[str, str]
    similarities: Sequence[str]
    models: Mapping[str, str]
    pair_model: PairModel | None
    speed: Mapping[str, float]


def write(
    run: Run,
    out: Path,
    command: str,
    num_resamples: int = 1000,
    measures: Mapping[str, Measure] = QUALITY,
) -> None:
    """Every file of the run but its generations; `measures` holds all qualities of the run."""
    quality = _qualities(run, measures)
    columns = _columns(run, quality, measures)
    strategies = list(dict.fromkeys(key[0] for key in columns))
    main = {strategy: columns[strategy, run.similarities[0]] for strategy in strategies}
    tables = {
        metric: {
            strategy: comparison.table(
                function, main[strategy], num_resamples=num_resamples, seed=run.header.seed
            )
            for strategy in strategies
        }
        for metric, function in comparison.metrics_of(main[strategies[0]]).items()
    }
    by_similarity = {
        name: comparison.table(
            prr, columns[strategies[0], name], num_resamples=num_resamples, seed=run.header.seed
        )
        for name in dict.fromkeys(run.similarities)
        if (strategies[0], name) in columns
    }
    plots = _plots(main, tables["prr"], out)
    page = _report(run, quality, main, tables, by_similarity, plots, command, num_resamples)
    (out / "scores.jsonl").write_text("".join(_score_lines(run, quality)), encoding="utf-8")
    (out / "results.json").write_text(
        json.dumps(_results(run, page, main, tables, by_similarity), indent=1) + "\n"
    )
    (out / "report.md").write_text(report.markdown(page), encoding="utf-8")
    (out / "report.html").write_text(report.html(page), encoding="utf-8")


def quality_names(examples: Iterable[Example], name: str | None) -> dict[str, str]:
    """The measure of each task: the named one, or the task's own."""
    return {
        task: name or default_quality(task)
        for task in dict.fromkeys(example.task for example in examples)
    }


def _qualities(run: Run, measures: Mapping[str, Measure]) -> dict[tuple[str, str], Array]:
    """Quality (n,) of the run's answers by strategy and similarity; measured once a task."""
    qualities: dict[tuple[str, str], Array] = {}
    for plan in range(len(run.scored[0].answers)):
        values = np.full(len(run.scored), np.nan)
        for task, name in run.qualities.items():
            rows = _rows(run, task)
            texts = [run.scored[i].answers[plan].text for i in rows]
            values[rows] = measures[name](
                texts, [run.scored[i].example for i in rows], run.pair_model
            )
        answer = run.scored[0].answers[plan]
        qualities[answer.strategy, answer.similarity] = values
    return qualities


def _columns(
    run: Run, quality: Mapping[tuple[str, str], Array], measures: Mapping[str, Measure]
) -> dict[tuple[str, str], list[Column]]:
    columns: dict[tuple[str, str], list[Column]] = {}
    for plan, first in enumerate(run.scored[0].answers):
        key = first.strategy, first.similarity
        for task, name in run.qualities.items():
            rows = _rows(run, task)
            scores = {
                estimator: np.array(
                    [_float(run.scored[i].answers[plan].scores[estimator]) for i in rows]
                )
                for estimator in first.scores
            }
            column = Column(task, quality[key][rows], measures[name].is_binary, scores)
            columns.setdefault(key, []).append(column)
    return columns


def _plots(
    main: Mapping[str, Sequence[Column]], tables: Mapping[str, comparison.Table], out: Path
) -> dict[str, str]:
    folder = out / "plots"
    folder.mkdir(exist_ok=True)
    shown: dict[str, str] = {}
    for i, (strategy, columns) in enumerate(main.items()):
        table = tables[strategy]
        column = MEAN if MEAN in table else next(iter(table))
        row = {
            name: one
            for name, measured in table[column].items()
            if (one := measured.interval) is not None
        }
        names = [name for name in _CURVES if name in row] or list(row)[:6]
        what = "mean over tasks" if column == MEAN else column
        svgs = {}
        if row:
            title = f"PRR, {what}, {strategy} answers"
            svgs[f"Every method, {strategy} answers: PRR, {what}."] = save(
                ranking_figure(row, title), folder / f"prr-{strategy}"
            )
        svgs[
            f"Rejection curves, {strategy} answers: the mean quality of what is kept while the "
            "least certain answers are rejected. Solid CoCoA, dashed its base in the same colour."
        ] = save(rejection_figure(columns, names), folder / f"rejection-{strategy}")
        binary = [column for column in columns if column.is_binary and len(column.quality) >= 20]
        reliable = [name for name in _RELIABILITY if name in columns[0].scores]
        if binary and reliable:
            svgs[
                f"Reliability, {strategy} answers. There is no confidence before a calibrator: "
                "here it is an isotonic fit on one half of the prompts, shown on the other half."
            ] = save(reliability_figure(binary, reliable), folder / f"reliability-{strategy}")
        if i == 0:
            shown = svgs
    return shown


def _report(
    run: Run,
    quality: Mapping[tuple[str, str], Array],
    main: Mapping[str, Sequence[Column]],
    tables: Mapping[str, Mapping[str, comparison.Table]],
    by_similarity: Mapping[str, comparison.Table],
    plots: Mapping[str, str],
    command: str,
    num_resamples: int,
) -> Report:
    strategies, default = list(main), run.similarities[0]
    prrs = tables["prr"]
    estimator = _ordering(run.scored[0].answers[0])
    titles = {"prr": "PRR", "auroc": "ROC-AUC"}
    return Report(
        title=f"Uncertainty on {run.header.dataset}",
        command=command,
        facts=_facts(run, num_resamples),
        tasks=_task_rows(run, main),
        grids=[
            report.grid(f"{titles[metric]}, {strategy} answers", tables[metric][strategy])
            for metric in tables
            for strategy in strategies
        ],
        claims=[
            claim
            for strategy in strategies
            for claim in comparison.claims(strategy, prrs[strategy])
        ],
        similarity_grids=[
            report.grid(f"PRR, {strategies[0]} answers, {name}", _only_compared(table))
            for name, table in by_similarity.items()
            if len(by_similarity) > 1
        ],
        similarity_claims=[
            claim
            for name, table in by_similarity.items()
            if name != default
            for claim in comparison.above_similarity(
                default, name, strategies[0], by_similarity[default], table
            )
        ],
        alternative_claims=[
            claim
            for strategy in strategies
            for claim in comparison.alternatives(strategy, prrs[strategy])
        ],
        galleries=_galleries(run, quality[strategies[0], default], estimator),
        estimator=estimator,
        notes=_notes(run),
        plots=plots,
    )


def _facts(run: Run, num_resamples: int) -> dict[str, str]:
    header = run.header
    facts = {
        "model": f"{header.model} ({header.revision})" if header.revision else header.model,
        "sampling": ", ".join(f"{name} {value}" for name, value in header.sampling.items())
        + f", seed {header.seed}",
        **run.models,
        "intervals": f"95 %, percentile bootstrap over prompts, {num_resamples} resamples",
    }
    if run.speed:
        facts["speed"] = (
            f"{run.speed['prompts_per_s']:.1f} prompts a second on {run.speed['cores']:.0f} cores"
        )
    return facts


def _task_rows(run: Run, main: Mapping[str, Sequence[Column]]) -> list[dict[str, str]]:
    rows = []
    for i, (task, name) in enumerate(run.qualities.items()):
        means = {
            f"mean, {strategy}": report.number(float(np.nanmean(c[i].quality)))
            for strategy, c in main.items()
        }
        rows.append(
            {
                "task": task,
                "prompts": str(len(next(iter(main.values()))[i].quality)),
                "quality": name,
            }
            | means
        )
    return rows


def _notes(run: Run) -> list[str]:
    notes = []
    if run.num_failed:
        notes.append(
            f"{run.num_failed} prompts have no generation and are left out: "
            f"{', '.join(run.errors)}."
        )
    missing = Counter(name for one in run.scored for name in one.answers[0].reasons)
    notes += [
        f"{name} has no value for {n} prompts, which count as least certain."
        for name, n in missing.items()
    ]
    return notes


def _galleries(run: Run, quality: Array, estimator: str) -> list[Gallery]:
    galleries = []
    for task in run.qualities:
        rows = _rows(run, task)
        scored = [
            i
            for i in rows
            if run.scored[i].answers[0].scores[estimator] is not None and not np.isnan(quality[i])
        ]
        ordered = sorted(scored, key=lambda i: _float(run.scored[i].answers[0].scores[estimator]))
        mistakes = [i for i in ordered if quality[i] < 0.5]
        picked = (ordered[:_NUM_SHOWN], ordered[: -_NUM_SHOWN - 1 : -1], mistakes[:_NUM_SHOWN])
        groups = [
            tuple(_shown(run, i, float(quality[i]), estimator) for i in part) for part in picked
        ]
        galleries.append(Gallery(task, *groups))
    return galleries


def _shown(run: Run, row: int, quality: float, estimator: str) -> Shown:
    example, answer = run.scored[row].example, run.scored[row].answers[0]
    generation = run.scored[row].record.generation
    samples = () if generation is None else generation.samples
    return Shown(
        prompt=example.prompt,
        answer=answer.text,
        uncertainty=_float(answer.scores[estimator]),
        quality=quality,
        references=tuple(example.references),
        samples=report.shown_samples([sample.compared_text for sample in samples]),
    )


def _ordering(answer: AnswerScores) -> str:
    return "cocoa_ppl" if "cocoa_ppl" in answer.scores else next(iter(answer.scores))


def _only_compared(table: comparison.Table) -> comparison.Table:
    """CoCoA and consistency, which the choice of the similarity function changes."""
    return {
        column: {
            name: one
            for name, one in row.items()
            if comparison.is_cocoa(name) or name == "consistency"
        }
        for column, row in table.items()
    }


def _results(
    run: Run,
    page: Report,
    main: Mapping[str, Sequence[Column]],
    tables: Mapping[str, Mapping[str, comparison.Table]],
    by_similarity: Mapping[str, comparison.Table],
) -> dict[str, Any]:
    return {
        "header": asdict(run.header),
        "facts": page.facts,
        "speed": run.speed,
        "tasks": [
            {
                "task": task,
                "quality": name,
                "num_prompts": len(next(iter(main.values()))[i].quality),
                "mean_quality": {
                    strategy: float(np.nanmean(columns[i].quality))
                    for strategy, columns in main.items()
                },
            }
            for i, (task, name) in enumerate(run.qualities.items())
        ],
        **{
            metric: {strategy: report.to_json(table) for strategy, table in by_strategy.items()}
            for metric, by_strategy in tables.items()
        },
        "similarity": {
            name: report.to_json(_only_compared(table)) for name, table in by_similarity.items()
        },
        "claims": [asdict(claim) for claim in page.claims],
        "similarity_claims": [asdict(claim) for claim in page.similarity_claims],
        "alternative_claims": [asdict(claim) for claim in page.alternative_claims],
        "notes": page.notes,
    }


def _score_lines(run: Run, quality: Mapping[tuple[str, str], Array]) -> Iterable[str]:
    for i, one in enumerate(run.scored):
        for answer in one.answers:
            value = float(quality[answer.strategy, answer.similarity][i])
            line = {
                "task": one.example.task,
                "quality": None if np.isnan(value) else value,
                **asdict(answer),
            }
            yield json.dumps(line, ensure_ascii=False) + "\n"


def _rows(run: Run, task: str) -> list[int]:
    return [i for i, one in enumerate(run.scored) if one.example.task == task]


def _float(value: float | None) -> float:
    return float("nan") if value is None else value
