"""Files of prompts whose answers have parts, and labels of these parts."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cocoa_lab.examples import Example, example_of, objects_of

_OWN = ("output", "json_schema", "units", "reference", "ignored")
# What must be alike in all lines: scores of the one are not comparable with those of the other.
_ALIKE = {"output": "an answer that is given", "json_schema": "a schema", "messages": "a chat"}


@dataclass(frozen=True, slots=True)
class PartsExample:
    """A prompt, and what is known of the fields of its answer.

    Attributes:
        example: without references.
        output: the answer, where it exists already; None lets the model answer.
        json_schema: that the answer follows; true where there is none.
        labels: JSON Pointer to whether the field is right; those of `units`.
        reference: the right answer as JSON, from which labels follow in place of `labels`.
        ignored: paths of what the prompt tells, which are not judged.
    """

    example: Example
    output: str | None
    json_schema: Mapping[str, Any] | bool
    labels: Mapping[str, bool]
    reference: Any
    ignored: frozenset[str] = frozenset()

    @property
    def has_reference(self) -> bool:
        """Whether labels follow from a reference."""
        return self.reference is not None


def read_parts(path: Path) -> list[PartsExample]:
    """One example a line: `prompt` or `messages`, and `units` or `reference`.

    `units` are `[{"path": "/total", "label": true}, …]`, the reference is an object or an array.
    Optional are `output`, `json_schema`, `ignored` (paths of what the prompt tells) and the other
    fields of an `Example`.

    Raises:
        ValueError: names file, line and field; the file holds no example.
    """
    found: dict[str, PartsExample] = {}
    first: Mapping[str, Any] = {}
    for number, value in objects_of(path):
        first = first or value
        try:
            for name, what in _ALIKE.items():
                if (name in value) != (name in first):
                    raise ValueError(f"field '{name}': all lines have {what}, or none has")
            one = _parts_example(value, id=f"{path.stem}-{number}", task=path.stem)
            if one.example.id in found:
                raise ValueError(f"field 'id': {one.example.id!r} occurs twice")
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}") from None
        found[one.example.id] = one
    if not found:
        raise ValueError(f"{path} holds no example")
    return list(found.values())


def _parts_example(value: Mapping[str, Any], **defaults: str) -> PartsExample:
    rest = {name: one for name, one in value.items() if name not in _OWN}
    output, schema = value.get("output"), value.get("json_schema", True)
    if output is not None and not isinstance(output, str):
        raise ValueError("field 'output' is not a string")
    if not isinstance(schema, dict | bool):
        raise ValueError("field 'json_schema' is no schema")
    if ("units" in value) == ("reference" in value):
        raise ValueError("exactly one of the fields 'units' and 'reference' is needed")
    reference = value.get("reference")
    if "reference" in value and not isinstance(reference, dict | list):
        raise ValueError("field 'reference' is no JSON object or array")
    return PartsExample(
        example=example_of(rest, labelled=False, **defaults),
        output=output,
        json_schema=schema,
        labels=_labels(value.get("units", [])),
        reference=reference,
        ignored=_paths(value.get("ignored", [])),
    )


def _paths(value: Any) -> frozenset[str]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ValueError("field 'ignored' is no list of JSON Pointers")
    return frozenset(value)


def _labels(units: Any) -> dict[str, bool]:
    labels: dict[str, bool] = {}
    if not isinstance(units, list):
        raise ValueError("field 'units' is not a list")
    for unit in units:
        if not isinstance(unit, dict) or not isinstance(unit.get("path"), str):
            raise ValueError("field 'units': each needs a 'path', a JSON Pointer")
        if unit.get("label") not in (True, False):  # 1 and 0 are
            raise ValueError("field 'units': each needs a 'label', true or false")
        if unit["path"] in labels:
            raise ValueError("field 'units': a path occurs twice")
        labels[unit["path"]] = bool(unit["label"])
    return labels
