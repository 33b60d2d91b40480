"""Published files of long or structured answers, as lines of our own form.

FActScore (Min et al. 2023) has lines `{topic, output}`, and labelled ones `annotations` beside
them: sentences with the facts that people took from them, each supported, not supported or
irrelevant. LongFact (Wei et al. 2024) has lines `{prompt, canary}` without labels. The benchmark of
CONSTRUCT (Goh and Mueller 2026) has tables of texts with their `ground_truth`, and schemas.
"""

import ast
import csv
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cocoa_lab.examples import objects_of

_FACTSCORE_PROMPT = "Question: Tell me a bio of {topic}."
_TEXT_COLUMNS = ("text", "claim_text", "table")
_CONSTRUCT_PROMPT = (
    "Fill this schema with what the text says, and with null where it says nothing.\n"
    "{schema}\n\n{text}"
)
_MAX_CELL = 1 << 20


def rows_of(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The lines of a file with their numbers, in our own form.

    Raises:
        ValueError: names file and line.
    """
    if path.suffix == ".csv":
        yield from _construct(path)
        return
    for number, line in objects_of(path):
        try:
            own = line
            if "topic" in line and "output" in line:
                own = _factscore(line)
            elif line.keys() == {"prompt", "canary"}:
                raise ValueError("LongFact has no labels: name a 'judge' in each line")
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}") from None
        if own:
            yield number, own


def _factscore(line: Mapping[str, Any]) -> dict[str, Any]:
    """An answer about a topic with labelled facts; empty where its model abstained.

    A sentence is right whose facts are all supported; irrelevant ones say nothing of it.
    """
    if "annotations" not in line:
        if not line.get("output"):
            return {}
        raise ValueError("field 'annotations' is missing: unlabelled answers need labels")
    units = []
    for sentence in line["annotations"]:
        labels = {fact["label"] for fact in sentence.get("human-atomic-facts") or ()}
        if judged := labels & {"S", "NS"}:
            units.append({"text": sentence["text"], "label": judged == {"S"}})
    prompt = line.get("input") or _FACTSCORE_PROMPT.format(topic=line["topic"])
    return {"prompt": prompt, "output": line["output"], "units": units}


def _construct(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Rows of a table, with the schema of all of them in a file beside it."""
    beside = path.with_suffix(".schema.json")
    if not beside.is_file():
        raise ValueError(f"{path}: its JSON schema is not beside it, in {beside.name}")
    schema = json.loads(beside.read_text("utf-8"))
    csv.field_size_limit(_MAX_CELL)
    with path.open(encoding="utf-8-sig", newline="") as file:
        for number, row in enumerate(csv.DictReader(file), start=2):
            column = next((name for name in _TEXT_COLUMNS if name in row), None)
            if column is None or "ground_truth" not in row:
                known = ", ".join(_TEXT_COLUMNS)
                raise ValueError(f"{path}: needs the columns ground_truth and one of {known}")
            prompt = _CONSTRUCT_PROMPT.format(schema=json.dumps(schema), text=row[column])
            truth = _truth(row["ground_truth"], f"{path}, line {number}")
            yield number, {"prompt": prompt, "json_schema": schema, "reference": truth}


def _truth(text: str, place: str) -> Any:
    """JSON, or as Python writes it."""
    for read in (json.loads, ast.literal_eval):
        try:
            return read(text)
        except (ValueError, SyntaxError):
            continue
    raise ValueError(f"{place}: field 'ground_truth' is no JSON")
