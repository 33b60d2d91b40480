"""Generations and what they answer as JSON: in the cache, in recordings, between processes.

Lossless: floats come back to the last bit, `None` as `None`. Encoders give plain values that orjson
takes with `OPT_SERIALIZE_NUMPY`; decoders take what it loads, and check it by the structures that
are declared here.
"""

from dataclasses import asdict
from operator import attrgetter
from typing import Annotated, Any, NotRequired

import numpy as np
from annotated_types import Ge, Le
from pydantic import (
    ConfigDict,
    PlainValidator,
    Strict,
    StringConstraints,
    TypeAdapter,
    with_config,
)
from typing_extensions import TypedDict

from models.ranges import (
    ENTROPIES,
    LOGPROBS,
    Logprob,
    Percentile,
    Probability,
    Range,
    numbers,
)
from models.records import (
    FINISH_REASON,
    AnswerForm,
    Array,
    Generation,
    GenerationRequest,
    ProbeReading,
    Reasoning,
    Sequence,
)

# Longer than any request may take; sums of such numbers stay finite.
_MAX_S = 1e6
_EXACT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


def _array(within: Range) -> PlainValidator:
    """Floats in this range, one a token; how many there must be is checked by their sequence."""
    return PlainValidator(lambda value: numbers(value, (len(value),), within))


_Count = Annotated[int, Ge(0)]
_Seconds = Annotated[float, Ge(0), Le(_MAX_S)]


_LIST = Strict(False)  # JSON has no tuples
_Top = Annotated[tuple[Annotated[str, Strict()], Logprob], _LIST]
_Span = Annotated[tuple[_Count, _Count], _LIST]


@with_config(_EXACT)
class _Reasoning(TypedDict):
    text: str
    num_tokens: _Count
    is_finished: bool


@with_config(_EXACT)
class _Sequence(TypedDict):
    text: str
    compared_text: str
    num_tokens: _Count
    finish_reason: Annotated[str, StringConstraints(pattern=FINISH_REASON)]
    token_ids: list[int] | None
    token_logprobs: Annotated[Array, _array(LOGPROBS)] | None
    token_entropies: Annotated[Array, _array(ENTROPIES)] | None
    token_texts: list[str] | None
    token_tops: NotRequired[list[list[_Top]] | None]
    reasoning: NotRequired[_Reasoning | None]
    refusal: NotRequired[str | None]


@with_config(_EXACT)
class _Reading(TypedDict):
    value: Probability
    distance_percentile: Percentile
    out_of_domain: bool


@with_config(_EXACT)
class _Generation(TypedDict):
    answer: _Sequence
    samples: list[_Sequence]
    prompt_tokens: _Count
    seed: _Count
    model_id: str
    revision: str
    identity: str
    queue_s: _Seconds
    generate_s: _Seconds
    warnings: list[str]
    answer_form: AnswerForm
    answer_hidden_mean: list[list[float]] | None
    sentence_hidden_means: NotRequired[list[Annotated[tuple[_Span, list[list[float]]], _LIST]]]
    prompt_state: NotRequired[list[float] | None]
    probe_readings: dict[str, _Reading]
    sentence_readings: NotRequired[list[Annotated[tuple[_Span, _Reading], _LIST]]]
    absent: dict[str, str]
    mte_bounds: NotRequired[Any]  # of older recordings


_GENERATION, _REQUEST = TypeAdapter(_Generation), TypeAdapter(GenerationRequest)


def request_to_json(request: GenerationRequest) -> Any:
    """Every field of a request."""
    return _REQUEST.dump_python(request, mode="json")


def request_from_json(value: Any) -> GenerationRequest:
    """What `request_to_json` was given.

    Raises:
        ValueError: a field is unknown, or of another type.
    """
    return _REQUEST.validate_python(value, extra="forbid")


def generation_to_json(generation: Generation) -> dict[str, Any]:
    """Every field of a generation."""
    readings, of_sentences = generation.probe_readings, generation.sentence_readings
    return _fields_of(generation) | {
        "answer": _fields_of(generation.answer),
        "samples": list(map(_fields_of, generation.samples)),
        "sentence_hidden_means": list(generation.sentence_hidden_means.items()),
        "probe_readings": dict(zip(readings, map(asdict, readings.values()), strict=True)),
        "sentence_readings": [(at, asdict(one)) for at, one in of_sentences.items()],
    }


def generation_from_json(value: Any) -> Generation:
    """What `generation_to_json` was given.

    Others may write what is read: all but the hidden states is checked for type, length and range.

    Raises:
        ValueError: a field is missing, unknown or of another type, an array is not of its
            sequence's length, or a number not in its range.
    """
    found = _GENERATION.validate_python(value)
    changed: dict[str, Any] = {
        "answer": _sequence(found["answer"]),
        "samples": tuple(map(_sequence, found["samples"])),
        "warnings": tuple(found["warnings"]),
    }
    readings = found["probe_readings"].items()
    changed["probe_readings"] = {name: ProbeReading(**one) for name, one in readings}
    of_sentences = found.get("sentence_readings", [])
    changed["sentence_readings"] = {at: ProbeReading(**one) for at, one in of_sentences}
    means = found.get("sentence_hidden_means", [])
    changed["sentence_hidden_means"] = {at: np.array(one, np.float32) for at, one in means}
    if (hidden := found["answer_hidden_mean"]) is not None:
        changed["answer_hidden_mean"] = np.array(hidden, dtype=np.float32)
    if (state := found.get("prompt_state")) is not None:
        changed["prompt_state"] = np.array(state, dtype=np.float32)
    found.pop("mte_bounds", None)
    return Generation(**{**found, **changed})


def _fields_of(record: Any) -> dict[str, Any]:
    """A record's fields as they are; `asdict` would copy every array."""
    names = record.__dataclass_fields__
    return dict(zip(names, attrgetter(*names)(record), strict=True))


def _sequence(found: _Sequence) -> Sequence:
    changed: dict[str, Any] = {}
    if reasoning := found.get("reasoning"):
        changed["reasoning"] = Reasoning(**reasoning)
    for name in ("token_ids", "token_texts", "token_logprobs", "token_entropies"):
        values = found[name]
        if values is None:
            continue
        if len(values) != found["num_tokens"]:
            raise ValueError(f"{len(values)} values for {found['num_tokens']} tokens")
        if isinstance(values, list):
            changed[name] = tuple(values)
    if (tops := found.get("token_tops")) is not None:
        if len(tops) != found["num_tokens"]:
            raise ValueError("likeliest tokens are not told of each token")
        changed["token_tops"] = tuple(map(tuple, tops))
    return Sequence(**{**found, **changed})
