"""The pictures of docs/concepts.md and docs/units.md, drawn from requests to the embedded models.

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

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
# It reasons about sums before it answers.
REASONING_MODEL = ROOT / "tests" / "data" / "reasoning_model"
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


SUM = "What is 47 + 38?"
INVOICE = {
    "json_schema": {"properties": {"number": {"pattern": "^A-"}, "date": {"format": "date"}}},
    "answer": '{"number": "A-117", "date": "2026-03-04", "total": 118.5, "paid": false}',
    "samples": [
        {"text": '{"number": "A-117", "date": "2026-03-04", "total": 118.5, "paid": false}'},
        {"text": '{"number": "A-117", "date": "2026-04-03", "total": 118.5, "paid": false}'},
        {"text": '{"number": "A-117", "date": "2026-04-03", "total": 18.5, "paid": false}'},
        {"text": '{"number": "A-111", "date": "2026-03-04", "total": 118.5}'},
    ],
}


class Service:
    """Answers of the service."""

    def __init__(self, url: str) -> None:
        self._client = httpx.Client(base_url=url, timeout=_TIMEOUT_S)

    def ask(self, prompt: str | None, **options: Any) -> dict[str, Any]:
        """The response to one prompt."""
        return self._post(PATH, {"prompt": prompt, "seed": SEED} | options)

    def score(self, **body: Any) -> dict[str, Any]:
        """The response to an answer that exists, with its fields."""
        return self._post("/score", {"units": "fields"} | body)

    def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        response: dict[str, Any] = self._client.post(path, json=body).raise_for_status().json()
        return response


def main() -> None:
    """Ask, draw, and write the PNG files."""
    with running_cocoa("serve", GENERATION__MODEL=REASONING_MODEL) as url:
        reasoned = reasoning(Service(url))
    with running_cocoa("serve") as url:
        service = Service(url)
        figures = {
            "concept-product.png": product(service),
            "concept-groups.png": groups(service),
            "concept-decision.png": decision(service),
            "unit-reasoning.png": reasoned,
            "unit-fields.png": fields(service),
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


def reasoning(service: Service) -> Figure:
    """A reasoned answer: words of its reasoning, tokens of the answer with their surprise."""
    answer = service.ask(None, messages=[{"role": "user", "content": SUM}], return_tokens=True)
    thoughts = answer["reasoning"].split()
    tokens = [one for one in answer["tokens"] if one["text"].strip()]
    figure = Figure(figsize=(9, 2.2), layout="constrained")
    axes: Axes = figure.subplots()
    pieces = [(word, None) for word in ("<think>", *thoughts, "</think>")]
    pieces += [(one["text"], -one["logprob"]) for one in tokens]
    left, behind = 0.0, 0.0
    for text, surprise in pieces:
        width, colour = 0.16 * len(text.strip()) + 0.2, _GREY
        if surprise is None:
            behind = left + width
        else:
            width, colour = width + 0.9, _RIGHT  # its surprise stands below
            told = f"{surprise:.3f}"
            axes.text(left + width / 2, -0.62, told, ha="center", fontsize=9, color=_DARK)
        axes.add_patch(Rectangle((left, -0.36), width - 0.05, 0.72, color=colour, alpha=0.6))
        axes.text(left + width / 2 - 0.03, 0, text.strip(), ha="center", va="center", **_FONT)
        left += width
    counted = f"the answer: sp = {answer['scores']['sp']:.3f} nats, its end included"
    axes.text(0, 0.6, "the reasoning: in no score", fontsize=10, color=_DARK)
    axes.text(left + 0.1, 0.6, counted, ha="right", fontsize=10, color=_RIGHT)
    axes.plot([behind, behind], [-0.8, 0.5], color=_DARK, linewidth=1, linestyle="--")
    axes.set(xlim=(-0.1, left + 0.1), ylim=(-0.9, 1), xticks=[], yticks=[], title=SUM)
    axes.spines[["left", "right", "top", "bottom"]].set_visible(False)
    return figure


def fields(service: Service) -> Figure:
    """The fields of an invoice: lack of agreement of the samples, and what they say instead."""
    scored = service.score(**INVOICE)
    told = [unit for unit in scored["units"] if unit["kind"] == "field"]
    figure = Figure(figsize=(9, 0.5 * len(told) + 0.6), layout="constrained")
    axes: Axes = figure.subplots()
    for row, unit in enumerate(told):
        height = unit["scores"]["consistency"]
        colour = _WRONG if height > 0.3 else _RIGHT
        axes.add_patch(Rectangle((0, row - 0.3), max(height, 0.004), 0.6, color=colour, alpha=0.6))
        name = f"{unit['path']}   {unit['text']}"
        axes.text(-0.02, row, name, ha="right", va="center", family="monospace", **_FONT)
        others = []
        for one in unit["alternatives"]:
            if one["value"] != unit["text"]:
                others.append(f"{one['value'] or '(nothing)'}: {one['share']:.0%}")
        said = f"{height:.2f}   " + ",  ".join(others)
        axes.text(height + 0.02, row, said, va="center", fontsize=10, color=_DARK)
    axes.set(xlim=(-0.75, 1.15), ylim=(len(told) - 0.5, -0.8), yticks=[], xticks=[0, 0.5, 1])
    axes.set_xlabel("disagreement of four samples with the field", **_FONT)
    axes.spines[["left", "right", "top"]].set_visible(False)
    return figure


def _plain(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=10, colors=_DARK)


def _wrapped(text: str, width: int) -> str:
    return "\n".join(textwrap.wrap(text, width))


if __name__ == "__main__":
    main()
