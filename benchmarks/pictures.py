"""The three pictures of docs/concepts.md, drawn from requests to the embedded models.

python benchmarks/pictures.py        # some minutes
"""

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from service import PATH, running_cocoa

from cocoa_lab.datasets import load

IMAGES = Path(__file__).parents[1] / "docs" / "images"
PIROT = "Which country is Pirot in?"
# A sure answer, one of many wordings and one meaning, and one of many meanings.
QUESTIONS = [
    "What is the capital of Senegal?",
    "Say four hundred and fifty-four in Spanish.",
    PIROT,
]
TARGETS = (0.05, 0.1, 0.2)
NUM_ANSWERS = 300
SEED = 7
_TIMEOUT_S = 120
_RIGHT, _WRONG, _GREY, _DARK = "#1f77b4", "#d9480f", "#b8bec6", "#24292f"
_FONT = {"fontsize": 11, "color": _DARK}


class Service:
    """Answers of the service."""

    def __init__(self, url: str) -> None:
        self._client = httpx.Client(base_url=url, timeout=_TIMEOUT_S)

    def ask(self, prompt: str, **options: Any) -> dict[str, Any]:
        """The response to one prompt."""
        body = {"prompt": prompt, "seed": SEED} | options
        response: dict[str, Any] = self._client.post(PATH, json=body).raise_for_status().json()
        return response


def main() -> None:
    """Ask, draw, and write three PNG files."""
    with running_cocoa("serve") as url:
        service = Service(url)
        figures = {
            "concept-product.png": product(service),
            "concept-groups.png": groups(service),
            "concept-decision.png": decision(service),
        }
    for name, figure in figures.items():
        figure.savefig(IMAGES / name, dpi=110, bbox_inches="tight", facecolor="white")
        print(f"wrote {name}")


def product(service: Service) -> Figure:
    """Three answers as rectangles: lack of confidence by lack of consistency."""
    figure = Figure(figsize=(9, 4.2), layout="constrained")
    axes: Sequence[Axes] = figure.subplots(1, len(QUESTIONS), sharey=True, sharex=True)
    for one, question in zip(axes, QUESTIONS, strict=True):
        answer = service.ask(question)
        scores, text = answer["scores"], answer["text"].strip()
        width, height = scores["consistency"], scores["sp"]
        colour = _WRONG if scores["cocoa_sp"] > 1 else _RIGHT
        one.add_patch(Rectangle((0, 0), width, height, color=colour, alpha=0.55, linewidth=2))
        one.plot([0, width], [height, height], color=colour, linewidth=2)
        one.plot([width, width], [0, height], color=colour, linewidth=2)
        one.set_title(f"{_wrapped(question, 26)}\n“{_wrapped(text, 30)}”", **_FONT)
        told = f"{height:.2f} \N{MULTIPLICATION SIGN} {width:.3f}\n= {scores['cocoa_sp']:.3f}"
        one.text(0.5, 4.2, told, ha="center", va="top", fontsize=14, color=colour)
        _plain(one)
    axes[0].set(xlim=(0, 1), ylim=(0, 4.3))
    axes[0].set_ylabel("lack of confidence\n-log p of the answer, in nats", **_FONT)
    figure.supxlabel("lack of consistency: 1 - mean similarity of 10 samples to it", **_FONT)
    return figure


def groups(service: Service) -> Figure:
    """Samples of two questions by meaning: how many, and how like the answer."""
    answers = [service.ask(question, explain=True) for question in QUESTIONS[1:]]
    heights = [len(answer["groups"]) + 0.8 for answer in answers]
    figure = Figure(figsize=(9, 0.36 * sum(heights)), layout="constrained")
    both: Sequence[Axes] = figure.subplots(2, 1, height_ratios=heights, sharex=True)
    for axes, question, answer in zip(both, QUESTIONS[1:], answers, strict=True):
        _draw_groups(axes, question, answer)
    return figure


def _draw_groups(axes: Axes, question: str, answer: dict[str, Any]) -> None:
    found, num_samples = answer["groups"], answer["provenance"]["num_samples"]
    for row, group in enumerate(found):
        colour = _RIGHT if group["is_answer"] else _GREY
        for i in range(group["count"]):
            axes.add_patch(Rectangle((i + 0.06, row - 0.36), 0.88, 0.72, color=colour))
        means = "the answer, " if group["is_answer"] else ""
        told = f"{means}“{group['text'].strip()}”"
        axes.text(-0.15, row, told, ha="right", va="center", **_FONT)
        shown = f"share {group['share']:.0%}, similarity {group['similarity']:.3f}"
        axes.text(group["count"] + 0.15, row, shown, va="center", fontsize=10, color=_DARK)
    axes.set(xlim=(-8, 14), ylim=(len(found) - 0.5, -1.1), xticks=[], yticks=[])
    axes.spines[["left", "right", "top", "bottom"]].set_visible(False)
    kinds = "1 meaning" if len(found) == 1 else f"{len(found)} meanings"
    title = f"{question}   {num_samples} samples, {kinds}"
    axes.text(-8, -0.9, title, va="center", fontsize=12, color=_DARK, fontweight="bold")


def decision(service: Service) -> Figure:
    """Answers of the testbed by uncertainty and confidence, with thresholds of wanted errors."""
    figure = Figure(figsize=(9, 4.6), layout="constrained")
    axes: Axes = figure.subplots()
    asked = []
    for example in load("testbed", limit=NUM_ANSWERS, seed=0):
        options = {"max_new_tokens": example.max_new_tokens, "stop": list(example.stop)}
        answer = service.ask(example.prompt, target_error=TARGETS[0], **options)
        asked.append((answer, answer["text"].strip() in example.references))
    for is_right, colour, marker, label in (
        (True, _RIGHT, "o", "right answer"),
        (False, _WRONG, "X", "wrong answer"),
    ):
        shown = [answer for answer, was_right in asked if was_right is is_right]
        axes.scatter(
            [max(answer["uncertainty"], 1e-4) for answer in shown],
            [answer["confidence"] for answer in shown],
            s=30,
            c=colour,
            marker=marker,
            alpha=0.75,
            linewidths=0,
            label=f"{label} ({len(shown)})",
        )
    for target, height in zip(TARGETS, (0.42, 0.26, 0.1), strict=True):
        _draw_threshold(axes, service, target, height, asked)
    axes.set(xscale="log", xlim=(1e-4, 12), ylim=(-0.03, 1.03))
    axes.set_xlabel("uncertainty (rb_cocoa_sp), logarithmic", **_FONT)
    axes.set_ylabel("confidence", **_FONT)
    axes.legend(loc="lower left", frameon=False)
    _plain(axes)
    return figure


def _draw_threshold(
    axes: Axes,
    service: Service,
    target: float,
    height: float,
    asked: Sequence[tuple[dict[str, Any], bool]],
) -> None:
    threshold = service.ask(PIROT, target_error=target)["decision"]["threshold"]
    passed = [is_right for answer, is_right in asked if answer["uncertainty"] <= threshold]
    axes.axvline(threshold, color=_DARK, linewidth=1, linestyle="--")
    share = passed.count(False) / len(passed)
    told = f"target_error {target:g}:\n{len(passed)} pass, {share:.1%} of them wrong"
    box = {"facecolor": "white", "edgecolor": "none", "pad": 1}
    place = {"ha": "right", "va": "center", "fontsize": 10, "color": _DARK, "bbox": box}
    axes.text(threshold * 0.94, height, told, **place)


def _plain(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=10, colors=_DARK)


def _wrapped(text: str, width: int) -> str:
    return "\n".join(textwrap.wrap(text, width))


if __name__ == "__main__":
    main()
