"""Figures of probes: losses by epoch, predictions against samples, light against full."""

from collections.abc import Mapping, Sequence
from dataclasses import astuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cocoa_lab.metrics import Interval
from cocoa_lab.plots import FAINT, INK, MUTED, STYLE
from cocoa_lab.probes.checkpoint import Epoch
from models.records import Array

_COLOURS = ("#0f6f8f", "#b8500f", "#6a4c93", "#3f7d3a", "#a3476b", "#8a7a00", "#4a5a6a", "#1f2933")


def loss_figure(epochs: Sequence[Epoch], chosen_layer: int) -> Figure:
    """Training loss dashed and validation loss solid, by layer; the chosen epoch is marked."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(6.4, 4.0), layout="constrained")
        axes = figure.subplots()
        by_layer: dict[int, list[Epoch]] = {}
        for epoch in epochs:
            by_layer.setdefault(epoch.layer, []).append(epoch)
        for colour, (layer, own) in zip(_COLOURS, by_layer.items(), strict=False):
            _loss_curves(axes, own, colour, is_chosen=layer == chosen_layer)
        axes.set(
            xlabel="epoch",
            ylabel="loss",
            title="Validation loss (dashed: training); the dot is the probe",
        )
        axes.grid(axis="y")
        axes.legend()
        return figure


def prediction_figure(predicted: Array, true: Array, title: str) -> Figure:
    """Predicted against true value of each answer.

    The line shows the means of ten equal groups of predictions.
    """
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(4.6, 4.4), layout="constrained")
        axes = figure.subplots()
        axes.plot([0, 1], [0, 1], color=FAINT, linewidth=1)
        axes.plot(predicted, true, ".", color=_COLOURS[0], alpha=0.25, markersize=4)
        groups = np.array_split(np.argsort(predicted), min(10, len(predicted)))
        means = np.array([(predicted[group].mean(), true[group].mean()) for group in groups])
        axes.plot(means[:, 0], means[:, 1], "o-", color=_COLOURS[1], label="mean of a tenth")
        axes.set(
            xlim=(-0.03, 1.03),
            ylim=(-0.03, 1.03),
            xlabel="predicted",
            ylabel="from samples",
            title=title,
        )
        axes.legend(loc="upper left")
        return figure


def difference_figure(
    differences: Mapping[str, Mapping[str, Mapping[str, Interval]]], bounds: Mapping[str, float]
) -> Figure:
    """PRR of light minus full with intervals.

    One panel a score, one line a column, one marker a probe.

    differences: light score to probe to column. bounds: column to the largest loss that is allowed
    there.
    """
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(3.3 * len(differences), 3.4), layout="constrained")
        panels = figure.subplots(1, len(differences), squeeze=False, sharex=True, sharey=True)[0]
        for axes, (name, by_probe) in zip(panels, differences.items(), strict=True):
            _difference_panel(axes, name, by_probe, bounds)
        handles, labels = panels[0].get_legend_handles_labels()
        if labels:
            figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
        return figure


def _loss_curves(axes: Axes, epochs: Sequence[Epoch], colour: str, *, is_chosen: bool) -> None:
    """Both losses of one layer."""
    _, numbers, training, validation = zip(*map(astuple, epochs), strict=True)
    width = 1.1 + 1.1 * is_chosen
    axes.plot(numbers, training, color=colour, linestyle="--", linewidth=width * 0.6)
    label = f"layer {epochs[0].layer}"
    axes.plot(numbers, validation, color=colour, linewidth=width, label=label)
    if is_chosen:
        best = min(epochs, key=lambda epoch: epoch.validation_loss)
        axes.plot(best.number, best.validation_loss, "o", color=colour, markersize=8)


def _difference_panel(
    axes: Axes,
    name: str,
    by_probe: Mapping[str, Mapping[str, Interval]],
    bounds: Mapping[str, float],
) -> None:
    columns = list(bounds)
    axes.axvline(0, color=MUTED, linewidth=1)
    for i, (probe, intervals) in enumerate(by_probe.items()):
        if not intervals:
            continue
        shift = 0.16 * (i - (len(by_probe) - 1) / 2)
        heights = [columns.index(column) + shift for column in intervals]
        values = [interval.value for interval in intervals.values()]
        spans = [[n.value - n.low, n.high - n.value] for n in intervals.values()]
        axes.errorbar(
            values,
            heights,
            xerr=np.array(spans).T,
            fmt="o",
            color=_COLOURS[i],
            markersize=5,
            label=probe,
        )
    for row, bound in enumerate(bounds.values()):
        axes.plot(
            [-bound, -bound], [row - 0.35, row + 0.35], color=INK, linewidth=1.2, linestyle=":"
        )
    axes.set_yticks(range(len(columns)), columns)
    axes.invert_yaxis()
    axes.set(title=name, xlabel="PRR, light minus full")
    axes.grid(axis="x")
