r"""Scores of LM-Polygraph and UQLM beside the service's, on the same recorded answers and samples.

    python benchmarks/ranking.py FOLDER … --polygraph ../polygraph/bin/python \
        --uqlm ../uqlm/bin/python --encoder ../minilm --out benchmarks/results/ranking.json

Each folder is one of `cocoa evaluate`, with its recording and greedy answers. The environments are
those of `peers.py`, and the encoder is a folder of a bi-encoder, which both peers compare texts by.
Every score ranks the same answers; PRR is ours for all (LM-Polygraph's goes by row order at ties).
ECE is that of confidences which are fitted on one half of the answers and read on the other.
"""

import json
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from app.scoring.defaults import DEFAULT_ESTIMATORS
from cocoa_lab.answers import answers_of
from cocoa_lab.calibration.fitting import CannotCalibrate, fit
from cocoa_lab.comparison import ByEstimator, Column, difference, measure
from cocoa_lab.metrics import auroc, ece, prr
from cocoa_lab.overwriting import GENERATIONS
from cocoa_lab.recordings import read
from cocoa_lab.rendering import markdown_table
from cocoa_lab.report import number, signed
from models.records import Array
from models.records import Sequence as TokenSequence

OURS = (DEFAULT_ESTIMATORS[0], "sp", "ppl", "mte", "inconsistency", "cocoa_sp")
_NUM_SPLITS = 10


def main(
    folders: Annotated[list[Path], typer.Argument(help="Of `cocoa evaluate`.")],
    polygraph: Annotated[str, typer.Option(help="Interpreter with LM-Polygraph.")],
    uqlm: Annotated[str, typer.Option(help="Interpreter with UQLM.")],
    encoder: Annotated[Path, typer.Option(help="Folder of a bi-encoder.")],
    out: Annotated[Path, typer.Option(help="File of the results, .json.")],
    every_task: Annotated[bool, typer.Option(help="Keep kinds with few answers, too.")] = False,
) -> None:
    """Print a table a folder; write all."""
    here, results = Path(__file__).parent, {}
    commands = {
        "LM-Polygraph": [polygraph, str(here / "ranking_polygraph.py"), str(encoder.resolve())],
        "UQLM": [uqlm, str(here / "ranking_uqlm.py"), str(encoder.resolve())],
    }
    for folder in folders:
        column, lines = recorded(folder, every_task)
        scores = {name: column.scores[name] for name in OURS}
        milliseconds = {}
        for peer, command in commands.items():
            began_at = time.perf_counter()
            found = peer_scores(command, lines)
            milliseconds[peer] = 1000 * (time.perf_counter() - began_at) / len(lines)
            for name, values in found.items():
                scores[f"{peer} {name}"] = values
        results[folder.name] = table(replace(column, scores=scores))
        right = float(np.nanmean(column.quality))
        typer.echo(f"\n{folder.name}: {len(lines)} answers, {number(right)} right; ms an answer")
        typer.echo(", ".join(f"{peer} {value:.0f}" for peer, value in milliseconds.items()))
        typer.echo(_markdown(results[folder.name]))
    out.write_text(json.dumps(results, indent=1) + "\n")


def recorded(folder: Path, every_task: bool) -> tuple[Column, list[dict[str, Any]]]:
    """The answers of a run with its scores, and each as its peers are shown it."""
    column = answers_of(folder, of_every_task=every_task)
    _, recordings = read(folder / GENERATIONS)
    lines = []
    for id_ in column.ids:
        generation = recordings[id_].generation
        if generation is None:
            raise typer.BadParameter(f"{folder}: {id_} has no generation")
        samples = list(map(_shown, generation.samples))
        lines.append({"answer": _shown(generation.answer), "samples": samples})
    return column, lines


def peer_scores(command: Sequence[str], lines: Sequence[Mapping[str, Any]]) -> dict[str, Array]:
    """A peer's uncertainties (n,) by name."""
    text = "".join(json.dumps(line) + "\n" for line in lines)
    told = subprocess.run(command, input=text, capture_output=True, text=True)
    if told.returncode:
        raise typer.BadParameter(f"{command[1]}: {told.stderr[-2000:]}")
    rows = [json.loads(line) for line in told.stdout.splitlines()]
    found = {}
    for name in rows[0]:
        found[name] = np.array([row[name] for row in rows], dtype=np.float64)
    return found


def table(column: Column) -> dict[str, dict[str, Any]]:
    """PRR with its interval and its distance from the default, of every score.

    ROC-AUC and ECE where answers are right or wrong, and not worth a share.
    """
    by_rank, found = measure(prr, column), {}
    by_pair: ByEstimator = {}
    if column.is_binary:
        by_pair = measure(auroc, column)
    for name, measured in by_rank.items():
        interval, behind = measured.interval, difference(measured, by_rank[OURS[0]])
        found[name] = {
            "prr": [interval.value, interval.low, interval.high],
            "from_default": [behind.value, behind.low, behind.high],
            "auroc": None,
            "ece": None,
        }
        if column.is_binary:
            found[name]["auroc"] = by_pair[name].value
            found[name]["ece"] = calibration_error(column.scores[name], column.quality)
    return found


def calibration_error(uncertainty: Array, correct: Array) -> float | None:
    """Mean ECE over splits in halves, each half's confidences fitted on the other."""
    rng, errors = np.random.default_rng(0), []
    for _ in range(_NUM_SPLITS):
        order = rng.permutation(len(correct))
        first, second = order[: len(order) // 2], order[len(order) // 2 :]
        confidence = np.empty(len(correct))
        for fitted, held_out in ((first, second), (second, first)):
            try:
                one = fit(uncertainty[fitted], correct[fitted])
            except CannotCalibrate:
                return None
            confidence[held_out] = np.interp(uncertainty[held_out], one.knots, one.confidences)
        errors.append(ece(confidence, correct))
    return float(np.mean(errors))


def _shown(one: TokenSequence) -> dict[str, Any]:
    logprobs = [] if one.token_logprobs is None else one.token_logprobs.tolist()
    return {"text": one.compared_text, "logprobs": logprobs, "tokens": one.token_texts}


def _markdown(found: Mapping[str, Mapping[str, Any]]) -> str:
    rows = []
    for name in sorted(found, key=lambda name: -found[name]["prr"][0]):
        one = found[name]
        value, low, high = one["prr"]
        told = f"{number(value)} [{number(low)}, {number(high)}]"
        behind = "{} [{}, {}]".format(*map(signed, one["from_default"]))
        rows.append([f"`{name}`", told, behind, number(one["auroc"]), number(one["ece"])])
    return markdown_table(["", "PRR", "from the default", "AUROC", "ECE"], rows)


if __name__ == "__main__":
    typer.run(main)
