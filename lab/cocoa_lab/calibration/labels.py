"""Labelled scores: what `cocoa evaluate` left in a folder, as arrays."""

import logging
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import orjson

from app.scoring.defaults import OF_DOCUMENTS
from app.scoring.selection import Strategy
from cocoa_lab.calibration.fitting import CannotCalibrate
from cocoa_lab.calibration.thresholds import Counts
from cocoa_lab.lines import objects_in
from cocoa_lab.overwriting import GENERATIONS, RESULTS
from cocoa_lab.run import Variant
from models.calibration import OUTDATED, UNNAMED_RULES, Binding, binding_of
from models.codec import to_json
from models.estimators import needs
from models.locations import without_folders
from models.records import Array
from models.similarity.rules import SCORED
from models.statistics import reads_samples

logger = logging.getLogger(__name__)

# What a label says: that the answer is right, or that the documents say it.
Axis = Literal["correct", "grounded"]
AXES: tuple[Axis, ...] = get_args(Axis)
_OF_SCORES = ("id", "task", "strategy", "similarity", "draw", "quality", "scores")


@dataclass(frozen=True, slots=True)
class Labels:
    """Scored answers of which it is known whether they are right, or whether documents say them.

    Attributes:
        tasks: (n,) names, "" where none is known.
        correct: (n,) 0 or 1; of the axis grounded, 1 where the documents say it.
        scores: estimator to its uncertainties (n,), NaN where it has none.
        ids: (n,) of the prompts, by which answers to the same ones are found; none where not known.
        answers: (n,) of parts of answers, numbers that say which are of one answer; None where each
            label is of a whole answer.
        axis: what the labels say, which decides whose scores they calibrate.
        prompts: (n,) texts that tell one prompt from another; none where not known.
    """

    tasks: Sequence[str]
    correct: Array
    scores: Mapping[str, Array]
    ids: Sequence[str] = ()
    answers: Counts | None = None
    axis: Axis = "correct"
    prompts: Sequence[str] = ()

    def of_task(self, task: str) -> "Labels":
        """Those of one task."""
        rows = np.array(self.tasks) == task
        scores = {name: u[rows] for name, u in self.scores.items()}
        answers = None if self.answers is None else self.answers[rows]
        tasks, correct = [task] * int(rows.sum()), self.correct[rows]
        return Labels(tasks, correct, scores, answers=answers, axis=self.axis)

    def calibrates(self, name: str) -> bool:
        """Whether these labels say what a score of this name is to tell."""
        return (name == OF_DOCUMENTS) == (self.axis == "grounded")

    def known(self, name: str) -> tuple[Array, Array, Counts | None]:
        """Of those that have a score of this name: the scores, what is right, and the answers."""
        u = self.scores[name]
        rows = ~np.isnan(u)
        answers = None if self.answers is None else self.answers[rows]
        return u[rows], self.correct[rows], answers


@dataclass(frozen=True, slots=True)
class Labelled:
    """Labels of one way of asking.

    Attributes:
        bindings: what their scores came from, and what has the same scores.
        sources: what the labels are, where those of several are pooled.
        num_repeats: of the pooled ones, those that are left out for another of their prompt.
    """

    labels: Labels
    bindings: tuple[Binding, ...]
    sources: tuple[str, ...] = ()
    num_repeats: int = 0


def read_labels(
    folder: Path,
    correct_at: float | None = None,
    *,
    strategy: Strategy | None = None,
    similarity: str | None = None,
    draw: str | None = None,
    temperature: float | None = None,
) -> tuple[list[Labelled], str]:
    """The answers of a run, for each way of asking, and what they are.

    Lines of one prompt are one draw of prompts: of whole answers the first one counts, and the
    parts of all its answers are as of one answer.

    Args:
        folder: of a finished `cocoa evaluate`.
        correct_at: quality from which an answer counts as right; None where all are 0 or 1.
        strategy: how the answers were chosen; None takes all of the run's.
        similarity: name of the function; None takes all.
        draw: name of the draw of samples; None takes all.
        temperature: at which the run has drawn; None takes any.

    Raises:
        CannotCalibrate: no such results, or quality of degrees without `correct_at`.
    """
    results = _results(folder)
    origin = results.get("binding") or results["origin"]
    if origin.get("rules", UNNAMED_RULES) != SCORED:
        raise CannotCalibrate(f"the scores in {folder} {OUTDATED}")
    wanted = Variant(strategy or "", similarity or "", draw or "")  # type: ignore[arg-type]
    drawn = results.get("binding") or results["header"]["sampling"]
    if temperature not in (None, drawn["temperature"]):
        raise CannotCalibrate(f"{folder} was drawn at temperature {drawn['temperature']:g}")
    prompts = prompts_of(folder)
    if "binding" in results:  # of a run over parts of answers
        of_parts = _of_parts(folder, results, wanted, prompts)
        _check_any(of_parts, folder, wanted)
        return of_parts, _source_of_parts(results)
    rows: defaultdict[tuple[str, Variant], dict[str, Any]] = defaultdict(dict)
    ids: set[str] = set()
    for line in objects_in(folder / "scores.jsonl", *_OF_SCORES):
        found = Variant(line["strategy"], line["similarity"], line["draw"])
        if _is_wanted(wanted, found) and line["quality"] is not None:
            prompt = prompts.get(line["id"], line["id"])
            rows[line.get("input", "prompt"), found].setdefault(prompt, line)
            ids.add(line["id"])
    _check_any(rows, folder, wanted)
    parts = []
    for (asked, variant), by_prompt in rows.items():
        labels = replace(_labels(list(by_prompt.values()), correct_at), prompts=list(by_prompt))
        parts.append(Labelled(labels, _bindings(results, asked, variant)))
    dataset = results["settings"]["dataset"]
    measures = ", ".join(sorted({task["quality"] for task in results["tasks"]}))
    num_labels = len({line["id"] for lines in rows.values() for line in lines.values()})
    source = f"{without_folders(dataset)}, {num_labels} labels by {measures}"
    if num_repeats := len(ids) - num_labels:
        source += f" ({num_repeats} lines repeat a prompt)"
    return parts, source


def prompts_of(folder: Path) -> dict[str, str]:
    """What each line of a run asked, by id, whatever its blanks; none where it is not known.

    That is its prompt, and behind it the digest of its documents.
    """
    prompts: dict[str, str] = {}
    path = folder / GENERATIONS
    for line in objects_in(path) if path.exists() else ():
        if "prompt" in line:  # all but the header
            prompts[line["id"]] = " ".join([*line["prompt"].split(), line.get("documents", "")])
    return prompts


def _is_wanted(wanted: Variant, found: tuple[str, str, str]) -> bool:
    is_gone = not found[2].isdecimal()
    return not is_gone and all(one in ("", own) for one, own in zip(wanted, found, strict=True))


def _check_any(found: Collection[Any], folder: Path, wanted: Variant) -> None:
    if not found:
        words = ", ".join(filter(None, wanted)) or "any variant"
        raise CannotCalibrate(f"{folder} holds no labelled answers of {words}")


def _of_parts(
    folder: Path, results: Mapping[str, Any], wanted: Variant, prompts: Mapping[str, str]
) -> list[Labelled]:
    """The labelled parts of a run over the parts of answers, for each wanted draw of samples."""
    lines = list(objects_in(folder / "units.jsonl", "id", "task", "scores", "correct"))
    numbers: dict[str, int] = {}
    asked = [prompts.get(line["id"], line["id"]) for line in lines]
    for prompt in asked:
        numbers.setdefault(prompt, len(numbers))
    labels = Labels(
        [line["task"] for line in lines],
        np.array([line["correct"] for line in lines], dtype=np.float64),
        {},
        ids=[f"{line['id']} {line['path'] or line['spans']}" for line in lines],
        answers=np.array([numbers[prompt] for prompt in asked], dtype=int),
        prompts=asked,
    )
    binding = binding_of(to_json(results["binding"]))
    found: list[Labelled] = []
    for name in (str(binding.num_samples), *(lines[0].get("by_draw", ()) if lines else ())):
        if not _is_wanted(wanted, (binding.strategy, binding.similarity, name)):
            continue
        rows = [{**line["scores"], **line.get("by_draw", {}).get(name, {})} for line in lines]
        scores = _scores(rows)
        if found:  # what reads no samples has the same scores there
            scores = {one: u for one, u in scores.items() if reads_samples(needs([one]))}
        of_draw = replace(binding, num_samples=int(name))
        found.append(Labelled(replace(labels, scores=scores), (of_draw,)))
    return found


def _scores(rows: Sequence[Mapping[str, float | None]]) -> dict[str, Array]:
    """Estimator to its scores (n,), NaN where a row has none."""
    scores: dict[str, Array] = {}
    for name in rows[0] if rows else ():
        scores[name] = np.array([row.get(name) for row in rows], dtype=np.float64)  # NaN for None
    return scores


def _source_of_parts(results: Mapping[str, Any]) -> str:
    dataset = without_folders(results["settings"]["dataset"])
    return f"{dataset}, {results['num_parts']} labels of {results['num_answers']} answers' parts"


def _labels(lines: Sequence[Any], correct_at: float | None) -> Labels:
    quality = np.array([line["quality"] for line in lines], dtype=np.float64)
    tasks, ids = [line["task"] for line in lines], [line["id"] for line in lines]
    scores = _scores([line["scores"] for line in lines])
    return Labels(tasks, correct_of(quality, correct_at), scores, ids)


def _results(folder: Path) -> Any:
    try:
        results = orjson.loads((folder / RESULTS).read_bytes())
    except (OSError, ValueError):
        raise CannotCalibrate(f"{folder} holds no results of `cocoa evaluate`") from None
    if not {"origin", "binding"} & results.keys():
        raise CannotCalibrate(f"{folder / RESULTS} does not say what its scores came from")
    return results


def correct_of(quality: Array, correct_at: float | None) -> Array:
    """Quality (n,) as right, 1, or wrong, 0.

    Raises:
        CannotCalibrate: it has degrees, and nobody says from where an answer is right.
    """
    if correct_at is not None:
        return (quality >= correct_at).astype(np.float64)
    if not np.isin(quality, (0.0, 1.0)).all():
        raise CannotCalibrate("quality has degrees: say with --correct-at from where it is right")
    return quality


def _bindings(results: Mapping[str, Any], asked: str, variant: Variant) -> tuple[Binding, ...]:
    """What the scores of a variant came from; where answers end by themselves, given ones as well.

    A model that reads its own greedy answer gives its tokens the log-probs that they were written
    with; one that a stop string has cut has no end of its own to be read.
    """
    header, origin = results["header"], results["origin"]
    if origin["stop"] is None:
        raise CannotCalibrate("the prompts have different stop strings")
    schema_use = origin.get("schema_use", "none")
    if schema_use is None:
        raise CannotCalibrate("some prompts have a JSON schema, and others have none")
    sampling, drawn_at = header["sampling"], 0.0
    if variant.strategy == "sample":
        drawn_at = header["sampling"].get("answer_temperature", 0.0)
    if sampling.get("distinct"):
        raise CannotCalibrate("draws that do not repeat are no more calibrated")
    binding = Binding(
        model_id=header["model"],
        revision=header["revision"],
        generator=origin["generator"],
        input=asked,
        strategy=variant.strategy,
        num_samples=int(variant.draw),
        temperature=sampling["temperature"],
        answer_temperature=drawn_at,
        top_k=sampling["top_k"],
        top_p=sampling["top_p"],
        stop=tuple(origin["stop"]),
        max_new_tokens=origin["max_new_tokens"],
        share_cut=origin["share_cut"],
        similarity=variant.similarity,
        comparer=origin["comparers"][variant.similarity],
        nli=origin["nli"],
        probes={name: one["sha256"] for name, one in header.get("probes", {}).items()},
        schema_use=schema_use,
        rules=SCORED,
    )
    if binding.outdated:
        raise CannotCalibrate(f"the {variant.strategy} answers {binding.outdated}")
    if variant.strategy != "greedy" or origin["stop"]:
        return (binding,)
    return binding, replace(binding, strategy="given")
