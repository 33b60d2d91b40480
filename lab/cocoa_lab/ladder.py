"""One model on every form of answers, and what each score is worth there.

    COCOA_GENERATION__MODEL=… python -m cocoa_lab.ladder OUT
    python -m cocoa_lab.ladder OUT --recorded lab/recordings/qwen15

Each form is a run of `cocoa evaluate` in a folder of OUT, and an interrupted one is continued. The
second command scores what a model wrote before, and needs no model. The forms and their numbers of
prompts stand here; the rule by which the default score is judged stands in docs/adr/0034. Two are
asked only where `--only` names them: `atlas-raw`, for models without chats, and `atlas-code`, whose
programs are run (`cocoa_lab.programs`).
"""

import json
import lzma
import math
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from app.scoring.defaults import DEFAULT_ESTIMATORS
from cocoa_lab.answers import answers_of
from cocoa_lab.comparison import Column, difference, measure, why_left_out
from cocoa_lab.metrics import Interval, prr
from cocoa_lab.overwriting import GENERATIONS, RESULTS
from cocoa_lab.plots import answered_figure, save
from cocoa_lab.rendering import markdown_table
from cocoa_lab.report import number, signed

DEFAULT = DEFAULT_ESTIMATORS[0]
_ANSWERED = "answered"  # the figure: how often the surest answers are right
RIVALS = (
    "sp", "ppl", "mte", "inconsistency", "cocoa_sp", "rb_cocoa_sp", "rb_inconsistency",
    "prob_cocoa_sp",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Form:
    """A form of answers.

    Attributes:
        dataset: of `cocoa evaluate`.
        limit: number of prompts.
        units: parts that are scored by themselves; None for whole answers.
        answer_temperature: at which answers are drawn; None for greedy ones.
        quality: measure of the answers; None for the dataset's own.
        is_for_all: whether every model is asked, or only where `--only` names the dataset.
    """

    dataset: str
    limit: int
    units: str | None = None
    answer_temperature: float | None = None
    quality: str | None = None
    is_for_all: bool = True

    @property
    def name(self) -> str:
        """Of its folder and its row."""
        if self.answer_temperature is None:
            return self.dataset
        return f"{self.dataset}-at-{self.answer_temperature:g}"

    @property
    def title(self) -> str:
        """Of its panel."""
        return self.name.removeprefix("atlas").strip("-").replace("-", " ") or "few words"


FORMS = (
    Form("atlas", 900),
    Form("atlas-sentence", 900),
    Form("atlas-json", 130, "fields"),
    Form("atlas-paragraph", 110, "sentences"),
    Form("atlas-call", 130, "fields"),
    Form("atlas-documents", 300, "sentences"),
    Form("atlas-persona", 300),
    Form("atlas-turn", 300),
    Form("atlas-german", 300),
    Form("atlas-spanish", 300),
    Form("atlas-steps", 260),
    Form("atlas-code", 200, quality="run_code", is_for_all=False),
    Form("atlas-raw", 900, is_for_all=False),
    Form("atlas", 150, answer_temperature=0.2),
    Form("atlas", 150, answer_temperature=0.7),
)


@dataclass(frozen=True, slots=True)
class Rung:
    """What came of a form: PRR with intervals by score, and the default's lead over each rival.

    Attributes:
        by_halves: of whole answers, the share of right ones in the half that the default is surest
            of, and in the other.
        column: whole answers with their scores; None of parts.
    """

    form: Form
    num_answers: int
    share_right: float
    prr: dict[str, Interval]
    lead: dict[str, Interval]
    by_halves: tuple[float, float] | None = None
    column: Column | None = None


def rung(form: Form, folder: Path) -> Rung | None:
    """What a finished run says; None where it ranks nothing."""
    if form.units is not None:
        return _of_parts(form, json.loads((folder / RESULTS).read_text()))
    # A form has few prompts of a kind: its kinds rank nothing by themselves.
    column = answers_of(folder, of_every_task=True)
    if why_left_out(column) is not None:
        return None
    measured = measure(prr, column)
    found, lead = {}, {}
    for name in (DEFAULT, *RIVALS):
        if name in measured and (interval := measured[name].interval) is not None:
            found[name] = interval
            behind = difference(measured[DEFAULT], measured[name])
            if name != DEFAULT and behind is not None:
                lead[name] = behind
    if DEFAULT not in found:
        return None
    share, halves = column.mean_quality or 0.0, _halves(column)
    return Rung(form, len(column.quality), share, found, lead, halves, column)


def _halves(column: Column) -> tuple[float, float]:
    quality = column.quality[np.argsort(column.scores[DEFAULT], kind="stable")]
    half = len(quality) // 2
    return float(quality[:half].mean()), float(quality[half:].mean())


def _of_parts(form: Form, results: dict[str, Any]) -> Rung | None:
    """Of parts the run itself has intervals over answers; its lead is that of its own default.

    Over documents labels say whether these say a part: `ungrounded` is the score, and has no lead.
    """
    found, lead, own = {}, {}, results["primary"]
    if "ungrounded" in results["metrics"]:
        own = "ungrounded"
    for name in (own, *RIVALS):
        metrics = results["metrics"].get(name, {})
        if metrics.get("prr"):
            found[name] = Interval(**metrics["prr"])
        if metrics.get("lead") and own == results["primary"] != name:
            lead[name] = Interval(**metrics["lead"])
    if own not in found:
        return None
    found = {DEFAULT: found.pop(own), **found}
    share = results["num_right"] / results["num_parts"]
    return Rung(form, results["num_parts"], share, found, lead)


def table(rungs: Sequence[Rung]) -> str:
    """A row a form: PRR of its default and of other scores, and its lead over the best of these.

    The default is `rb_cocoa_root_sp` of whole answers, of parts that of the run. The last row is
    the mean over forms of greedy answers whose default has a lead: not over documents.
    """
    rows = []
    leading = [one for one in rungs if one.lead and one.form.answer_temperature is None]
    if len(leading) > 1:
        rungs = [*rungs, _mean(leading)]
    for one in rungs:
        halves = "-"
        if one.by_halves is not None:
            halves = ", ".join(map(number, one.by_halves))
        row = [f"`{one.form.name}`", str(one.num_answers), number(one.share_right), halves]
        for name in (DEFAULT, *RIVALS):
            row.append(_cell(one.prr.get(name)))
        best = max(one.lead, key=lambda name: one.prr[name].value, default=None)
        told = "-"
        if best is not None:
            lead = one.lead[best]
            told = f"{signed(lead.value)} [{signed(lead.low)}, {signed(lead.high)}] `{best}`"
        rows.append([*row, told])
    head = ["form", "n", "right", "by halves", "default", *map("`{}`".format, RIVALS)]
    return markdown_table([*head, "its lead over the best"], rows)


def _mean(rungs: Sequence[Rung]) -> Rung:
    """The mean over forms, each of which counts alike; their intervals are independent."""
    prr, lead = {}, {}
    for name in (DEFAULT, *RIVALS):
        if all(name in one.prr for one in rungs):
            prr[name] = _mean_of([one.prr[name] for one in rungs])
        if all(name in one.lead for one in rungs):
            lead[name] = _mean_of([one.lead[name] for one in rungs])
    share = sum(one.share_right for one in rungs) / len(rungs)
    form = Form(f"mean of {len(rungs)}", 0)
    return Rung(form, sum(one.num_answers for one in rungs), share, prr, lead)


def _mean_of(intervals: Sequence[Interval]) -> Interval:
    """The mean of independent values, its interval by the widths of theirs."""
    value = sum(one.value for one in intervals) / len(intervals)
    half = math.hypot(*((one.high - one.low) / 2 for one in intervals)) / len(intervals)
    return Interval(value, value - half, value + half)


def main(
    out: Annotated[Path, typer.Argument(help="Folder of the runs.")],
    only: Annotated[list[str] | None, typer.Option(help="These datasets alone.")] = None,
    num_samples: Annotated[str, typer.Option(help="As of `cocoa evaluate`.")] = "10,5,3",
    is_read: Annotated[bool, typer.Option("--read", help="Run nothing; read what is there.")] = (
        False
    ),
    recorded: Annotated[
        Path | None, typer.Option(help="Folder with FORM.jsonl.xz of what a model wrote before.")
    ] = None,
    without: Annotated[
        list[str] | None,
        typer.Option(help="A score that what was recorded cannot have: mte, of most servers."),
    ] = None,
) -> None:
    """Run what is not finished, and print what there is."""
    rungs = []
    for form in FORMS:
        folder = out / form.name
        if only and form.dataset not in only:
            continue
        is_run = not is_read and (form.is_for_all or bool(only))
        if recorded is not None:
            is_run = is_run and _unpacked(recorded / f"{form.name}.jsonl.xz", folder)
        if is_run and not (folder / RESULTS).exists():
            command = _command(form, folder, num_samples, is_recorded=recorded is not None)
            if recorded is not None and form.units is None:
                # Others have no place in the table, and take most of the time.
                names = [name for name in (DEFAULT, *RIVALS) if name not in (without or ())]
                command += ["--estimators", ",".join(names)]
            subprocess.run(command, check=True)  # noqa: S603 - our own command
        if (folder / RESULTS).exists() and (one := rung(form, folder)) is not None:
            rungs.append(one)
    columns = {one.form.title: one.column for one in rungs if one.column is not None}
    if columns:
        save(answered_figure(columns, DEFAULT), out / _ANSWERED)
    typer.echo(table(rungs))


def _unpacked(archive: Path, folder: Path) -> bool:
    """Put the recording into the folder of its form; False where there is none."""
    if not archive.exists():
        return False
    folder.mkdir(parents=True, exist_ok=True)
    (folder / GENERATIONS).write_bytes(lzma.decompress(archive.read_bytes()))
    return True


def _command(form: Form, folder: Path, num_samples: str, *, is_recorded: bool) -> list[str]:
    command = [str(Path(sys.executable).with_name("cocoa")), "evaluate", form.dataset]
    command += ["--num-samples", num_samples, "--out", str(folder)]
    if is_recorded:  # prompts are those that were recorded, however many these are
        command.append("--rescore")
    else:
        command += ["--limit", str(form.limit)]
    if form.units is not None:
        return [*command, "--units", form.units]
    if form.quality is not None:
        command += ["--quality", form.quality]
    if form.answer_temperature is not None:
        drawn_at = str(form.answer_temperature)
        return [*command, "--answers", "sample", "--answer-temperature", drawn_at]
    return [*command, "--answers", "greedy"]


def _cell(found: Interval | None) -> str:
    if found is None:
        return "-"
    return f"{number(found.value)} [{number(found.low)}, {number(found.high)}]"


if __name__ == "__main__":
    typer.run(main)
