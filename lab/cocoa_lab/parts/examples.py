"""Files of prompts whose answers have parts, and labels of these parts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from app.http.requests.tools import Tool, tools_of
from app.scoring.ask import GivenClaim
from cocoa_lab.examples import Example, example_of
from cocoa_lab.judges import Judge, Verdict, judge_of
from cocoa_lab.parts.published import rows_of
from models.units.tool_calls import schema_of_one

PartsOf = Literal["fields", "sentences", "claims"]

# What each kind of parts is labelled by; a line has one of them.
_LABELLED_BY: Mapping[PartsOf, tuple[str, ...]] = {
    "fields": ("units", "reference"),
    "sentences": ("units", "judge"),
    "claims": ("units",),
}
_TOOLS = TypeAdapter(list[Tool])
_PLACE: Mapping[PartsOf, str] = {"fields": "path", "sentences": "text", "claims": "text"}
_OF_FIELDS = ("json_schema", "tools", "tool_choice", "reference", "ignored")
_OWN = ("output", "units", "judge", *_OF_FIELDS)
# What must be alike in all lines: scores of the one are not comparable with those of the other.
_ALIKE = {
    "output": "an answer that is given",
    "json_schema": "a schema",
    "tools": "tools",
    "tool_choice": "a choice of tools",
    "messages": "a chat",
}


@dataclass(frozen=True, slots=True)
class PartsExample:
    """A prompt, and what is known of the parts of its answer.

    Attributes:
        example: without references.
        output: the answer, where it exists already; None lets the model answer.
        json_schema: that the answer follows; true where there is none.
        labels: JSON Pointer of a field, or the text of a claim, of a sentence or of a part of one,
            with what is known of it; those of `units`. None of a claim that is to be judged.
        claims: those of `units`, where they are claims.
        reference: the right answer as JSON, from which labels of fields follow. Beside tools, the
            right calls, `{"name", "arguments"}` each, or a text where none is right.
        ignored: paths of what the prompt tells, which are not judged.
        judge: of sentences; None where they have labels.
        tools: that the model may call; the fields of an answer that calls some are its calls'.
        must_call: whether it must call one of them.
    """

    example: Example
    output: str | None
    json_schema: Mapping[str, Any] | bool
    labels: Sequence[tuple[str, Verdict | None]]
    reference: Any = None
    ignored: frozenset[str] = frozenset()
    judge: Judge | None = None
    tools: tuple[Mapping[str, Any], ...] = ()
    must_call: bool = False
    claims: tuple[GivenClaim, ...] | None = None

    @property
    def held_to(self) -> Mapping[str, Any] | None:
        """The schema that an answer is held to while it is written; None for none."""
        if self.must_call:
            return schema_of_one(self.tools)
        return self.json_schema if isinstance(self.json_schema, dict) else None

    @property
    def has_reference(self) -> bool:
        """Whether labels follow from a reference."""
        return self.reference is not None

    @property
    def has_labels(self) -> bool:
        """Whether any part has a label by rule, so that no model's word counts."""
        return self.judge is not None or any(verdict is not None for _, verdict in self.labels)


def read_parts(path: Path, units: PartsOf, *, judged: bool = False) -> list[PartsExample]:
    """One example a line: `prompt` or `messages`, and what its parts are labelled by.

    `units` are `[{"path": "/total", "label": true}, …]` of fields, `[{"text": "Lima is …", "label":
    false, "error": "confused"}, …]` of sentences, and of claims, which may have `quotes` as in
    requests, and need the `output` that they were made of. In their place fields have a
    `reference`, an object or an array, and sentences the name of a `judge`
    (`cocoa_lab.judges`). Optional are `output`, of fields `json_schema`, `tools`, `tool_choice`
    and `ignored` (paths of what the prompt tells), and the other fields of an `Example`. Published
    files are read as they are (`cocoa_lab.parts.published`). Where a model judges (`judged`), what
    sentences and claims are labelled by may be missing.

    Raises:
        ValueError: names file, line and field; the file holds no example.
    """
    found: dict[str, PartsExample] = {}
    first: Mapping[str, Any] = {}
    for number, value in rows_of(path, units):
        first = first or value
        try:
            for name, what in _ALIKE.items():
                if (name in value) != (name in first):
                    raise ValueError(f"field '{name}': all lines have {what}, or none has")
            defaults = {"id": f"{path.stem}-{number}", "task": path.stem}
            one = _parts_example(value, units, judged, **defaults)
            if one.example.id in found:
                raise ValueError(f"field 'id': {one.example.id!r} occurs twice")
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}") from None
        found[one.example.id] = one
    if not found:
        raise ValueError(f"{path} holds no example")
    return list(found.values())


def _parts_example(
    value: Mapping[str, Any], units: PartsOf, judged: bool, **defaults: str
) -> PartsExample:
    rest = {name: one for name, one in value.items() if name not in _OWN}
    output, schema = value.get("output"), value.get("json_schema", True)
    if output is not None and not isinstance(output, str):
        raise ValueError("field 'output' is not a string")
    if not isinstance(schema, dict | bool):
        raise ValueError("field 'json_schema' is no schema")
    names = _LABELLED_BY[units]
    needed = 1 - (judged and units == "sentences")
    if not needed <= sum(name in value for name in names) <= 1:
        reason = f"exactly one of the fields {' and '.join(map(repr, names))} is needed"
        if units == "sentences":
            reason += ", or a model that judges (--judge-url)"
        raise ValueError(reason)
    if units == "claims" and output is None:
        raise ValueError("field 'output' is needed: the answer that the claims were made of")
    for name in _OF_FIELDS:
        if units != "fields" and name in value:
            raise ValueError(f"field '{name}' is of fields, not of {units}")
    tools = _tools(value.get("tools", []))
    choice = value.get("tool_choice", "auto")
    if choice not in ("auto", "required") or (choice == "required" and not tools):
        raise ValueError("field 'tool_choice' is neither 'auto', nor 'required' beside tools")
    reference = value.get("reference")
    if "reference" in value and not tools and not isinstance(reference, dict | list):
        raise ValueError("field 'reference' is no JSON object or array")
    if "reference" in value and tools and not isinstance(reference, list | str):
        raise ValueError("field 'reference' is no list of calls, nor a text where none is right")
    judge: Judge | None = None
    if "judge" in names:
        judge = judge_of(value)
    labels = _labels(value.get("units", []), units, may_lack=judged and units == "claims")
    claims: tuple[GivenClaim, ...] | None = None
    if units == "claims":
        claims = tuple(map(_claim, value["units"]))
    return PartsExample(
        example=example_of(rest, labelled=False, **defaults),
        output=output,
        json_schema=schema,
        labels=labels,
        reference=reference,
        ignored=_paths(value.get("ignored", [])),
        judge=judge,
        tools=tools,
        must_call=choice == "required",
        claims=claims,
    )


def _claim(unit: Mapping[str, Any]) -> GivenClaim:
    quotes = unit.get("quotes", [])
    if not isinstance(quotes, list) or not all(quotes) or not {str}.issuperset(map(type, quotes)):
        raise ValueError("field 'units': 'quotes' is no list of words of the output")
    return GivenClaim(unit["text"], tuple(quotes))


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


def _labels(
    value: Any, units: PartsOf, *, may_lack: bool = False
) -> list[tuple[str, Verdict | None]]:
    place = _PLACE[units]
    labels: list[tuple[str, Verdict | None]] = []
    if not isinstance(value, list):
        raise ValueError("field 'units' is not a list")
    for unit in value:
        if not isinstance(unit, dict) or not isinstance(unit.get(place), str):
            raise ValueError(f"field 'units': each needs a '{place}', a string")
        if may_lack and "label" not in unit:
            labels.append((unit[place], None))
            continue
        if unit.get("label") not in (True, False):  # 1 and 0 are
            raise ValueError("field 'units': each needs a 'label', true or false")
        error = unit.get("error")
        if error is not None and not isinstance(error, str):
            raise ValueError("field 'units': 'error', the kind of error, is not a string")
        labels.append((unit[place], Verdict(bool(unit["label"]), error)))
    if units == "fields" and len(dict(labels)) < len(labels):
        raise ValueError("field 'units': a path occurs twice")
    return labels
