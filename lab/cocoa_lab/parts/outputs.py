"""The files of a run over parts: results.json, units.jsonl, report.md and the plots."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from cocoa_lab.exports import write_tables
from cocoa_lab.metrics import Interval
from cocoa_lab.overwriting import RESULTS, UNITS
from cocoa_lab.parts.measured import Measured, Metrics
from cocoa_lab.parts.measures import Kept
from cocoa_lab.parts.running import PartsRun
from cocoa_lab.plots import INK, MUTED, STYLE, save
from cocoa_lab.rendering import markdown_table
from cocoa_lab.report import Cell, Grid, Line

_SHOWN = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)
_COLUMNS = ("PRR at 50 %", "ROC-AUC", "ECE", "lead")
_METRICS = ("prr", "roc_auc", "ece", "lead")
_CURVES = ("ungrounded", "cocoa_sp", "sp", "inconsistency")


def write(
    run: PartsRun, out: Path, command: str, settings: Mapping[str, Any], found: Measured
) -> str:
    """Write every file but the generations; the report."""
    plots = out / "plots"
    plots.mkdir(exist_ok=True)
    if found.kept:
        drawn = dict.fromkeys([run.primary, *_CURVES])
        names = list(filter(found.kept.__contains__, drawn)) or list(found.kept)[:3]
        save(_curve_figure({name: found.kept[name] for name in names}), plots / "precision")
    results = {
        "settings": settings,
        "num_prompts": len(run.answers) + run.num_failed,
        "header": asdict(run.header),
        "binding": asdict(run.binding),
        "primary": run.primary,
        **_counts(run, found),
        "judgements": run.judgements and asdict(run.judgements),
        "agreement": found.judge and asdict(found.judge),
        "metrics": {name: _to_json(one) for name, one in found.metrics.items()},
        "prr_by_draw": {name: _to_json(one) for name, one in found.by_draw.items()},
        "errors": {
            kind: {"num_parts": count, **_to_json({"roc_auc": value})}
            for kind, (count, value) in found.errors.items()
        },
        "kept": {name: list(map(asdict, one)) for name, one in found.kept.items()},
    }
    (out / UNITS).write_text("".join(_lines(run)), encoding="utf-8")
    (out / RESULTS).write_text(json.dumps(results, indent=1) + "\n")
    write_tables([_grid(run, found)], out)
    report = _report(run, found, command)
    (out / "report.md").write_text(report, encoding="utf-8")
    return report


def _counts(run: PartsRun, found: Measured) -> dict[str, int]:
    return {
        "num_answers": sum(bool(one.labelled.parts) for one in run.answers),
        "num_without_parts": sum(not one.num_parts for one in run.answers),
        "num_parts": found.num_parts,
        "num_right": found.num_right,
        "num_lacking": sum(one.labelled.num_lacking for one in run.answers),
    }


def _lines(run: PartsRun) -> Iterator[str]:
    for one in run.answers:
        about = {"id": one.example.example.id, "task": one.example.example.task}
        for row, part in enumerate(one.labelled.parts):
            verdict = one.labelled.verdicts[row]
            unit, correct = part.unit, float(verdict.is_right)
            where = {"path": unit.path, "spans": unit.spans, "text": unit.text}
            says = {"support": unit.support, "contradiction": unit.contradiction}
            own = {**where, "correct": correct, "error": verdict.error, **says}
            by_draw = {name: labelled.parts[row].scores for name, labelled in one.by_draw.items()}
            scores = {"scores": part.scores, "reasons": part.reasons, "by_draw": by_draw}
            line = {**about, **own, **scores}
            yield json.dumps(line, ensure_ascii=False) + "\n"


def _to_json(metrics: Metrics) -> dict[str, Any]:
    return {name: value and asdict(value) for name, value in metrics.items()}


def facts_of(run: PartsRun, found: Measured) -> list[str]:
    """What was scored, in words."""
    counts, kind = _counts(run, found), run.binding.unit
    facts = [
        f"{counts['num_parts']} labelled parts of kind {kind} in {counts['num_answers']} answers, "
        f"{counts['num_right']} of them right",
        f"{counts['num_without_parts']} answers have no parts",
        f"{counts['num_lacking']} labelled parts are not in their answers",
        f"model {run.header.model}, answers {run.binding.strategy}, "
        f"{run.binding.num_samples} samples, similarity {run.binding.similarity}",
    ]
    if (told := run.judgements) is not None:
        labels = ", ".join(f"{count} {label}" for label, count in told.labels.items())
        tokens = f"{told.prompt_tokens} and {told.reply_tokens} tokens of prompts and replies"
        facts.append(f"judge {told.model}: {labels or 'asked of nothing'}; {tokens}")
    if found.judge is not None:
        agreement, kappa = map(_cell, (found.judge.agreement, found.judge.kappa))
        facts.append(f"it agrees with labels by rule on {agreement}; Cohen's kappa {kappa}")
    return facts


def _grid(run: PartsRun, found: Measured) -> Grid:
    """The table of all estimators, that of the deployment first."""
    lines = []
    for name in sorted(found.metrics, key=lambda name: name != run.primary):
        cells = []
        for metric in _METRICS:
            value = found.metrics[name].get(metric)
            cells.append(None if value is None else Cell(value))
        lines.append(Line(name, "", tuple(cells)))
    return Grid(f"Parts of answers: {run.binding.unit}", _COLUMNS, tuple(lines))


def _report(run: PartsRun, found: Measured, command: str) -> str:
    rows = []
    for line in _grid(run, found).lines:
        cells = [f"`{line.method}`"]
        for cell in line.cells:
            cells.append(_cell(None if cell is None else cell.value))
        rows.append(cells)
    parts = [f"# Parts of answers: {run.binding.unit}", f"```sh\n{command}\n```"]
    parts.append("\n".join(f"- {fact}" for fact in facts_of(run, found)))
    parts += [
        "Uncertainty of parts against their labels. In brackets the 95 % interval of the "
        "percentile bootstrap over answers. ECE: of confidences by curves that were fitted on "
        f"other answers. Lead: PRR of `{run.primary}` less that of the row, on the same answers.",
        markdown_table(["estimator", *_COLUMNS], rows),
    ]
    if found.judge is not None:
        rows = []
        for label, row in zip(("right", "wrong"), found.judge.counts, strict=True):
            rows.append([label, *map(str, row)])
        parts += [
            "The judge against the labels by rule, which alone count here:",
            markdown_table(["label", "judged right", "judged wrong", "not judged"], rows),
        ]
    if found.by_draw:
        rows = []
        for name, metrics in found.metrics.items():
            of_draws = [_cell(one.get(name)) for one in found.by_draw.values()]
            rows.append([f"`{name}`", _cell(metrics["prr"]), *of_draws])
        header = ["PRR at 50 % by number of samples", str(run.binding.num_samples), *found.by_draw]
        parts.append(markdown_table(header, rows))
    if found.errors:
        rows = [[kind, str(num), _cell(value)] for kind, (num, value) in found.errors.items()]
        parts += [
            f"Told from right ones by `{run.primary}`, by kind of error:",
            markdown_table(["error", "parts", "ROC-AUC"], rows),
        ]
    if run.primary in found.kept:
        told = _at(found.kept[run.primary], _SHOWN)
        parts += [
            f"## Dropping the least sure, by `{run.primary}`",
            "Precision: right ones among all that are kept. Wrong per answer: the mean over "
            "answers of the wrong among the kept, which `target_error` bounds. Respond ratio: "
            "share of the answers of which any part is kept.",
            markdown_table(
                ["share kept", "precision", "wrong per answer", "respond ratio"],
                [[f"{value:.3f}" for value in asdict(one).values()] for one in told],
            ),
            "![Precision against the share kept](plots/precision.svg)",
        ]
    return "\n\n".join(parts) + "\n"


def _at(kept: Sequence[Kept], shares: Sequence[float]) -> list[Kept]:
    """The entry that keeps least of those that keep a share, each once."""
    found: dict[float, Kept] = {}
    for share in shares:
        one = min((one for one in kept if one.share >= share - 1e-9), key=lambda one: one.share)
        found[one.share] = one
    return list(found.values())


def _cell(interval: Interval | None) -> str:
    if interval is None:
        return "-"
    return f"{interval.value:.3f} [{interval.low:.3f}, {interval.high:.3f}]"


def _curve_figure(kept: Mapping[str, Sequence[Kept]]) -> Figure:
    """Precision, and dashed the respond ratio, against the share of parts that is kept."""
    colours = ("#b8500f", "#0f6f8f", "#3f7d3a", "#7a4f9e", "#8a6d00")
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(6.4, 4.0), layout="constrained")
        axes = figure.subplots()
        for (name, curve), colour in zip(kept.items(), colours, strict=False):
            shares = [one.share for one in curve]
            axes.plot(shares, [one.precision for one in curve], "o-", color=colour, label=name)
            axes.plot(shares, [one.respond_ratio for one in curve], "--", color=colour, alpha=0.6)
        axes.plot([], [], "--", color=MUTED, label="respond ratio")
        axes.set_xlim(0, 1.02)
        axes.set_ylim(0, 1.02)
        axes.grid(visible=True)
        axes.set_title("Dropping the least sure parts", color=INK)
        axes.set_xlabel("share of parts kept")
        axes.set_ylabel("right among the kept")
        axes.legend(loc="lower left")
        return figure
