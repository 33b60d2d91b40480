"""Generated sequences as JSON: in files of generations, and in the cache."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from models.records import Array, Sequence


def sequence_to_json(sequence: Sequence) -> dict[str, Any]:
    """Every field, arrays as lists."""
    return {
        "text": sequence.text,
        "compared_text": sequence.compared_text,
        "finish_reason": sequence.finish_reason,
        "token_ids": sequence.token_ids,
        "token_texts": sequence.token_texts,
        "token_logprobs": None if sequence.token_logprobs is None else sequence.token_logprobs.tolist(),
        "token_entropies": None if sequence.token_entropies is None else sequence.token_entropies.tolist(),
    }


def sequence_from_json(value: Mapping[str, Any]) -> Sequence:
    """What `sequence_to_json` gave.

    Raises:
        KeyError: a field is missing.
    """
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
