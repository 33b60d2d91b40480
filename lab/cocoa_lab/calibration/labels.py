"""Labelled scores: what `cocoa evaluate` left in a folder, as arrays."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from app.lines import complete_lines
from cocoa_lab.calibration.fitting import CannotCalibrate
from cocoa_lab.overwriting import RESULTS
from cocoa_lab.run import Draw, Variant
from models.calibration import Binding
from models.locations import without_folders
from models.records import Array
from models.selection import Strategy

# Where more answers and samples end at the limit, another limit gives other ones.
MAX_SHARE_CUT = 0.01


@dataclass(frozen=True, slots=True)
class Labels:
    """Scored answers whose correctness is known.

    Attributes:
        tasks: (n,) names, "" where none is known.
        correct: (n,) 0 or 1.
        scores: estimator to its uncertainties (n,), NaN where it has none.
    """

    tasks: Sequence[str]
    correct: Array
    scores: Mapping[str, Array]

    def of_task(self, task: str) -> "Labels":
        """Those of one task."""
        rows = np.array(self.tasks) == task
        scores = {name: u[rows] for name, u in self.scores.items()}
        return Labels([task] * int(rows.sum()), self.correct[rows], scores)


def read_labels(
    folder: Path,
    correct_at: float | None = None,
    *,
    strategy: Strategy | None = None,
    similarity: str | None = None,
    draw: str | None = None,
) -> tuple[Labels, Binding, str]:
    """The answers of a run under one variant, what they are bound to, and what they are.

    Args:
        folder: of a finished `cocoa evaluate`.
        correct_at: quality from which an answer counts as right; None where all are 0 or 1.
        strategy: how the answers were chosen; None as in the run's first variant.
        similarity: name of the function; None as there.
        draw: name of the draw of samples; None as there.

    Raises:
        CannotCalibrate: no such results, or quality of degrees without `correct_at`.
    """
    results = _results(folder)
    rows: list[Any] = []
    variant: Variant | None = None
    for line in map(orjson.loads, complete_lines(folder / "scores.jsonl")):
        found = Variant(line["strategy"], line["similarity"], line["draw"])
        if variant is None:  # the first line is of the run's first variant
            variant = Variant(
                strategy or found.strategy, similarity or found.similarity, draw or found.draw
            )
        if found == variant and line["quality"] is not None:
            rows.append(line)
    if variant is None or not rows:
        wanted = ", ".join(variant or ("any variant",))
        raise CannotCalibrate(f"{folder} holds no labelled answers of {wanted}")
    quality = np.array([row["quality"] for row in rows], dtype=np.float64)
    scores: dict[str, Array] = {}
    for name in rows[0]["scores"]:
        scores[name] = np.array([row["scores"][name] for row in rows], dtype=np.float64)
    labels = Labels([row["task"] for row in rows], correct_of(quality, correct_at), scores)
    dataset = results["settings"]["dataset"]
    measures = sorted({task["quality"] for task in results["tasks"]})
    source = f"{without_folders(dataset)}, {len(rows)} labels by {', '.join(measures)}"
    return labels, _binding(results, variant), source


def _results(folder: Path) -> Any:
    try:
        results = orjson.loads((folder / RESULTS).read_bytes())
    except (OSError, ValueError):
        raise CannotCalibrate(f"{folder} holds no results of `cocoa evaluate`") from None
    if "origin" not in results:
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


def _binding(results: Mapping[str, Any], variant: Variant) -> Binding:
    header, origin = results["header"], results["origin"]
    if origin["stop"] is None:
        raise CannotCalibrate("the prompts have different stop strings")
    sampling, draw = header["sampling"], Draw.named(variant.draw)
    return Binding(
        model_id=header["model"],
        revision=header["revision"],
        generator=origin["generator"],
        input="prompt",
        strategy=variant.strategy,
        num_samples=draw.num_samples,
        stop_mass=draw.stop_mass,
        temperature=sampling["temperature"],
        top_k=sampling["top_k"],
        top_p=sampling["top_p"],
        stop=tuple(origin["stop"]),
        max_new_tokens=origin["max_new_tokens"],
        share_cut=origin["share_cut"],
        similarity=variant.similarity,
        comparer=origin["comparers"][variant.similarity],
        nli=origin["nli"],
        probes={},
    )
