"""Figures: rejection curves, methods by their mean, reliability.

No pyplot: a figure belongs to whoever made it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.isotonic import IsotonicRegression

from cocoa_lab.comparison import ByEstimator, Column, intervals, is_cocoa
from cocoa_lab.metrics import Interval, ece, expected_ece, rejection_curve, reliability
from models.estimators import known_estimators
from models.records import Array

INK, MUTED, FAINT = "#1f2933", "#6b7783", "#d5dae0"
# A base and the CoCoA over it share their colour; the base is dashed.
_COLOURS = {
    "root_sp": "#1f2933",
    "sp": "#b8500f",
    "ppl": "#0f6f8f",
    "mte": "#6a4c93",
    "inconsistency": "#3f7d3a",
}
# What is drawn against the number of samples.
_BY_SAMPLES = {
    "cocoa_sp": "#b8500f",
    "rb_cocoa_root_sp": "#6a4c93",
    "inconsistency": "#3f7d3a",
    "semantic_entropy": "#0f6f8f",
}
_OTHERS = ("#a3476b", "#8a7a00", "#4a5a6a")
_MAX_REJECTION = 0.5
_NUM_BINS = 10
_PANELS_A_ROW = 4
STYLE: Any = {  # rc_context's type is a literal of all its names
    "axes.axisbelow": True,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "figure.dpi": 100,
    "font.size": 9,
    "grid.color": "#eceff2",
    "legend.frameon": False,
    "savefig.dpi": 160,
    "svg.fonttype": "path",
    "svg.hashsalt": "cocoa",
    "text.color": INK,
    "text.parse_math": False,  # a task may be called "$x"
    "xtick.color": MUTED,
    "ytick.color": MUTED,
}


def rejection_figure(columns: Sequence[Column], names: Sequence[str]) -> Figure:
    """Mean quality of the answers kept while the least certain are rejected, one panel a task."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(max(5.0, 4.1 * len(columns)), 4.3), layout="constrained")
        panels = figure.subplots(1, len(columns), squeeze=False)[0]
        for axes, column in zip(panels, columns, strict=True):
            _rejection_panel(axes, column, names)
        panels[0].set_ylabel("mean quality of the answers kept")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3 * len(columns))
        return figure


def answered_figure(columns: Mapping[str, Column], name: str) -> Figure:
    """Share of right answers among those that a score is surest of, with 95 % intervals.

    columns: answers that are right or wrong, by the title of their panel.
    """
    num_rows = -(-len(columns) // _PANELS_A_ROW)
    with mpl.rc_context(STYLE):
        size = (2.3 * _PANELS_A_ROW, 2.1 * num_rows + 0.3)
        figure = Figure(figsize=size, layout="constrained")
        panels = figure.subplots(num_rows, _PANELS_A_ROW, sharex=True, sharey=True, squeeze=False)
        for axes in panels.flat[len(columns) :]:
            axes.remove()
        for axes, (title, column) in zip(panels.flat, columns.items(), strict=False):
            quality, uncertainty = column.known_quality, column.scores[name]
            uncertainty = uncertainty[~np.isnan(column.quality)]
            rejected, shares = rejection_curve(uncertainty, quality, min(50, len(quality)))
            low, high = _wilson(shares, (1 - rejected) * len(quality))
            axes.fill_between(1 - rejected, low, high, color=FAINT)
            axes.plot(1 - rejected, shares, color=INK, linewidth=2.0)
            axes.axhline(float(quality.mean()), color=MUTED, linewidth=1.0, linestyle=":")
            axes.set_title(f"{title} ({len(quality)})", fontsize=9)
        for axes in figure.axes:
            axes.set_xlim(0.1, 1.0)
            axes.set_ylim(0.0, 1.0)
            axes.grid(axis="y")
            axes.xaxis.set_major_formatter(lambda share, _: f"{100 * share:.0f} %")
            axes.yaxis.set_major_formatter(lambda share, _: f"{100 * share:.0f} %")
        for axes in figure.axes[-_PANELS_A_ROW:]:  # the lowest of its column
            axes.tick_params(labelbottom=True)
        figure.supxlabel("share answered, the surest first", fontsize=9)
        figure.supylabel("share of these that is right", fontsize=9)
        return figure


def ranking_figure(row: Mapping[str, Interval], title: str) -> Figure:
    """Every method's value with its interval, the best on top."""
    names = sorted(row, key=lambda name: row[name].value)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7.2, 0.24 * len(names) + 1.1), layout="constrained")
        axes = figure.subplots()
        axes.set_yticks(range(len(names)), names)
        for y, (name, tick) in enumerate(zip(names, axes.get_yticklabels(), strict=True)):
            colour, weight, width, size = MUTED, "normal", 1.2, 4
            if is_cocoa(name):
                colour, weight, width, size = INK, "bold", 2.2, 6
            interval = row[name]
            axes.plot([interval.low, interval.high], [y, y], color=colour, linewidth=width)
            axes.plot([interval.value], [y], "o", color=colour, markersize=size)
            tick.set_fontweight(weight)
            tick.set_color(colour)
        axes.grid(axis="x")
        axes.set_ylim(-0.7, len(names) - 0.3)
        axes.set_title(title)
        axes.set_xlabel("PRR, with its 95 % interval")
        return figure


def samples_figure(by_draw: Mapping[str, ByEstimator], title: str) -> Figure:
    """PRR against the number of samples, with 95 % intervals.

    by_draw: number of samples to what its estimators are worth; those of `_BY_SAMPLES` that every
        number has are shown, or else the first few.
    """
    draws = sorted(by_draw, key=int)
    found = dict(zip(by_draw, map(intervals, by_draw.values()), strict=True))
    common = list(next(iter(found.values())))
    for values in found.values():
        common = list(filter(values.__contains__, common))
    names = list(filter(common.__contains__, _BY_SAMPLES)) or common[: len(_OTHERS)]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7.2, 4.2), layout="constrained")
        axes = figure.subplots()
        for shift, name in enumerate(names):
            # A little beside each other, so that intervals do not cover each other.
            offset = 0.12 * (shift - (len(names) - 1) / 2)
            colour = _BY_SAMPLES.get(name, _OTHERS[shift % len(_OTHERS)])
            xs = [int(draw) + offset for draw in draws]
            ys = [found[draw][name].value for draw in draws]
            axes.plot(xs, ys, "o-", color=colour, markersize=4, label=name)
            for x, draw in zip(xs, draws, strict=True):
                one = found[draw][name]
                axes.plot([x, x], [one.low, one.high], color=colour, alpha=0.35, linewidth=1.2)
        axes.set_xticks(list(map(int, draws)))
        axes.set_xlabel("samples a prompt")
        axes.set_ylabel("PRR")
        axes.set_ylim(top=1.0)
        axes.grid(axis="y")
        axes.set_title(title)
        axes.legend(loc="lower right", ncols=2)
        return figure


def reliability_figure(columns: Sequence[Column], names: Sequence[str], seed: int = 0) -> Figure:
    """Confidence against the share of correct answers; binary quality only.

    Rows are tasks, columns are methods.

    Confidence is an isotonic fit on one half of the prompts, shown on the other half.
    """
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(2.9 * len(names), 2.9 * len(columns) + 0.7), layout="constrained")
        panels = figure.subplots(len(columns), len(names), squeeze=False, sharex=True, sharey=True)
        for i, column in enumerate(columns):
            for j, name in enumerate(names):
                _reliability_panel(panels[i][j], column.scores[name], column.quality, seed)
                panels[i][j].set_title(f"{column.task}: {name}", fontsize=9)
            panels[i][0].set_ylabel("share correct")
        for axes in panels[-1]:
            axes.set_xlabel("confidence")
        figure.supxlabel(
            "Isotonic confidence, fitted on one half of the prompts and shown on the other; "
            f"{_NUM_BINS} bins of equal mass,\nbars are 95 % Wilson intervals. "
            "In brackets the ECE that perfect "
            "calibration would have at this number of prompts.",
            fontsize=8,
            color=MUTED,
        )
        return figure


def held_out_confidence(uncertainty: Array, correct: Array, seed: int = 0) -> tuple[Array, Array]:
    """Confidence and correctness of one half of the rows, by an isotonic fit on the other half."""
    kept = np.isfinite(uncertainty) & np.isfinite(correct)
    u, y = uncertainty[kept], correct[kept]
    order = np.random.default_rng(seed).permutation(len(u))
    fitted, shown = order[: len(u) // 2], order[len(u) // 2 :]
    model = IsotonicRegression(y_min=0.0, y_max=1.0, increasing=False, out_of_bounds="clip")
    model.fit(u[fitted], y[fitted])
    return np.asarray(model.predict(u[shown]), dtype=np.float64), y[shown]


def draw_reliability(axes: Axes, confidence: Array, correct: Array) -> None:
    """Share of right answers against confidence, in bins of equal mass with Wilson intervals."""
    axes.plot([0, 1], [0, 1], color=FAINT, linewidth=1.2)
    axes.set_xlim(-0.03, 1.03)
    axes.set_ylim(-0.03, 1.03)
    axes.set_aspect("equal")
    means, shares, counts = reliability(confidence, correct, _NUM_BINS)
    low, high = _wilson(shares, counts.astype(np.float64))
    axes.vlines(means, low, high, color=_COLOURS["ppl"], alpha=0.35, linewidth=2)
    axes.plot(means, shares, "o", color=_COLOURS["ppl"], markersize=4.5)


def save(figure: Figure, stem: Path) -> str:
    """Write PNG and SVG beside each other; the SVG's text, the same for the same figure."""
    with mpl.rc_context(STYLE):
        figure.savefig(stem.with_suffix(".png"), metadata={"Software": None})
        figure.savefig(stem.with_suffix(".svg"), metadata={"Date": None, "Creator": None})
    text = stem.with_suffix(".svg").read_text()
    return text[text.index("<svg") :]


def _rejection_panel(axes: Axes, column: Column, names: Sequence[str]) -> None:
    kept = ~np.isnan(column.quality)
    quality = column.quality[kept]
    others = iter(_OTHERS * len(names))
    for name in names:
        if name not in column.scores:
            continue
        u = column.scores[name][kept]
        colour = _COLOURS.get(known_estimators()[name].base or name) or next(others)
        u = np.where(np.isnan(u), np.inf, u)
        if is_cocoa(name):
            _curve(axes, u, quality, name, color=colour, linestyle="-", linewidth=2.0)
        else:
            _curve(axes, u, quality, name, color=colour, linestyle="--", linewidth=1.3)
    _curve(axes, -quality, quality, "oracle", color=INK, linestyle=":", linewidth=1.3)
    axes.axhline(float(quality.mean()), color=FAINT, linewidth=1.2, label="random")
    axes.set_xlim(0, _MAX_REJECTION)
    axes.xaxis.set_major_formatter(lambda share, _: f"{100 * share:.0f} %")
    axes.grid(axis="y")
    axes.set_title(f"{column.task} (n = {len(quality)})")
    axes.set_xlabel("least certain answers rejected")


def _curve(axes: Axes, uncertainty: Array, quality: Array, label: str, **style: Any) -> None:
    rejected, means = rejection_curve(uncertainty, quality, min(200, len(quality)))
    shown = rejected <= _MAX_REJECTION
    axes.plot(rejected[shown], means[shown], label=label, **style)


def _reliability_panel(axes: Axes, uncertainty: Array, correct: Array, seed: int) -> None:
    confidence, shown = held_out_confidence(uncertainty, correct, seed)
    draw_reliability(axes, confidence, shown)
    error, expected = (
        ece(confidence, shown, _NUM_BINS),
        expected_ece(confidence, shown, _NUM_BINS, num_draws=200),
    )
    if error is not None and expected is not None:
        axes.text(
            0.98, 0.04, f"ECE {error:.3f} [{expected:.3f}]", ha="right", fontsize=8, color=MUTED
        )


def _wilson(shares: Array, counts: Array) -> tuple[Array, Array]:
    """95 % interval (K,), (K,) of each share of so many. Wilson 1927."""
    z = 1.96
    scale = 1 + z**2 / counts
    centre = (shares + z**2 / (2 * counts)) / scale
    half = z * np.sqrt(shares * (1 - shares) / counts + z**2 / (4 * counts**2)) / scale
    return centre - half, centre + half
