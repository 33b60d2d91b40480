"""Figures: two writes are equal, and the confidence they show was fitted on other rows."""

import numpy as np
import pytest

from cocoa_lab.comparison import Column
from cocoa_lab.metrics import Interval, ece
from cocoa_lab.plots import (
    held_out_confidence,
    ranking_figure,
    rejection_figure,
    reliability_figure,
    save,
)

RNG = np.random.default_rng(1)
CORRECT = (RNG.random(400) < 0.6).astype(float)
SCORES = {
    "sp": RNG.random(400) - CORRECT,
    "cocoa_sp": RNG.random(400) - 2 * CORRECT,
    "degmat": RNG.random(400),
}


def columns(**scores):
    return [Column(task, CORRECT, True, SCORES | scores) for task in ("facts", "sums")]


def test_every_figure_is_written_as_png_and_svg_and_equal_when_written_again(tmp_path):
    figures = {
        "rejection": lambda: rejection_figure(columns(), ["sp", "cocoa_sp", "degmat", "absent"]),
        "reliability": lambda: reliability_figure(columns(), ["sp", "cocoa_sp"]),
        "ranking": lambda: ranking_figure(
            {"sp": Interval(0.5, 0.4, 0.6), "cocoa_sp": Interval(0.7, 0.6, 0.8)}, "PRR"
        ),
    }
    for name, make in figures.items():
        svg = save(make(), tmp_path / name)
        assert svg.startswith("<svg")
        assert (tmp_path / f"{name}.png").read_bytes()[:4] == b"\x89PNG"
        assert save(make(), tmp_path / f"{name}-again") == svg


def test_scores_that_are_missing_are_drawn_as_least_certain(tmp_path):
    holes = np.where(np.arange(400) < 50, np.nan, SCORES["sp"])
    assert save(rejection_figure(columns(sp=holes), ["sp"]), tmp_path / "a").startswith("<svg")
    assert save(reliability_figure(columns(sp=holes), ["sp"]), tmp_path / "b").startswith("<svg")


def test_confidence_is_of_the_half_that_it_was_not_fitted_on():
    confidence, correct = held_out_confidence(SCORES["cocoa_sp"], CORRECT)
    assert len(confidence) == len(correct) == 200
    assert ((confidence >= 0) & (confidence <= 1)).all()
    assert ece(confidence, correct) < 0.15
    blind, correct = held_out_confidence(SCORES["degmat"], CORRECT)
    assert abs(blind.mean() - correct.mean()) < 0.1, (
        "no better than the share that is correct, and no worse"
    )


@pytest.mark.parametrize("task", [r"$\frac$", "$", r"\alpha $x$ $y", r"\$5$", "{^_"])
def test_the_name_of_a_task_is_no_formula(tmp_path, task):
    named = [Column(task, CORRECT, True, SCORES)]
    ranking = ranking_figure({"sp": Interval(0.5, 0.4, 0.6)}, f"PRR, {task}")
    figures = [rejection_figure(named, ["sp"]), reliability_figure(named, ["sp"]), ranking]
    for number, figure in enumerate(figures):
        assert save(figure, tmp_path / str(number)).startswith("<svg")


@pytest.mark.parametrize("num_tasks", [1, 2])
def test_a_legend_of_every_curve_stands_inside_the_figure(num_tasks):
    names = ("rb_cocoa_root_sp", "sp", "inconsistency", "cocoa_sp", "ppl", "semantic_entropy")
    shown = columns(**dict.fromkeys(names, SCORES["sp"]))[:num_tasks]
    figure = rejection_figure(shown, names)
    figure.draw_without_rendering()
    legend = figure.legends[0].get_window_extent()
    assert legend.x0 >= 0
    assert legend.x1 <= figure.bbox.x1
