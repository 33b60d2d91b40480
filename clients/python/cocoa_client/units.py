"""The parts of an answer, as people want to see them; `response.units` keeps the answer's order."""

import json
import math
from typing import Any

from cocoa_client.models import GenerateResponse, UnitInfo


def units_by_uncertainty(response: GenerateResponse) -> list[UnitInfo]:
    """The parts of an answer, the least sure first; those without an uncertainty before all.

    Empty where none were asked for, or where the answer is held back.
    """
    parts = [unit for unit in response.units or () if unit.kind != "answer"]
    return sorted(parts, key=_uncertainty, reverse=True)


def fields_of(response: GenerateResponse) -> dict[str, UnitInfo]:
    """The fields of a JSON answer by JSON Pointer, in the order of the answer."""
    found = {}
    for unit in response.units or ():
        if unit.kind == "field" and unit.path is not None:
            found[unit.path] = unit
    return found


def statements_of(response: GenerateResponse) -> list[UnitInfo]:
    """The sentences or claims of an answer, in its order; empty where none were asked for."""
    return [unit for unit in response.units or () if unit.kind in ("sentence", "claim")]


def rejected_units(response: GenerateResponse) -> list[UnitInfo]:
    """The parts that do not pass, with what they say: also those that `refined_text` lacks."""
    return [unit for unit in response.units or () if unit.decision and not unit.decision.accept]


def value_of(unit: UnitInfo) -> Any:
    """What a field holds, as Python reads its JSON.

    Raises:
        ValueError: the unit is no field.
    """
    if unit.kind != "field":
        raise ValueError(f"a unit of kind {unit.kind} holds no JSON value")
    return json.loads(unit.text)


def _uncertainty(unit: UnitInfo) -> float:
    if unit.uncertainty is None:
        return math.inf
    return unit.uncertainty
