"""The answers of a run of `cocoa evaluate`, with their quality and all of their scores."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from cocoa_lab.comparison import Column
from cocoa_lab.lines import objects_in
from cocoa_lab.overwriting import GENERATIONS
from cocoa_lab.recordings import read


def answers_of(folder: Path, *, of_every_task: bool = False) -> Column:
    """The answers of a run with all scores, by its first strategy, similarity and draw of samples.

    Args:
        folder: of the run.
        of_every_task: those of tasks that rank nothing by themselves, too.

    Raises:
        ValueError: no task of the run ranks anything, and others are not asked for.
    """
    results = json.loads((folder / "results.json").read_text())
    left_out = set[str]()
    if not of_every_task:
        left_out = {task["task"] for task in results["tasks"] if task["left_out"]}
    _, recordings = read(folder / GENERATIONS)
    first = next(iter(results["similarity"]))
    strategy, draws = next(iter(results["samples"].items()))
    draw = next(iter(draws))
    lines: dict[str, dict[str, Any]] = {}
    for line in objects_in(folder / "scores.jsonl"):
        is_asked = line["strategy"] == strategy and line["draw"] == draw
        if is_asked and line["task"] not in left_out and line["similarity"] == first:
            lines[line["id"]] = line
    if not lines:
        raise ValueError(f"{folder}: no task ranks anything")
    num_tokens = []
    for id_ in lines:
        generation = recordings[id_].generation
        num_tokens.append(0 if generation is None else generation.answer.num_tokens)
    quality = np.array([line["quality"] for line in lines.values()], dtype=np.float64)
    scores = {}
    for name in next(iter(lines.values()))["scores"]:
        values = [line["scores"][name] for line in lines.values()]
        scores[name] = np.array(values, dtype=np.float64)  # NaN for None
    counts = np.array(num_tokens, dtype=np.float64)
    is_binary = bool(np.isin(quality[~np.isnan(quality)], (0.0, 1.0)).all())
    kinds = [line["task"] for line in lines.values()]
    return Column(folder.name, quality, is_binary, scores, counts, kinds, list(lines))
