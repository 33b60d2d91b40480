"""Generations as JSON: in files of an evaluation, and in the cache."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from models.records import Array, Generation, ProbeReading, Sequence


def generation_to_json(generation: Generation) -> dict[str, Any]:
    """Every field but times and hidden states, which are of the moment; arrays as lists."""
    return {
        "seed": generation.seed,
        "model": generation.model_id,
        "revision": generation.revision,
        "prompt_tokens": generation.prompt_tokens,
        "warnings": generation.warnings,
        "answer": _sequence_to_json(generation.answer),
        "samples": [_sequence_to_json(sample) for sample in generation.samples],
        "probe_readings": {
            name: asdict(reading) for name, reading in generation.probe_readings.items()
        },
    }


def generation_from_json(value: Mapping[str, Any]) -> Generation:
    """What `generation_to_json` gave; other keys are ignored.

    Raises:
        KeyError: a field is missing.
    """
    return Generation(
        answer=_sequence_from_json(value["answer"]),
        samples=tuple(map(_sequence_from_json, value["samples"])),
        prompt_tokens=value["prompt_tokens"],
        seed=value["seed"],
        model_id=value["model"],
        revision=value["revision"],
        warnings=tuple(value["warnings"]),
        probe_readings={
            n: ProbeReading(**reading) for n, reading in value.get("probe_readings", {}).items()
        },
    )


def _sequence_to_json(sequence: Sequence) -> dict[str, Any]:
    return {
        "text": sequence.text,
        "compared_text": sequence.compared_text,
        "finish_reason": sequence.finish_reason,
        "token_ids": sequence.token_ids,
        "token_texts": sequence.token_texts,
        "token_logprobs": None
        if sequence.token_logprobs is None
        else sequence.token_logprobs.tolist(),
        "token_entropies": None
        if sequence.token_entropies is None
        else sequence.token_entropies.tolist(),
    }


def _sequence_from_json(value: Mapping[str, Any]) -> Sequence:
    return Sequence(
        text=value["text"],
        compared_text=value["compared_text"],
        finish_reason=value["finish_reason"],
        token_ids=tuple(value["token_ids"]),
        token_texts=None if value["token_texts"] is None else tuple(value["token_texts"]),
        token_logprobs=_array(value["token_logprobs"]),
        token_entropies=_array(value["token_entropies"]),
    )


def _array(values: list[float] | None) -> Array | None:
    return None if values is None else np.array(values, dtype=np.float64)
