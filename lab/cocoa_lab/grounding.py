"""The rule of `grounded` beside people's labels of three public datasets, of which none is kept.

    python -m cocoa_lab.grounding WICE BEGIN FAITHBENCH

Each is the folder of a checkout: ryokamoi/wice, google/BEGIN-dataset, vectara/FaithBench. Which
labels make an answer grounded was written down before the rule was tuned, and that on WiCE's dev
split alone:

- WiCE: a claim is `supported`, or not (`partially_supported`, `not_supported`); all sentences of
  the article that it cites are the document.
- BEGIN, Wizard of Wikipedia: a response is `Fully attributable`, or not; the knowledge is the
  document, the message before the question.
- FaithBench: a summary is without annotations but `Benign` ones, or not, as its own script has it;
  the source is the document.
"""

import csv
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cocoa_lab.metrics import auroc
from models.records import Sequence
from models.similarity.grounding import grounded
from models.units.parts import split
from models.units.steps import WorkBudget
from models.units.unit import Unit

_BATCHES = (*range(1, 13), 14, 15, 16)
_NUM_DOCUMENTS, _NUM_WORDS, _NUM_SENTENCES, _NUM_TIMES = 10, 300, 5, 40
# No bound: a person waits for it.
_MOST_STEPS = 10**12


class Labelled(NamedTuple):
    """An answer to a question, a document, and whether people found that the one says the other."""

    question: str
    answer: str
    document: str
    is_grounded: bool
    is_claim: bool = False  # scored as a whole, and not by its sentences


def wice(folder: Path, name: str) -> Iterator[Labelled]:
    """The claims of a split, "dev" or "test"."""
    path = folder / "data" / "entailment_retrieval" / "claim" / f"{name}.jsonl"
    for line in path.read_text("utf-8").splitlines():
        row = json.loads(line)
        document = " ".join(row["evidence"])
        yield Labelled("", row["claim"], document, row["label"] == "supported", is_claim=True)


def begin(folder: Path, name: str) -> Iterator[Labelled]:
    """The responses of a split, "dev" or "test"."""
    with (folder / "wow" / f"begin_{name}_wow.tsv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            is_grounded = row["begin_label"].strip().casefold() == "fully attributable"
            yield Labelled(row["message"], row["response"], row["knowledge"], is_grounded)


def faithbench(folder: Path) -> Iterator[Labelled]:
    """The summaries of all batches, which have no splits."""
    for number in _BATCHES:
        path = folder / "data_for_release" / f"batch_{number}.json"
        for sample in json.loads(path.read_text("utf-8"))["samples"]:
            labels = {label for one in sample["annotations"] for label in one["label"]}
            yield Labelled("", sample["summary"], sample["source"], labels <= {"Benign"})


def grounded_of(labelled: Labelled) -> float:
    """`grounded` of an answer; 0 for one without sentences."""
    units = [Unit("claim", labelled.answer, np.arange(0))]
    if not labelled.is_claim:
        answer = Sequence(labelled.answer, labelled.answer, 0, "given")
        units = list(split(answer, "sentences").units)
    document = {"doc_id": "0", "title": "", "text": labelled.document}
    if not units:
        return 0.0
    return grounded(units, [document], labelled.question, WorkBudget(_MOST_STEPS)).share


def measured(name: str, answers: list[Labelled]) -> str:
    """A line with the AUROC of an answer's `grounded`."""
    shares = np.array(list(map(grounded_of, answers)))
    are_grounded = np.array([answer.is_grounded for answer in answers])
    value = auroc(-shares, are_grounded)
    counts = f"n = {len(answers)}, {are_grounded.sum()} of them grounded"
    return f"{name:16} AUROC {value:.3f}  {counts}"


def timed(answers: list[Labelled]) -> str:
    """A line with the processor's time for ten documents of 300 words, cut of those at hand."""
    words = " ".join(answer.document for answer in answers).split()
    documents = []
    for number in range(_NUM_DOCUMENTS):
        text = " ".join(words[number * _NUM_WORDS : (number + 1) * _NUM_WORDS])
        documents.append({"doc_id": str(number), "title": "", "text": text})
    units = [Unit("claim", answer.answer, np.arange(0)) for answer in answers[:_NUM_SENTENCES]]
    times_ms = []
    for _ in range(_NUM_TIMES):
        began_at_s = time.process_time()
        grounded(units, documents, "What is told?", WorkBudget(_MOST_STEPS))
        times_ms.append(1000 * (time.process_time() - began_at_s))
    sizes = f"{len(units)} sentences beside {_NUM_DOCUMENTS} documents of {_NUM_WORDS} words"
    return f"{sizes}: {np.median(times_ms):.0f} ms of a processor, at most {max(times_ms):.0f}"


def main() -> None:
    if len(sys.argv) != 4:
        sys.exit((__doc__ or "").partition("\n\n")[2].partition("\n")[0].strip())
    of_wice, of_begin, of_faithbench = map(Path, sys.argv[1:])
    for folder in (of_wice, of_begin, of_faithbench):
        command = ["git", "-C", str(folder), "rev-parse", "HEAD"]
        commit = subprocess.check_output(command, text=True)  # noqa: S603
        print(f"{folder.name}: {commit.strip()}")
    tuned = list(wice(of_wice, "dev"))
    print(measured("WiCE dev (tuned)", tuned))
    print(measured("WiCE test", list(wice(of_wice, "test"))))
    print(measured("BEGIN-WoW dev", list(begin(of_begin, "dev"))))
    print(measured("BEGIN-WoW test", list(begin(of_begin, "test"))))
    print(measured("FaithBench", list(faithbench(of_faithbench))))
    print(timed(tuned))


if __name__ == "__main__":
    main()
