"""Generations and what they answer as JSON: in the cache, in recordings, between processes.

Lossless: floats come back to the last bit, `None` as `None`. Encoders give plain values that orjson
takes with `OPT_SERIALIZE_NUMPY`; decoders take what it loads.
"""

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

import numpy as np

from models.records import (
    Array,
    Generation,
    GenerationRequest,
    GivenAnswer,
    ProbeReading,
    SamplingParams,
    Sequence,
)


def request_to_json(request: GenerationRequest) -> dict[str, Any]:
    """Every field of a request."""
    return _fields_of(request) | {
        "sampling": asdict(request.sampling),
        "answer": None if request.answer is None else asdict(request.answer),
        "statistics": sorted(request.statistics),
    }


def request_from_json(value: Mapping[str, Any]) -> GenerationRequest:
    """What `request_to_json` was given.

    Raises:
        KeyError: a field is missing.
        TypeError: a field is unknown, or of another type.
    """
    sampling, answer, messages = value["sampling"], value["answer"], value["messages"]
    changed = {
        "messages": None if messages is None else tuple(messages),
        "sampling": SamplingParams(**sampling | {"stop": tuple(sampling["stop"])}),
        "answer": None if answer is None else GivenAnswer(**answer),
        "statistics": frozenset(value["statistics"]),
        "hidden_layers": tuple(value["hidden_layers"]),
    }
    return GenerationRequest(**{**value, **changed})


def generation_to_json(generation: Generation) -> dict[str, Any]:
    """Every field of a generation."""
    readings = generation.probe_readings
    return _fields_of(generation) | {
        "answer": _fields_of(generation.answer),
        "samples": [_fields_of(sample) for sample in generation.samples],
        "probe_readings": {name: asdict(reading) for name, reading in readings.items()},
    }


def generation_from_json(value: Mapping[str, Any]) -> Generation:
    """What `generation_to_json` was given.

    Raises:
        KeyError: a field is missing.
        TypeError: a field is unknown, or of another type.
    """
    hidden, readings = value["answer_hidden_mean"], value["probe_readings"]
    changed = {
        "answer": _sequence(value["answer"]),
        "samples": tuple(_sequence(sample) for sample in value["samples"]),
        "warnings": tuple(value["warnings"]),
        "probe_readings": {name: ProbeReading(**reading) for name, reading in readings.items()},
        "answer_hidden_mean": None if hidden is None else np.array(hidden, dtype=np.float32),
    }
    return Generation(**{**value, **changed})


def _fields_of(record: Any) -> dict[str, Any]:
    """A record's fields as they are; `asdict` would copy every array."""
    return {field.name: getattr(record, field.name) for field in fields(record)}


def _sequence(value: Mapping[str, Any]) -> Sequence:
    changed = {
        "token_ids": _tuple(value["token_ids"]),
        "token_texts": _tuple(value["token_texts"]),
        "token_logprobs": _array(value["token_logprobs"]),
        "token_entropies": _array(value["token_entropies"]),
    }
    return Sequence(**{**value, **changed})


def _tuple(values: list[Any] | None) -> tuple[Any, ...] | None:
    return None if values is None else tuple(values)


def _array(values: list[float] | None) -> Array | None:
    return None if values is None else np.array(values, dtype=np.float64)
