"""Which score is best for answers of any length: candidates by cell, one model and form of answers.

    python -m cocoa_lab.choosing OUT --cell words=FOLDER --cell mixed=FOLDER+FOLDER …

Each folder is one of `cocoa evaluate`, of greedy answers. Of folders that are joined by + as many
answers are drawn of each. The figure of a cell is PRR over all its answers, whatever their kind;
that of all cells is their mean. The rule stands in docs/adr/0027.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from cocoa_lab.comparison import MEAN, ByEstimator, Column, Table, difference, intervals, table
from cocoa_lab.lines import objects_in
from cocoa_lab.metrics import prr
from cocoa_lab.overwriting import GENERATIONS
from cocoa_lab.recordings import read
from cocoa_lab.rendering import markdown_table
from cocoa_lab.report import number, signed, to_json
from models.records import Array
from models.renamed import current_name

BASELINES = ("sp", "mte", "inconsistency")
# Of a winner, to the best single one of any cell.
MAX_LOSS = 0.02
_CAP = 16  # tokens as which an answer counts at most, by the estimators of version 0.2
_EXPONENTS = {"¼": 0.25, "½": 0.5, "¾": 0.75}
_SIMPLE = ("inconsistency", "sp", "ppl", "mte")
_SERVED = (
    *_SIMPLE,
    *("cocoa_sp", "cocoa_ppl", "cocoa_mte"),
    *("rb_cocoa_sp", "rb_cocoa_ppl", "rb_cocoa_mte"),
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the rule says of the best by the mean over cells.

    Attributes:
        winner: that.
        losses: by cell, of the winner to the best single one, where it loses more than `MAX_LOSS`.
        not_above: baselines that it is not above by an interval.
        not_worse: candidates whose mean is not below its own by an interval, the simplest first.
    """

    winner: str
    losses: Mapping[str, float]
    not_above: Sequence[str]
    not_worse: Sequence[str]

    @property
    def holds(self) -> bool:
        """Whether the winner may take the default's place."""
        return not self.losses and not self.not_above


def answers_of(
    folder: Path, similarity: str | None = None, *, of_every_task: bool = False
) -> Column:
    """The greedy answers of a run with all candidates' scores.

    Args:
        folder: of the run.
        similarity: function that they are compared by; None for the run's first.
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
    draw = next(iter(results["samples"]["greedy"]))
    lines: dict[str, dict[str, Any]] = {}
    for line in objects_in(folder / "scores.jsonl"):
        is_asked = line["strategy"] == "greedy" and line["draw"] == draw
        if not is_asked or line["task"] in left_out:
            continue
        if line["similarity"] == first:
            lines[line["id"]] = line
        elif line["similarity"] == similarity:
            lines[line["id"]]["scores"] |= line["scores"]
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
        scores[current_name(name)] = np.array(values, dtype=np.float64)  # NaN for None
    counts = np.array(num_tokens, dtype=np.float64)
    is_binary = bool(np.isin(quality[~np.isnan(quality)], (0.0, 1.0)).all())
    kinds = [line["task"] for line in lines.values()]
    return Column(folder.name, quality, is_binary, scores, counts, kinds, list(lines))


def mixed(name: str, columns: Sequence[Column], seed: int = 0) -> Column:
    """As many answers of each, drawn with the seed."""
    if len(columns) == 1:
        (only,) = columns
        return Column(name, only.quality, only.is_binary, only.scores, only.num_tokens)
    rng = np.random.default_rng(seed)
    size = min(len(column.quality) for column in columns)
    drawn = [rng.choice(len(column.quality), size, replace=False) for column in columns]

    def joined(values: Sequence[Array]) -> Array:
        return np.concatenate([own[rows] for own, rows in zip(values, drawn, strict=True)])

    names = set.intersection(*(set(column.scores) for column in columns))
    scores: dict[str, Array] = {}
    for one in sorted(names):
        scores[one] = joined([column.scores[one] for column in columns])
    quality = joined([column.quality for column in columns])
    is_binary = all(column.is_binary for column in columns)
    return Column(name, quality, is_binary, scores, joined(list(map(_lengths, columns))))


def candidates(column: Column) -> dict[str, Array]:
    """Scores (n,) of the candidates that a column has, trials among them."""
    scores = {name: column.scores[name] for name in _SERVED if name in column.scores}
    sp, rb = column.scores["sp"], column.scores["rb_inconsistency"]
    lengths = np.maximum(_lengths(column), 1.0)
    for told, exponent in _EXPONENTS.items():
        scores[f"sp / T^{told} * rb_inconsistency"] = sp / lengths**exponent * rb
    scores[f"sp * min(1, {_CAP} / T) * rb_inconsistency"] = sp / np.maximum(1, lengths / _CAP) * rb
    ranks = [_ranks(column.scores[name]) for name in ("mte", "inconsistency")]
    scores["ranks of mte and inconsistency"] = np.mean(ranks, axis=0)
    return scores


def choose(prrs: Table) -> Verdict:
    """The rule on the means over cells."""
    means = prrs[MEAN]
    winner = max(means, key=lambda name: means[name].value)
    losses = {}
    for cell, values in prrs.items():
        if cell != MEAN:
            loss = max(one.value for one in values.values()) - values[winner].value
            if loss > MAX_LOSS:
                losses[cell] = loss
    not_above = [name for name in BASELINES if not _is_above(means, winner, name)]
    not_worse = [name for name in means if not _is_above(means, winner, name)]
    return Verdict(winner, losses, not_above, not_worse)


def markdown(prrs: Table) -> str:
    """The candidates by cell, the best of each column bold, and their distance from the best."""
    means, rows = prrs[MEAN], []
    winner = max(means, key=lambda name: means[name].value)
    best = {cell: max(one.value for one in values.values()) for cell, values in prrs.items()}
    for name in sorted(means, key=lambda name: -means[name].value):
        row = [f"`{name}`"]
        for cell, values in prrs.items():
            text = number(values[name].value)
            row.append(f"**{text}**" if values[name].value == best[cell] else text)
        gap = difference(means[name], means[winner])
        told = "" if gap is None else f"{signed(gap.value)} [{signed(gap.low)}, {signed(gap.high)}]"
        rows.append([*row, told])
    return markdown_table(["", *prrs, "against the first"], rows)


def main(
    out: Annotated[Path, typer.Argument(help="File of the results, .json.")],
    cell: Annotated[list[str], typer.Option(help="NAME=FOLDER, or NAME=FOLDER+FOLDER mixed.")],
    similarity: Annotated[str | None, typer.Option(help="Function; each run's first.")] = None,
    num_resamples: Annotated[int, typer.Option(min=1, help="Behind each interval.")] = 1000,
) -> None:
    """Print the candidates by cell and what the rule says; write both."""
    columns = []
    for one in cell:
        name, _, folders = one.partition("=")
        parts = [answers_of(Path(folder), similarity) for folder in folders.split("+")]
        column = mixed(name, parts)
        scores = candidates(column)
        columns.append(Column(name, column.quality, column.is_binary, scores, column.num_tokens))
        typer.echo(f"{name}: {len(column.quality)} answers, {np.nanmean(column.quality):.2f} right")
    prrs = dict(table(prr, columns, num_resamples=num_resamples))
    prrs.setdefault(MEAN, prrs[columns[0].task])  # of one cell
    verdict = choose(prrs)
    found = intervals(prrs[MEAN])[verdict.winner]
    typer.echo(markdown(prrs))
    typer.echo(
        f"{verdict.winner} {number(found.value)} [{number(found.low)}, {number(found.high)}]; "
        f"loses more than {MAX_LOSS} in {dict(verdict.losses)}; not above {verdict.not_above}; "
        f"not worse: {', '.join(verdict.not_worse)}"
    )
    out.write_text(json.dumps(to_json(prrs), indent=1) + "\n")


def _is_above(means: ByEstimator, first: str, second: str) -> bool:
    gap = difference(means[first], means[second])
    return gap is not None and gap.low > 0


def _lengths(column: Column) -> Array:
    if column.num_tokens is None:
        raise ValueError(f"{column.task} has no lengths")
    return column.num_tokens


def _ranks(scores: Array) -> Array:
    """Mean ranks (n,), where equal ones share theirs and what is missing is the least certain."""
    known = np.where(np.isnan(scores), np.inf, scores)
    ordered = np.sort(known)
    below, up_to = np.searchsorted(ordered, known), np.searchsorted(ordered, known, side="right")
    return (below + up_to) / 2


if __name__ == "__main__":
    typer.run(main)
