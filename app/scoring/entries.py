"""Pure: what a cache remembers of an ask. Statistics, never scores, prompts or what is returned."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import orjson

from app.scoring.ask import Ask
from app.scoring.evidence import Evidence, Subject, subject_of, token_statistics
from app.scoring.keys import FORMAT
from app.scoring.plan import Plan
from app.scoring.result import Computed
from models.codec import generation_from_json, generation_to_json
from models.statistics import STATISTICS


def encode(computed: Computed, plan: Plan) -> bytes:
    """A complete result as bytes, with the statistics that it holds.

    How long it took is of the moment, and left out.
    """
    generation, evidence = computed.generation, computed.evidence
    if generation is not None:
        generation = replace(generation, queue_s=0.0, generate_s=0.0)
    held = token_statistics(evidence.subject)
    entry = {
        "format": FORMAT,
        "statistics": sorted(plan.statistics),
        "generation": None if generation is None else generation_to_json(generation),
        "answer_sample": evidence.subject.answer_sample,
        "derived": {name: one for name, one in evidence.statistics.items() if name not in held},
        "absent": evidence.absent,
        "truncated": evidence.truncated,
    }
    return orjson.dumps(entry, option=orjson.OPT_SERIALIZE_NUMPY)


def decode(entry: bytes, plan: Plan, ask: Ask) -> Computed | None:
    """What `encode` was given for this ask; None where it lacks what the plan wants.

    None, too, for what is no entry.
    """
    try:
        values = orjson.loads(entry)
        if values["format"] != FORMAT or not plan.statistics <= set(values["statistics"]):
            return None
        return _decoded(values, ask)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        return None


def _decoded(values: Mapping[str, Any], ask: Ask) -> Computed:
    stored, index = values["generation"], values["answer_sample"]
    generation = None if stored is None else generation_from_json(stored)
    subject = subject_of(ask, generation)
    if index is not None:
        subject = Subject(subject.samples[index], index, subject.samples)
    statistics = token_statistics(subject)
    for name, value in values["derived"].items():
        statistics[name] = _statistic(name, value)
    return Computed(
        generation, Evidence(subject, statistics, values["absent"], values["truncated"])
    )


def _statistic(name: str, value: Any) -> Any:
    if STATISTICS[name].shape.startswith("M arrays"):
        return [np.array(row, dtype=np.float64) for row in value]
    return np.array(value, dtype=np.float64) if isinstance(value, list) else value
