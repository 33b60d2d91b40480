"""Pure: entries of a cache, their names and what they hold.

Whatever changes what is computed is part of a name; a prompt only by its hash. An entry holds
statistics, never scores, prompts or what an ask brings. Everything that is read is checked for
type, length and range, so that nothing later can fail on it.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from operator import attrgetter
from typing import Any

from app.scoring.deployment import Models
from app.scoring.derive import Evidence, token_statistics
from app.scoring.plan import Plan
from app.scoring.questions import Subject, choose, subject_of
from models.codec import reader, to_json
from models.ranges import Count, Exact, Probability, number, numbers
from models.records import DEFAULT_NEW_TOKENS, Generation
from models.statistics import STATISTICS, reads_samples, supplied_by
from workers.protocol import PairScore

_FORMAT = 7
# Statistics that follow from texts and from replies about them; the others come with the texts.
_DERIVED = supplied_by("probe", "question", "texts", "similarity", "nli")
_MAY_BE_ABSENT = supplied_by("answer", "samples", "reasoning", "probe", "question")


def statistics_name(plan: Plan, models: Models) -> str:
    """Name of an ask's statistics.

    The estimators, what is returned and the deadline are no part of it, nor how samples are drawn
    where there are none. Without a seed every draw has the same name. How many are drawn is part of
    it only where one becomes the answer: elsewhere a longer draw serves a shorter one (`decode`).
    """
    ask, generator, most = plan.ask, models.generator, plan.ask.sampling.max_new_tokens
    similarity_scorer = models.similarity_scorers[plan.similarity]
    needed = plan.statistics & plan.read
    parts: dict[str, Any] = {
        "format": _FORMAT,
        "strategy": plan.strategy,
        "statistics": sorted(needed),
        "max_new_tokens": most,
        "stop": ask.sampling.stop,
    }
    parts |= ask.how_it_reasons
    if ask.grammar is not None:
        parts["grammar"] = digest(asdict(ask.grammar))
    if most is None or (ask.sampling.clamps and most > DEFAULT_NEW_TOKENS):  # as many as fit
        parts["clamped"] = generator.max_context_tokens, ask.sampling.clamps_quietly
    if ask.documents:
        parts["documents"] = ask.documents_in, ask.documents
    if ask.num_tops or ask.num_shown > 1:  # others may have ended at the limit of samples
        parts["num_tops"] = [ask.num_tops, ask.num_shown]
    if ask.has_prompt:
        parts["model"] = generator.identity
        parts["prompt"] = ask.prompt_ids or ask.prompt
        if ask.messages is not None:
            parts["messages"] = list(map(_message, ask.messages))
            parts["chat_template_kwargs"] = ask.chat_template_kwargs
            if ask.tools:
                parts["tools"] = ask.tools
    if ask.answer is not None:
        parts["answer"] = asdict(ask.answer)
        parts["answer_token_logprobs"] = ask.answer_token_logprobs
    if ask.samples is not None:
        parts["samples"] = [[sample.text, sample.token_logprobs] for sample in ask.samples]
    elif reads_samples(plan.statistics):
        parts["sampling"] = attrgetter("temperature", "top_k", "top_p", "seed")(ask.sampling)
        if plan.is_chosen:
            parts["num_samples"] = ask.sampling.num_samples
    if plan.strategy == "sample":
        parts["drawn"] = attrgetter("answer_temperature", "top_k", "top_p", "seed")(ask.sampling)
    if plan.reads("similarity"):
        parts["similarity"] = similarity_scorer.identity
    if "exact_match" in needed:
        parts["rules"] = [similarity_scorer.rules.strip, similarity_scorer.rules.exact_match]
    if plan.reads("nli") and models.nli is not None:
        parts["nli"] = models.nli.identity
    for name in sorted(needed & supplied_by("probe")):
        parts[name] = generator.probes[name].sha256
    if ask.has_prompt and generator.prompts:
        parts["prompts"] = generator.prompts
    return ":".join(filter(None, (ask.caller.namespace, "statistics", digest(parts))))


def pair_name(namespace: str, identity: str, a: str, b: str) -> str:
    """Name of the scores of one ordered pair, whose texts have these digests."""
    return ":".join(filter(None, (namespace, "pair", digest([_FORMAT, identity, a, b]))))


def decode_pair(entry: bytes, num_labels: int) -> PairScore:
    """A probability for each of a similarity scorer's labels, and whether the pair was cut.

    Raises:
        ValueError: it is no such entry.
    """
    values, truncated = _pair_score(entry)
    if len(values) != num_labels:
        raise ValueError("no scores of these labels")
    return values, truncated


@dataclass(frozen=True, slots=True)
class _Entry(Exact):
    generation: Generation | None
    answer_sample: Count | None
    derived: dict[str, Any]
    absent: dict[str, str]
    truncated: bool


_entry = reader(_Entry)
_pair_score = reader(tuple[tuple[Probability, ...], bool])


def encode(evidence: Evidence) -> bytes:
    """A complete result as bytes.

    Its durations are of the moment, and left out.
    """
    generation = evidence.generation
    if generation is not None:
        generation = replace(generation, queue_s=0.0, generate_s=0.0)
    derived = {name: evidence.statistics[name] for name in evidence.statistics.keys() & _DERIVED}
    index = evidence.subject.answer_sample
    return to_json(_Entry(generation, index, derived, evidence.absent, evidence.truncated))


def decode(payload: bytes, plan: Plan) -> Evidence | None:
    """Read an entry of `encode`, cut to the samples that this ask draws.

    None where there are too few samples, or where a statistic that is returned is missing.

    Raises:
        ValueError, TypeError, LookupError: it is no entry of such an ask.
    """
    entry, ask = _entry(payload), plan.ask
    generation = entry.generation
    if (generation is None) == ask.has_prompt:
        raise ValueError("a generation without a prompt, or a prompt without one")
    readings: set[str] = set()
    if generation is not None:
        _check_generation(generation, plan)
        readings.update(generation.probe_readings)
    subject = _subject(entry.answer_sample, plan, subject_of(ask, generation))
    statistics = token_statistics(subject)
    statistics |= {name: _derived(name, value, subject) for name, value in entry.derived.items()}
    if subject.answer.no_answer:
        readings = set()  # a reading of no answer is none
    elif not subject.lacks_samples and not entry.absent.keys() <= _MAY_BE_ABSENT:
        raise ValueError("no reasons for what may be absent")
    if readings != (plan.statistics & supplied_by("probe")) - entry.absent.keys():
        raise ValueError("other probes")
    lacking = plan.statistics - statistics.keys() - entry.absent.keys()
    if lacking & plan.read:  # the others are part of its name
        raise ValueError("statistics are missing")
    if lacking:
        return None
    absent, truncated = entry.absent, entry.truncated
    evidence = Evidence(subject, statistics, absent, truncated, generation, payload=payload)
    if generation is None:
        return evidence
    return _as_drawn(evidence, generation, plan)


def _check_generation(generation: Generation, plan: Plan) -> None:
    if generation.samples and not plan.request.num_samples:
        raise ValueError("samples that nobody asked for")
    states = generation.answer_hidden_mean, generation.prompt_state
    if states != (None, None) or generation.sentence_hidden_means:
        raise ValueError("hidden states are never stored")


def _as_drawn(evidence: Evidence, generation: Generation, plan: Plan) -> Evidence | None:
    num_samples = plan.request.num_samples
    if num_samples == len(generation.samples):
        return evidence
    if plan.is_chosen:  # how many there are is part of its name
        raise ValueError("another number of samples")
    # The sample of a cut pair is not known.
    if num_samples > len(generation.samples) or evidence.truncated:
        return None
    taken = replace(generation, samples=generation.samples[:num_samples])
    drawn = subject_of(plan.ask, taken)
    if drawn.lacks_samples:
        return None
    num_samples = len(drawn.samples)
    subject = replace(evidence.subject, samples=drawn.samples, withheld=drawn.withheld)
    statistics = token_statistics(subject)
    for name in evidence.statistics.keys() & _DERIVED:
        value, shape = evidence.statistics[name], STATISTICS[name].shape
        if shape == ("M", "M"):
            value = value[:num_samples, :num_samples]
        elif "M" in shape:
            value = value[:num_samples]
        statistics[name] = value
    return replace(evidence, generation=taken, subject=subject, statistics=statistics)


def _subject(index: int | None, plan: Plan, subject: Subject) -> Subject:
    if index is None and not plan.is_chosen:
        return subject
    if index is None and subject.lacks_samples:
        return choose(plan.strategy, subject)
    if not plan.is_chosen or index is None:
        raise ValueError("no sample is the answer, or none such")
    return replace(subject, answer=subject.samples[index], answer_sample=index)


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
    # An answer among the samples is not compared to itself.
    compared = subject.other_texts if name == "similarity" else subject.texts
    sizes = {"M": len(compared), "T": subject.answer.num_tokens}
    return numbers(value, tuple(sizes[dimension] for dimension in shape), within)


def _message(message: Mapping[str, Any]) -> list[Any]:
    """Role, content, and the fields of calls, if any."""
    rest = {name: message[name] for name in message.keys() - {"role", "content"}}
    parts = [message["role"], message["content"]]
    if rest:
        parts.append(sorted(rest.items()))
    return parts


def digest(parts: Any) -> str:
    """SHA-256 of the parts as JSON."""
    # orjson knows no integer beyond 64 bits, which a template may be given.
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
