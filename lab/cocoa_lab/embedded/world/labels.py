"""What is right in an answer to a prompt of the testbed: its sentences, fields, calls or itself."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cocoa_lab.embedded.world.checker import Label, label_sentences
from cocoa_lab.embedded.world.document import END
from cocoa_lab.embedded.world.places import World
from cocoa_lab.embedded.world.testbed import Line
from models.units.comparison import JsonComparer
from models.units.json_values import NotJson, leaves, parse
from models.units.schemas import rules

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_CALL = re.compile(r"<tool_call>\n(.*?)\n</tool_call>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Labelled:
    """A part of an answer and whether it is true.

    Attributes:
        kind: "sentence", "field" or "answer".
        path: JSON Pointer of a field.
    """

    kind: str
    text: str
    label: Label
    path: str | None = None


def labelled(world: World, line: Line, output: str) -> list[Labelled]:
    """The parts of an answer with their labels.

    Of an answer in words that is the answer itself. Calls are fields of their array, as
    `/0/function/arguments/city`. An answer that should be JSON or calls and is none, or has too few
    of them, is one false answer; so is one whose thoughts have no end.
    """
    text = output.strip()
    if line.task == "paragraph":
        return _sentences(world, line, text)
    if line.task == "json":
        return _fields(text, line.reference, line.json_schema, line.ignored)
    if isinstance(line.reference, list):
        return _calls(text, line.reference)
    answer = text.rpartition(END)[2].strip()
    is_right = answer in line.references and ("<think>" not in text or END in text)
    return [Labelled("answer", answer, "true" if is_right else "false")]


def _sentences(world: World, line: Line, text: str) -> list[Labelled]:
    sentences = _SENTENCE_END.split(text)
    labels = label_sentences(world, sentences, world.places[str(line.subject)])
    return [Labelled("sentence", *pair) for pair in zip(sentences, labels, strict=True)]


def _fields(
    text: str, reference: Any, schema: Any = True, ignored: Sequence[str] = ()
) -> list[Labelled]:
    """The leaves of a JSON text; right where they agree with what stands there in the truth."""
    try:
        answer = parse(text)
    except NotJson:
        return [Labelled("answer", text, "false")]
    truth = parse(json.dumps(reference))
    comparer = JsonComparer(rules(answer, schema), lambda one, other: float(one == other))
    agreements = comparer.compare(answer, truth).agreements
    found = []
    for path, leaf in leaves(answer):
        if path in ignored:
            continue
        start, end = leaf.span
        label: Label = "true" if agreements[path] == 1.0 else "false"
        found.append(Labelled("field", text[start:end], label, path))
    return found


def _calls(text: str, reference: list[Mapping[str, Any]]) -> list[Labelled]:
    try:
        calls = [{"function": json.loads(one)} for one in _CALL.findall(text)]
    except ValueError:
        return [Labelled("answer", text, "false")]
    if len(calls) < len(reference):
        return [Labelled("answer", text, "false")]
    return _fields(json.dumps(calls), [{"function": one} for one in reference])
