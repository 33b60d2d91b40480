"""What is remembered of a request: statistics only.

Scores, prompts and anything that only a response says are never remembered.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson

from app.evidence import Evidence, token_statistics
from app.generations import generation_from_json, generation_to_json
from app.planning import Plan
from models.records import Generation

FORMAT = 1
_RAGGED = frozenset({"sample_token_relevance"})


@dataclass(frozen=True, slots=True)
class Computed:
    """All that a response is made of and that costs a model.

    Attributes:
        asked_model: whether the engine was asked; not for texts that a client brought without a
            prompt.
        similarity_s: seconds of everything between generation and scoring; 0 where it was
            remembered.
    """

    asked_model: bool
    generation: Generation
    evidence: Evidence
    similarity_s: float = 0.0


def encode(computed: Computed, plan: Plan) -> bytes:
    """A complete result as bytes, with the statistics that it holds."""
    generation, evidence = computed.generation, computed.evidence
    held = token_statistics(evidence.answer, generation.samples)
    entry = {
        "format": FORMAT,
        "statistics": sorted(plan.statistics),
        "asked_model": computed.asked_model,
        "generation": generation_to_json(generation),
        "answer_sample": evidence.answer_sample,
        "derived": {name: value for name, value in evidence.statistics.items() if name not in held},
        "absent": evidence.absent,
        "truncated": evidence.truncated,
    }
    return orjson.dumps(entry, option=orjson.OPT_SERIALIZE_NUMPY)


def decode(entry: bytes, plan: Plan) -> Computed | None:
    """What `encode` was given, without times.

    None where the data does not hold all that the plan wants, or is no entry.
    """
    try:
        values = orjson.loads(entry)
        if values["format"] != FORMAT or not plan.statistics <= set(values["statistics"]):
            return None
        return _decoded(values)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        return None


def _decoded(values: Mapping[str, Any]) -> Computed:
    generation = generation_from_json(values["generation"])
    index = values["answer_sample"]
    answer = generation.answer if index is None else generation.samples[index]
    derived = {name: _statistic(name, value) for name, value in values["derived"].items()}
    statistics = token_statistics(answer, generation.samples) | derived
    evidence = Evidence(answer, index, statistics, values["absent"], values["truncated"])
    return Computed(values["asked_model"], generation, evidence)


def _statistic(name: str, value: Any) -> Any:
    if name in _RAGGED:
        return [np.array(row, dtype=np.float64) for row in value]
    return np.array(value, dtype=np.float64) if isinstance(value, list) else value
