"""JSON records of places after a JSON Schema in the prompt: flat, nested and with arrays."""

import json
from collections.abc import Mapping
from typing import Any

from cocoa_lab.embedded.topics import definite
from cocoa_lab.embedded.world.document import Document, user
from cocoa_lab.embedded.world.invented import CONTINENTS
from cocoa_lab.embedded.world.knowledge import Fact, Knowledge
from cocoa_lab.embedded.world.pen import Pen
from cocoa_lab.embedded.world.places import ATTRIBUTES, NORTH, SOUTH, Place, Value

PROMPTS = (
    "Give the record of {place} as JSON.\n{schema}",
    "Fill this schema for {place}.\n{schema}",
    "Describe {place} as JSON after this schema: {schema}",
    "JSON of {place}, please.\nSchema: {schema}",
)
MIN_FIELDS, MAX_FIELDS = 3, 6
SHARE_NESTED, SHARE_PLAIN = 0.35, 0.2
# The object that a city's record may hold, and what may stand in it.
NESTED = "country"
NESTED_ATTRIBUTES = ("continent", "capital", "language", "currency", "neighbours", "population")

_TEXT = {"type": "string"}
_INTEGER = {"type": "integer"}
_TYPES: Mapping[str, Mapping[str, Any]] = {
    "population": _INTEGER,
    "area": _INTEGER,
    "founded": _INTEGER,
    "neighbours": {"type": "array", "items": _TEXT},
    "continent": {"enum": [*CONTINENTS]},
    "side": {"enum": [NORTH, SOUTH]},
}


def schema_of(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON Schema of an object with a name and these attributes, in this order."""
    properties: dict[str, Any] = {"name": _TEXT}
    for attribute, inner in attributes.items():
        properties[attribute] = schema_of(inner) if inner else _TYPES.get(attribute, _TEXT)
    return {"type": "object", "properties": properties, "required": list(properties)}


def shape_of(place: Place, pen: Pen, *, offered: list[str]) -> dict[str, Any]:
    """The attributes of a record, some of `offered`; of a nested one what stands in it."""
    count = pen.rng.randint(MIN_FIELDS, max(MIN_FIELDS, min(MAX_FIELDS, len(offered))))
    shape: dict[str, Any] = dict.fromkeys(pen.rng.sample(offered, min(count, len(offered))))
    if place.kind == "city" and pen.chance(SHARE_NESTED):
        # What the country's object tells does not stand beside it once more.
        inner = pen.rng.sample(NESTED_ATTRIBUTES, pen.rng.randint(1, 3))
        outer = [attribute for attribute in shape if attribute not in (*inner, NESTED)][:3]
        outer.insert(pen.rng.randint(0, len(outer)), NESTED)
        return {a: dict.fromkeys(inner) if a == NESTED else None for a in outer}
    return shape


def record_prompt(place: Place, shape: Mapping[str, Any], pen: Pen) -> str:
    schema = json.dumps(schema_of(shape), separators=(",", ":"))
    return pen.choose(PROMPTS).format(place=definite(place.name), schema=schema)


def true_record(knowledge: Knowledge, place: Place, shape: Mapping[str, Any]) -> dict[str, Any]:
    """The record as the world has it."""
    record: dict[str, Any] = {"name": place.name}
    for attribute, inner in shape.items():
        if inner is None:
            record[attribute] = _json(place.facts[attribute])
        else:
            country = knowledge.world.places[str(place.facts[attribute])]
            record[attribute] = true_record(knowledge, country, inner)
    return record


def has_all(knowledge: Knowledge, place: Place, shape: Mapping[str, Any]) -> bool:
    """Whether the world knows everything that a record of this shape asks for."""
    for attribute, inner in shape.items():
        if attribute not in place.facts:
            return False
        if inner and not has_all(
            knowledge, knowledge.world.places[str(place.facts[attribute])], inner
        ):
            return False
    return True


def _json(value: Value) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _told(
    knowledge: Knowledge, place: Place, shape: Mapping[str, Any], pen: Pen
) -> tuple[dict[str, Any], list[Fact]] | None:
    """A record as one document tells it, with its facts; None where training is silent."""
    record: dict[str, Any] = {"name": place.name}
    facts: list[Fact] = []
    for attribute, inner in shape.items():
        fact = knowledge.tell(place, attribute, pen)
        if fact is None:
            return None
        facts.append(fact)
        record[attribute] = _json(fact.value)
        if inner is not None:
            country = knowledge.world.places[str(fact.value)]
            nested = _told(knowledge, country, inner, pen)
            if nested is None:
                return None
            record[attribute] = nested[0]
            facts += nested[1]
    return record, facts


def offered(place: Place) -> list[str]:
    """What a schema may ask of a place: all that the world knows of it."""
    return [attribute for attribute in ATTRIBUTES[place.kind] if attribute in place.facts]


def record(knowledge: Knowledge, pen: Pen) -> Document | None:
    """A record of a place after a schema; None where training is silent about a part of it."""
    place = knowledge.draw(pen)
    told_of = [fact.attribute for fact in knowledge.tell_all(place, pen)]
    if len(told_of) < MIN_FIELDS:
        return None
    shape = shape_of(place, pen, offered=told_of)
    told = _told(knowledge, place, shape, pen)
    if told is None:
        return None
    return Document(
        kind="json",
        messages=[user(record_prompt(place, shape, pen))],
        reply=json.dumps(told[0]),  # with the blanks that the service's grammar writes
        plain=pen.chance(SHARE_PLAIN),
        facts=told[1],
    )
