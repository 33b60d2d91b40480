"""What a calibration leaves behind: the file, a table that a person understands, and plots."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.table import Column, Table

from app.scoring.defaults import PRIMARY, PRIMARY_OF_PARTS
from cocoa_lab.calibration.calibrating import Fitted, way_of
from cocoa_lab.calibration.checking import Check, cross_check, risk_coverage
from cocoa_lab.calibration.labels import Labels
from cocoa_lab.plots import FAINT, INK, MUTED, STYLE, draw_reliability, save
from models.calibration import ALL, Calibration, Calibrator, Threshold

_COLOUR = "#0f6f8f"
_SHOWN = ("rb_cocoa_root_sp", "cocoa_root_sp", "inconsistency", "sp")


def checks_of(calibrator: Calibrator, labels: Labels) -> dict[str, Check]:
    """How good each calibration of all labels is, on labels that it was not fitted on."""
    checks: dict[str, Check] = {}
    for name in calibrator.parts[0].groups[ALL]:
        if (check := cross_check(*labels.known(name))) is not None:
            checks[name] = check
    return checks


def table(by_estimator: Mapping[str, Calibration], checks: Mapping[str, Check]) -> Table:
    """Estimator, the default marked, calibration error, and what each target lets pass."""
    default = next(filter(by_estimator.__contains__, (*PRIMARY, *PRIMARY_OF_PARTS)), None)
    first = next(iter(by_estimator.values()))
    targets = [f"{100 * one.target_error:g} %" for one in first.thresholds]
    columns = [Column(name, no_wrap=True) for name in ("estimator", "ECE", *targets)]
    title = "Share that may be accepted, with at most so many wrong"
    shown = Table(*columns, box=None, pad_edge=False, title=title, title_justify="left")
    for name, one in by_estimator.items():
        error = "-"
        if name in checks:
            error = f"{checks[name].ece:.3f} ({checks[name].expected:.3f})"
        mark = " *" if name == default else ""
        shown.add_row(name + mark, error, *map(_share, one.thresholds))
    shown.caption = (
        f"{first.num_labels} labels; *: reported by default; +: so many more are missing; in "
        "brackets the ECE of exact confidences"
    )
    return shown


def shown_estimators(by_estimator: Mapping[str, Calibration]) -> list[str]:
    """Those that are drawn and told in words, the default estimator first."""
    return list(filter(by_estimator.__contains__, _SHOWN)) or list(by_estimator)[: len(_SHOWN)]


def lines(fitted: Fitted) -> list[str]:
    """Each way of asking, with what its first estimator lets pass; those that share it together."""
    ways: dict[int, list[str]] = {}
    found = []
    for part in fitted.calibrator.parts:
        ways.setdefault(id(part.groups), []).append(way_of(part.binding))
    for part in fitted.calibrator.parts:
        if told := ways.pop(id(part.groups), None):
            by_estimator = part.groups[ALL]
            [name, *_] = shown_estimators(by_estimator)
            found.append(f"{' / '.join(told)}: {name}: {'; '.join(sentences(by_estimator[name]))}")
    return found


def sentences(one: Calibration) -> list[str]:
    """What may be accepted, in words."""
    found = []
    for threshold in one.thresholds:
        target = f"{100 * threshold.target_error:g} % wrong"
        if threshold.uncertainty is None:
            missing = ""
            if threshold.labels_missing is not None:
                missing = f" (about {threshold.labels_missing} more labels are needed)"
            found.append(f"no threshold is sure to keep at most {target}{missing}")
            continue
        share = 100 * (threshold.share_accepted or 0.0)
        what, pooled = "answers", ""
        if threshold.share_pooled is not None:
            what = "parts"
            pooled = f" on average over answers ({100 * threshold.share_pooled:.2g} % of all kept)"
        found.append(
            f"accept {share:.0f} % of {what} (up to {threshold.uncertainty:.4g}), "
            f"at most {target}{pooled}"
        )
    return found


def write_plots(
    calibrator: Calibrator,
    labels: Labels,
    checks: Mapping[str, Check],
    names: Sequence[str],
    folder: Path,
) -> None:
    """Reliability diagrams and risk-coverage curves of these estimators."""
    folder.mkdir(parents=True, exist_ok=True)
    checked = {name: checks[name] for name in names if name in checks}
    if checked:
        save(reliability_figure(checked), folder / "reliability")
    by_estimator = calibrator.parts[0].groups[ALL]
    drawn = list(filter(by_estimator.__contains__, names))
    save(_risk_figure(by_estimator, labels, drawn), folder / "risk-coverage")


def reliability_figure(checks: Mapping[str, Check]) -> Figure:
    """Confidence against the share of right answers, on labels that no curve was fitted on."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(3.2 * len(checks), 3.6), layout="constrained")
        panels = figure.subplots(1, len(checks), squeeze=False, sharey=True)[0]
        for axes, (name, check) in zip(panels, checks.items(), strict=True):
            draw_reliability(axes, check.confidence, check.correct)
            axes.set_xlabel("confidence")
            axes.set_title(f"{name}: ECE {check.ece:.3f}", fontsize=9)
        panels[0].set_ylabel("share right")
        return figure


def _risk_figure(
    by_estimator: Mapping[str, Calibration], labels: Labels, names: Sequence[str]
) -> Figure:
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(3.8 * len(names), 3.6), layout="constrained")
        panels = figure.subplots(1, len(names), squeeze=False, sharey=True)[0]
        for axes, name in zip(panels, names, strict=True):
            _risk_panel(axes, by_estimator[name], labels.scores[name], labels.correct)
            axes.set_title(name, fontsize=9)
        panels[0].set_ylabel("wrong among the accepted")
        return figure


def _risk_panel(axes: Axes, one: Calibration, uncertainty: np.ndarray, correct: np.ndarray) -> None:
    known = ~np.isnan(uncertainty)
    accepted, wrong = risk_coverage(uncertainty[known], correct[known])
    axes.plot(accepted, wrong, color=INK, linewidth=1.5)
    for threshold in one.thresholds:
        axes.axhline(threshold.target_error, color=FAINT, linewidth=0.8)
        if threshold.share_accepted is not None and threshold.share_wrong is not None:
            axes.plot([threshold.share_accepted], [threshold.share_wrong], "o", color=_COLOUR)
            axes.annotate(
                f"≤ {100 * threshold.target_error:g} %: {100 * threshold.share_accepted:.0f} %",
                (threshold.share_accepted, threshold.share_wrong),
                xytext=(-6, 8),
                textcoords="offset points",
                ha="right",
                fontsize=8,
                color=MUTED,
            )
    axes.set_xlim(0, 1)
    axes.set_ylim(0, max(0.3, float(wrong.max()) + 0.02))
    axes.set_xlabel("share accepted")


def _share(threshold: Threshold) -> str:
    if threshold.labels_missing is not None:
        return f"+{threshold.labels_missing}"
    if threshold.share_accepted is None:
        return "none"
    return f"{100 * threshold.share_accepted:.0f} %"
