"""Published files of long or structured answers, as lines of our own form.

FActScore (Min et al. 2023) has lines `{topic, output}`, and labelled ones `annotations` beside
them: sentences with the facts that people took from them, each supported, not supported or
irrelevant. LongFact (Wei et al. 2024) has lines `{prompt, canary}` without labels. The benchmark of
CONSTRUCT (Goh and Mueller 2026) has tables of texts with their `ground_truth`, and schemas.
"""

import ast
import csv
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cocoa_lab.datasets import ATLAS_OF_PARTS, atlas_records
from cocoa_lab.examples import objects_of

_FACTSCORE_PROMPT = "Question: Tell me a bio of {topic}."
_TEXT_COLUMNS = ("text", "claim_text", "table")
_CONSTRUCT_PROMPT = (
    "Fill this schema with what the text says, and with null where it says nothing.\n"
    "{schema}\n\n{text}"
)
_MAX_CELL = 1 << 20
# Answers of a search engine cite; the sentences that people labelled have neither these marks nor
# all white space.
_CITATION = re.compile(r"\[\d+\]")
_BETWEEN = r"(?:\s|\[\d+\])*"
_IS_RIGHT = {"S": True, "NS": False}
# Answers are paragraphs or records of many fields, and no line says how long they may be.
_MAX_NEW_TOKENS = 1024


def rows_of(path: Path, units: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """The lines of a file with their numbers, in our own form, for an evaluation of these units.

    The records of the atlas come by their name, without a file. Of a file with labels of FActScore
    those are left out that have none: their model abstained.

    Raises:
        ValueError: names file and line.
    """
    if str(path) in ATLAS_OF_PARTS:
        yield from enumerate(atlas_records(str(path)), start=1)
        return
    if path.suffix == ".csv":
        yield from _construct(path)
        return
    lines = list(objects_of(path))
    is_labelled = any("annotations" in line for _, line in lines)
    for number, line in lines:
        if "topic" in line and "output" in line:
            if line["output"] and ("annotations" in line or not is_labelled):
                try:
                    yield number, _factscore(line, units)
                except (KeyError, TypeError):
                    reason = "field 'annotations' is not as FActScore has it"
                    raise ValueError(f"{path}, line {number}: {reason}") from None
        elif line.keys() == {"prompt", "canary"}:
            yield number, {"prompt": line["prompt"], "max_new_tokens": _MAX_NEW_TOKENS}
        else:
            yield number, line


def _factscore(line: Mapping[str, Any], units: str) -> dict[str, Any]:
    """An answer about a topic, with labels where it has annotations.

    Facts are claims that quote their sentence. A sentence is right whose facts are all supported.
    Irrelevant facts say nothing.
    """
    prompt = line.get("input") or _FACTSCORE_PROMPT.format(topic=line["topic"])
    own = {"prompt": prompt, "output": line["output"], "max_new_tokens": _MAX_NEW_TOKENS}
    if "annotations" not in line:
        return own
    labelled: list[dict[str, Any]] = []
    behind = 0
    for sentence in line["annotations"]:
        text, behind = _as_written(sentence["text"], line["output"], behind)
        facts = [one for one in sentence["human-atomic-facts"] or () if one["label"] in _IS_RIGHT]
        rights = [_IS_RIGHT[one["label"]] for one in facts]
        if units == "claims":
            for fact, right in zip(facts, rights, strict=True):
                labelled.append({"text": fact["text"], "label": right, "quotes": [text]})
        elif rights:
            labelled.append({"text": text, "label": all(rights)})
    return own | {"units": labelled}


def _as_written(sentence: str, output: str, behind: int) -> tuple[str, int]:
    """A sentence as the output has it from there on, and where it ends; itself where it is not."""
    characters = "".join(_CITATION.sub("", sentence).split())
    found = re.compile(_BETWEEN.join(map(re.escape, characters))).search(output, behind)
    if found is None:
        return sentence, behind
    return found[0], found.end()


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
            own = {"prompt": prompt, "max_new_tokens": _MAX_NEW_TOKENS}
            yield number, own | {"json_schema": schema, "reference": truth}


def _truth(text: str, place: str) -> Any:
    """JSON, or as Python writes it."""
    for read in (json.loads, ast.literal_eval):
        try:
            return read(text)
        except (ValueError, SyntaxError):
            continue
    raise ValueError(f"{place}: field 'ground_truth' is no JSON")
