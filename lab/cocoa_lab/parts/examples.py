"""Files of prompts whose answers have parts, and labels of these parts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from app.http.requests.tools import Tool, tools_of
from cocoa_lab.examples import Example, example_of
from cocoa_lab.parts.judges import JUDGES, Judge, Verdict
from cocoa_lab.parts.published import rows_of

PartsOf = Literal["fields", "sentences"]

# What each kind of parts is labelled by, of which a line has one, and what else it may have.
_LABELLED_BY: Mapping[PartsOf, tuple[str, str]] = {
    "fields": ("units", "reference"),
    "sentences": ("units", "judge"),
}
_TOOLS = TypeAdapter(list[Tool])
_PLACE: Mapping[PartsOf, str] = {"fields": "path", "sentences": "text"}
_OF_FIELDS = ("json_schema", "tools", "reference", "ignored")
_OWN = ("output", "units", "judge", *_OF_FIELDS)
# What must be alike in all lines: scores of the one are not comparable with those of the other.
_ALIKE = {
    "output": "an answer that is given",
    "json_schema": "a schema",
    "tools": "tools",
    "messages": "a chat",
}


@dataclass(frozen=True, slots=True)
class PartsExample:
    """A prompt, and what is known of the parts of its answer.

    Attributes:
        example: without references.
        output: the answer, where it exists already; None lets the model answer.
        json_schema: that the answer follows; true where there is none.
        labels: JSON Pointer of a field, or the text of a sentence or of a part of one, with what is
            known of it; those of `units`.
        reference: the right answer as JSON, from which labels of fields follow. Beside tools, the
            right calls, `{"name", "arguments"}` each, or a text where none is right.
        ignored: paths of what the prompt tells, which are not judged.
        judge: of sentences; None where they have labels.
        tools: that the model may call; the fields of an answer that calls some are its calls'.
    """

    example: Example
    output: str | None
    json_schema: Mapping[str, Any] | bool
    labels: Sequence[tuple[str, Verdict]]
    reference: Any = None
    ignored: frozenset[str] = frozenset()
    judge: Judge | None = None
    tools: tuple[Mapping[str, Any], ...] = ()

    @property
    def has_reference(self) -> bool:
        """Whether labels follow from a reference."""
        return self.reference is not None


def read_parts(path: Path, units: PartsOf) -> list[PartsExample]:
    """One example a line: `prompt` or `messages`, and what its parts are labelled by.

    `units` are `[{"path": "/total", "label": true}, …]` of fields, `[{"text": "Lima is …", "label":
    false, "error": "confused"}, …]` of sentences. In their place fields have a `reference`, an
    object or an array, and sentences the name of a `judge` (`cocoa_lab.parts.judges`). Optional are
    `output`, of fields `json_schema`, `tools` and `ignored` (paths of what the prompt tells), and
    the other fields of an `Example`. Published files are read as they are
    (`cocoa_lab.parts.published`).

    Raises:
        ValueError: names file, line and field; the file holds no example.
    """
    found: dict[str, PartsExample] = {}
    first: Mapping[str, Any] = {}
    for number, value in rows_of(path):
        first = first or value
        try:
            for name, what in _ALIKE.items():
                if (name in value) != (name in first):
                    raise ValueError(f"field '{name}': all lines have {what}, or none has")
            one = _parts_example(value, units, id=f"{path.stem}-{number}", task=path.stem)
            if one.example.id in found:
                raise ValueError(f"field 'id': {one.example.id!r} occurs twice")
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}") from None
        found[one.example.id] = one
    if not found:
        raise ValueError(f"{path} holds no example")
    return list(found.values())


def _parts_example(value: Mapping[str, Any], units: PartsOf, **defaults: str) -> PartsExample:
    rest = {name: one for name, one in value.items() if name not in _OWN}
    output, schema = value.get("output"), value.get("json_schema", True)
    if output is not None and not isinstance(output, str):
        raise ValueError("field 'output' is not a string")
    if not isinstance(schema, dict | bool):
        raise ValueError("field 'json_schema' is no schema")
    by, other = _LABELLED_BY[units]
    if (by in value) == (other in value):
        raise ValueError(f"exactly one of the fields '{by}' and '{other}' is needed")
    for name in _OF_FIELDS:
        if units != "fields" and name in value:
            raise ValueError(f"field '{name}' is of fields, not of {units}")
    tools = _tools(value.get("tools", []))
    reference = value.get("reference")
    if "reference" in value and not tools and not isinstance(reference, dict | list):
        raise ValueError("field 'reference' is no JSON object or array")
    if "reference" in value and tools and not isinstance(reference, list | str):
        raise ValueError("field 'reference' is no list of calls, nor a text where none is right")
    judge: Judge | None = None
    if other == "judge" and other in value:
        judge = _judge(value)
    return PartsExample(
        example=example_of(rest, labelled=False, **defaults),
        output=output,
        json_schema=schema,
        labels=_labels(value.get("units", []), units),
        reference=reference,
        ignored=_paths(value.get("ignored", [])),
        judge=judge,
        tools=tools,
    )


def _judge(value: Mapping[str, Any]) -> Judge:
    if value["judge"] not in JUDGES:
        raise ValueError(f"field 'judge' is none of {', '.join(JUDGES)}")
    return JUDGES[value["judge"]](value)


def _tools(value: Any) -> tuple[Mapping[str, Any], ...]:
    try:
        return tools_of(_TOOLS.validate_python(value))
    except ValidationError as error:
        [first, *_] = error.errors()
        where = ".".join(map(str, first["loc"]))
        raise ValueError(f"field 'tools': {where}: {first['msg']}") from None


def _paths(value: Any) -> frozenset[str]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ValueError("field 'ignored' is no list of JSON Pointers")
    return frozenset(value)


def _labels(value: Any, units: PartsOf) -> list[tuple[str, Verdict]]:
    place, labels = _PLACE[units], []
    if not isinstance(value, list):
        raise ValueError("field 'units' is not a list")
    for unit in value:
        if not isinstance(unit, dict) or not isinstance(unit.get(place), str):
            raise ValueError(f"field 'units': each needs a '{place}', a string")
        if unit.get("label") not in (True, False):  # 1 and 0 are
            raise ValueError("field 'units': each needs a 'label', true or false")
        error = unit.get("error")
        if error is not None and not isinstance(error, str):
            raise ValueError("field 'units': 'error', the kind of error, is not a string")
        labels.append((unit[place], Verdict(bool(unit["label"]), error)))
    if units == "fields" and len(dict(labels)) < len(labels):
        raise ValueError("field 'units': a path occurs twice")
    return labels
