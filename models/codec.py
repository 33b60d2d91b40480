"""Generations and what they answer as JSON: in the cache, in recordings, between processes.

Lossless: floats come back to the last bit, `None` as `None`. Encoders give plain values that orjson
takes with `OPT_SERIALIZE_NUMPY`; decoders take what it loads.
"""

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, get_args

import numpy as np

from models.ranges import (
    ENTROPIES,
    LOGPROBS,
    PERCENTILES,
    PROBABILITIES,
    Range,
    number,
    numbers,
)
from models.records import (
    AnswerForm,
    Array,
    FinishReason,
    Generation,
    GenerationRequest,
    GivenAnswer,
    ProbeReading,
    SamplingParams,
    Sequence,
)

# The fields that are JSON as they are; integers count something, and are not negative.
_PLAIN_OF_SEQUENCE = {"text": str, "compared_text": str, "num_tokens": int}
_PLAIN_OF_GENERATION = {
    "prompt_tokens": int,
    "seed": int,
    "model_id": str,
    "revision": str,
    "identity": str,
    "queue_s": float,
    "generate_s": float,
}
_FINISH_REASONS = get_args(FinishReason)
_ANSWER_FORMS = get_args(AnswerForm)


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

    Others may write what is read: all but the hidden states is checked for type, length and range.

    Raises:
        KeyError: a field is missing.
        TypeError: a field is unknown, or of another type.
        ValueError: an array is not of its sequence's length, a number not in its range, or a finish
            reason or form not known.
    """
    _check_plain(value, _PLAIN_OF_GENERATION)
    if value["answer_form"] not in _ANSWER_FORMS:
        raise ValueError("an unknown form of the answer")
    hidden, readings = value["answer_hidden_mean"], value["probe_readings"]
    bounds = value["mte_bounds"]
    changed = {
        "answer": _sequence(value["answer"]),
        "samples": tuple(_sequence(sample) for sample in value["samples"]),
        "warnings": _all_of(str, value["warnings"]),
        "probe_readings": {name: _reading(reading) for name, reading in readings.items()},
        "answer_hidden_mean": None if hidden is None else np.array(hidden, dtype=np.float32),
        "mte_bounds": None if bounds is None else _bounds(bounds),
        "absent": _reasons(value["absent"]),
    }
    return Generation(**{**value, **changed})


def _fields_of(record: Any) -> dict[str, Any]:
    """A record's fields as they are; `asdict` would copy every array."""
    return {field.name: getattr(record, field.name) for field in fields(record)}


def _sequence(value: Mapping[str, Any]) -> Sequence:
    _check_plain(value, _PLAIN_OF_SEQUENCE)
    if value["finish_reason"] not in _FINISH_REASONS:
        raise ValueError("an unknown finish reason")
    length = value["num_tokens"]
    changed = {
        "token_ids": _tokens(int, value["token_ids"], length),
        "token_texts": _tokens(str, value["token_texts"], length),
        "token_logprobs": _array(value["token_logprobs"], length, LOGPROBS),
        "token_entropies": _array(value["token_entropies"], length, ENTROPIES),
    }
    return Sequence(**{**value, **changed})


def _reading(value: Mapping[str, Any]) -> ProbeReading:
    if type(value["out_of_domain"]) is not bool:
        raise TypeError("out_of_domain is no bool")
    number(value["value"], PROBABILITIES)
    number(value["distance_percentile"], PERCENTILES)
    return ProbeReading(**value)


def _bounds(value: Any) -> tuple[float, float]:
    lower, upper = numbers(value, (2,), ENTROPIES).tolist()
    if lower > upper:
        raise ValueError("the least is greater than the greatest")
    return lower, upper


def _reasons(value: Mapping[str, Any]) -> dict[str, str]:
    reasons = dict(value)
    _all_of(str, list(reasons.values()))
    return reasons


def _check_plain(value: Mapping[str, Any], types: Mapping[str, type]) -> None:
    for name, wanted in types.items():
        if type(value[name]) is not wanted:  # True is an int to isinstance
            raise TypeError(f"{name} is no {wanted.__name__}")
        if wanted is int and value[name] < 0:
            raise ValueError(f"{name} is negative")


def _tokens(wanted: type, values: Any, length: int) -> tuple[Any, ...] | None:
    if values is None:
        return None
    tokens = _all_of(wanted, values)
    if len(tokens) != length:
        raise ValueError(f"{len(tokens)} values for {length} tokens")
    return tokens


def _all_of(wanted: type, values: Any) -> tuple[Any, ...]:
    if type(values) is not list or not set(map(type, values)) <= {wanted}:
        raise TypeError(f"no list of {wanted.__name__}")
    return tuple(values)


def _array(values: Any, length: int, within: Range) -> Array | None:
    return None if values is None else numbers(values, (length,), within)
