"""Pure: what a cache remembers of an ask. Statistics, never scores, prompts or what is returned.

Everything that is read is checked for type, length and range, so that nothing later can fail on it.
"""

import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import orjson

from app.scoring.ask import Ask
from app.scoring.evidence import Evidence, Subject, subject_of, token_statistics
from app.scoring.plan import Plan, generation_request
from app.scoring.result import Computed
from models.codec import generation_from_json, generation_to_json
from models.ranges import number, numbers
from models.records import Generation
from models.statistics import PROBE_STATISTICS, STATISTICS, Dimension, supplied_by
from models.waves import num_taken

# What follows from the texts and from what was asked about them; the rest comes with the texts.
_DERIVED = supplied_by("probe", "question", "texts", "similarity", "nli")
_MAY_BE_ABSENT = supplied_by("answer", "samples", "probe", "question")
# Entries that are asked for again and again are read once: of so many, of at most so many bytes.
_NUM_KNOWN = 256
_KNOWN_BYTES = 16_384


def encode(computed: Computed) -> bytes:
    """A complete result as bytes.

    How long it took is of the moment, and left out.
    """
    generation, evidence = computed.generation, computed.evidence
    if generation is not None:
        generation = replace(generation, queue_s=0.0, generate_s=0.0)
    entry = {
        "generation": None if generation is None else generation_to_json(generation),
        "answer_sample": evidence.subject.answer_sample,
        "derived": {name: one for name, one in evidence.statistics.items() if name in _DERIVED},
        "absent": evidence.absent,
        "truncated": evidence.truncated,
    }
    return orjson.dumps(entry, option=orjson.OPT_SERIALIZE_NUMPY)


def decode(entry: bytes, plan: Plan, ask: Ask) -> Computed | None:
    """What `encode` was given for this ask, or would have been, had it drawn fewer samples.

    None where there are too few samples, or where it lacks what is wanted returned.

    Raises:
        ValueError, TypeError, LookupError, AttributeError: it is no entry of such an ask.
    """
    read = _read_once if len(entry) <= _KNOWN_BYTES else _read
    values, generation = read(entry)
    _check_asked(generation, plan, ask)
    subject = _subject(values["answer_sample"], plan, subject_of(ask, generation))
    statistics = token_statistics(subject)
    for name, value in values["derived"].items():
        statistics[name] = _derived(name, value, subject)
    absent, truncated = _absent(values["absent"]), values["truncated"]
    readings = set() if generation is None else generation.probe_readings.keys()
    if readings != (plan.statistics & PROBE_STATISTICS) - absent.keys():
        raise ValueError("other probes")
    if type(truncated) is not bool:
        raise TypeError("truncated is no bool")
    lacking = plan.statistics - statistics.keys() - absent.keys()
    if lacking - plan.returned:  # the others are part of its name
        raise ValueError("statistics are missing")
    if lacking:
        return None
    computed = Computed(generation, Evidence(subject, statistics, absent, truncated))
    return computed if generation is None else _as_drawn(computed, generation, plan, ask)


def _read(entry: bytes) -> tuple[Mapping[str, Any], Generation | None]:
    """An entry's values, and the generation among them; nobody may change either."""
    values = orjson.loads(entry)
    given = values["generation"]
    if given is None:
        return values, None
    if given["answer_hidden_mean"] is not None:
        raise ValueError("hidden states are never stored")
    return values, generation_from_json(given)


_read_once = functools.lru_cache(_NUM_KNOWN)(_read)


def _check_asked(generation: Generation | None, plan: Plan, ask: Ask) -> None:
    if (generation is None) == ask.has_prompt:
        raise ValueError("a generation without a prompt, or a prompt without one")
    has_samples = generation is not None and bool(generation.samples)
    if has_samples and not generation_request(ask, plan.generated).num_samples:
        raise ValueError("samples that nobody asked for")


def _as_drawn(computed: Computed, generation: Generation, plan: Plan, ask: Ask) -> Computed | None:
    """What was computed, with as many of the samples as the ask draws; None for too few."""
    num_samples = num_taken(generation_request(ask, plan.generated), generation)
    if num_samples == len(generation.samples):
        return computed
    if plan.is_sampled:  # how many there are is part of its name
        raise ValueError("another number of samples")
    evidence = computed.evidence
    # Of a cut pair nobody knows which sample it was of.
    if num_samples is None or evidence.truncated:
        return None
    taken = replace(generation, samples=generation.samples[:num_samples])
    subject = replace(evidence.subject, samples=taken.samples)
    statistics = token_statistics(subject)
    for name in evidence.statistics.keys() & _DERIVED:
        statistics[name] = _of_first(evidence.statistics[name], STATISTICS[name].shape, num_samples)
    return replace(
        computed,
        generation=taken,
        evidence=replace(evidence, subject=subject, statistics=statistics),
    )


def _of_first(value: Any, shape: tuple[Dimension, ...], num_samples: int) -> Any:
    """A statistic of that many first samples; one that is of no sample is itself."""
    if shape == ("M", "M"):
        return value[:num_samples, :num_samples]
    return value[:num_samples] if "M" in shape else value


def _subject(index: Any, plan: Plan, subject: Subject) -> Subject:
    if index is None and not plan.is_sampled:
        return subject
    if not plan.is_sampled or type(index) is not int or index < 0:
        raise ValueError("no sample is the answer, or none such")
    return Subject(subject.samples[index], index, subject.samples)


def _derived(name: str, value: Any, subject: Subject) -> Any:
    """One derived statistic in the shape that the table says, M and T those of the subject."""
    if name not in _DERIVED:
        raise LookupError("no derived statistic")
    shape, within = STATISTICS[name].shape, STATISTICS[name].within
    if within is None:
        raise LookupError("texts are never derived")
    if not shape:
        return number(value, within)
    if shape == ("M", "T_m"):
        rows = zip(value, subject.samples, strict=True)
        return [numbers(row, (sample.num_tokens,), within) for row, sample in rows]
    # A sampled answer is not compared to itself.
    compared = subject.other_texts if name == "similarity" else subject.texts
    sizes = {"M": len(compared), "T": subject.answer.num_tokens}
    return numbers(value, tuple(sizes[dimension] for dimension in shape), within)


def _absent(value: Mapping[str, Any]) -> dict[str, str]:
    if not value.keys() <= _MAY_BE_ABSENT or not set(map(type, value.values())) <= {str}:
        raise ValueError("no reasons for what may be absent")
    return dict(value)
