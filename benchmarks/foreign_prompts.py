"""How well prompts unlike those of a calibration are told, and what that keeps from passing.

`write` makes the prompts: the testbed, further products, and questions in German and about code,
which the embedded models cannot answer. After `cocoa evaluate` on them, `measure` calibrates
without one kind of them (but for a few) and serves that kind.
"""

import json
import random
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from sklearn.metrics import roc_auc_score

from cocoa_lab.calibration.fitting import fit
from cocoa_lab.calibration.prompts import STATES, kinds_of, read_states
from cocoa_lab.embedded import as_question
from cocoa_lab.embedded.corpus import all_topics
from cocoa_lab.embedded.testbed import HeldOut, held_out, read_testbed
from cocoa_lab.embedded.topics import wordings
from models.embedded import TESTBED_DIR
from models.probes.domain import PromptDomain
from models.records import Array

_GERMAN = {
    "capital": ("Was ist die Hauptstadt von {0}?", "Wie heißt die Hauptstadt von {0}?"),
    "city_country": ("In welchem Land liegt {0}?", "Zu welchem Land gehört die Stadt {0}?"),
    "currency": ("Welche Währung hat {0}?", "Womit zahlt man in {0}?"),
    "continent": ("Auf welchem Kontinent liegt {0}?", "Zu welchem Kontinent gehört {0}?"),
    "sum": ("Was ist {0}?", "Berechne {0}.", "Wie viel ergibt {0}?"),
}
_CODE = (
    "Write a Python function that {0} {1}.",
    "def f(x):\n    # {0} {1}\n",
    "How do I write a loop that {0} {1} in C?",
    "Fix this code: for (int i = 0; i < n; i++) {{ // {0} {1}",
)
_VERBS = ("reverses", "sorts", "counts", "sums", "filters", "prints", "merges", "copies")
_THINGS = (
    "a list of integers",
    "a string",
    "the words of a file",
    "a linked list",
    "two dictionaries",
    "the rows of a matrix",
    "a binary tree",
    "a set of names",
)
_SERVED = {
    "products": ("product",),
    "cities": ("city_country", "city_continent"),
    "numbers in words": ("number", "number_words"),
    "German": ("german",),
    "code": ("code",),
}
_FOREIGN = ("german", "code")
_TARGET = 0.05

app = typer.Typer()


@app.command()
def write(file: Path, second: Annotated[bool, typer.Option(help="As questions.")] = False) -> None:
    """Write the prompts, each with its kind as its task."""
    lines = [line for of_task in read_testbed(TESTBED_DIR).values() for line in of_task]
    lines += [line for line in held_out("probe", 3300)["arithmetic"] if line.kind == "product"]
    with file.open("w", encoding="utf-8") as out:
        for line in (*lines, *_german(), *_code()):
            prompt = as_question(line.prompt) if second else line.prompt
            told: dict[str, Any] = {"id": line.id, "task": line.kind, "prompt": prompt}
            told |= {"references": line.references, "max_new_tokens": 32}
            out.write(json.dumps(told) + "\n")


def _german() -> list[HeldOut]:
    rng = random.Random(0)
    lines: list[HeldOut] = []
    topics = [topic for of_task in all_topics().values() for topic in of_task]
    for kind, forms in _GERMAN.items():
        of_kind = [topic for topic in topics if topic.kind == kind]
        for topic in rng.choices(of_kind, [topic.weight for topic in of_kind], k=60):
            prompt = rng.choice(forms).format(topic.subject)
            lines.append(_line("german", len(lines), prompt, wordings(topic)))
    return lines


def _code() -> list[HeldOut]:
    lines: list[HeldOut] = []
    for verb in _VERBS:
        for thing in _THINGS:
            for form in _CODE:
                prompt = form.format(verb, thing)
                lines.append(
                    _line("code", len(lines), prompt, ["no answer of this model is right"])
                )
    return lines


def _line(kind: str, number: int, prompt: str, references: list[str]) -> HeldOut:
    return HeldOut(f"{kind}-{number:03d}", kind, kind, prompt, references[0], references, 0.0)


@app.command()
def measure(
    results: Annotated[Path, typer.Argument(help="Of `cocoa evaluate` on these prompts.")],
    estimator: str = "rb_cocoa_sp",
    rare: Annotated[int, typer.Option(help="Prompts of the kind in the calibration.")] = 3,
) -> None:
    """Print a table: what is told of each kind, and what passes with at most 5 % promised wrong."""
    kinds, uncertainty, correct, states = _read(results, estimator)
    typer.echo("| served | AUROC | told | told in domain | accepted, wrong | without the told |")
    typer.echo("|---|---|---|---|---|---|")
    for name, served in _SERVED.items():
        rng = np.random.default_rng(0)
        is_served = np.isin(kinds, served)
        inside = rng.permutation(np.flatnonzero(~is_served & ~np.isin(kinds, _FOREIGN)))
        outside = rng.permutation(np.flatnonzero(is_served))
        few = 0 if name in ("German", "code") else rare
        labelled = np.concatenate([inside[len(inside) // 5 :], outside[:few]])
        inside, outside = inside[: len(inside) // 5], outside[few:]
        domain = PromptDomain("", 0, kinds_of(states[labelled]))
        far_in, far_out = _nearest(domain, states[inside]), _nearest(domain, states[outside])
        auroc = roc_auc_score(np.repeat([0, 1], [len(inside), len(outside)]), [*far_in, *far_out])
        told = np.array([domain.is_foreign(state) for state in states[outside]])
        told_in = np.mean([domain.is_foreign(state) for state in states[inside]])
        threshold = fit(uncertainty[labelled], correct[labelled]).threshold(_TARGET)
        limit = -np.inf
        if threshold is not None and threshold.uncertainty is not None:
            limit = threshold.uncertainty
        passes = uncertainty[outside] <= limit
        before, after = _wrong(passes, correct[outside]), _wrong(passes & ~told, correct[outside])
        typer.echo(
            f"| {name} | {auroc:.2f} | {told.mean():.2f} | {told_in:.3f} | {before} | {after} |"
        )


def _read(folder: Path, estimator: str) -> tuple[Array, Array, Array, Array]:
    """Kinds, uncertainties, correctness (n,) and states (n, d) of a run's first variant."""
    found, kinds, uncertainty, correct, rows = read_states(folder / STATES), [], [], [], []
    variant = None
    with (folder / "scores.jsonl").open(encoding="utf-8") as lines:
        for line in map(json.loads, lines):
            this = line["strategy"], line["similarity"], line["draw"]
            variant = variant or this
            if this == variant and line["id"] in found.by_id:
                kinds.append(line["task"])
                uncertainty.append(line["scores"][estimator])
                correct.append(line["quality"])
                rows.append(found.by_id[line["id"]])
    return np.array(kinds), np.array(uncertainty), np.array(correct), np.array(rows, np.float64)


def _nearest(domain: PromptDomain, states: Array) -> Array:
    """Distances (n,) from the nearest kind, as multiples of its 99th percentile."""
    shares = [kind.of(states) / kind.percentiles[99] for kind in domain.kinds]
    nearest: Array = np.min(shares, axis=0)
    return nearest


def _wrong(passes: Array, correct: Array) -> str:
    if not passes.any():
        return "none"
    return f"{passes.mean():.2f}, {1 - correct[passes].mean():.2f}"


if __name__ == "__main__":
    app()
