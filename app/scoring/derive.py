"""Pure: from the workers' replies to the statistics that estimators read.

Each planned statistic has a value or a reason in the end; anything else is a defect and raised.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from types import MappingProxyType
from typing import Any

from app.scoring.plan import Plan
from app.scoring.questions import Subject, read_by_token
from models.records import Array, Generation, NoAnswer
from models.similarity.pairs import PairTable
from models.statistics import SENTENCES_READ, STATISTICS, reads_samples, supplied_by
from models.warnings import Warned

# The reason why there is no answer, by its code.
NO_ANSWER: Mapping[NoAnswer, str] = {
    "answer_refused": "the model's server refused to answer",
    "answer_filtered": "the filter of the model's server left nothing of the answer",
    "reasoning_unfinished": "the model was cut off before it gave an answer",
}
_LEFT_OUT = Warned.SAMPLES_LEFT_OUT
LEFT_OUT = f"{_LEFT_OUT}: the sample that is the answer was cut by the server's filter"
ALL_LEFT_OUT = f"{_LEFT_OUT}: the model's server refused or filtered every sample"
BEHIND_REASONING = "the probability of an answer behind its own reasoning is not that of the answer"
NO_REASONING = "the answer has no reasoning before it"
_UNREAD = "nobody has counted the tokens of the reasoning before the answer"

_NLI = supplied_by("nli")
_BY_TOKEN = supplied_by("answer", "samples")


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that needs a model, which a cache stores: statistics by name, and the texts of them."""

    subject: Subject
    statistics: dict[str, Any]
    absent: dict[str, str]  # statistic to the reason why it is not known
    truncated: bool  # a compared pair was cut
    generation: Generation | None = None  # None where no model wrote or read an answer
    similarity_s: float = 0.0  # seconds between generation and scoring; 0 where the cache had them
    payload: bytes | None = None  # of the entry that it was read from; None where it was computed


def derive(
    plan: Plan,
    subject: Subject,
    generation: Generation | None,
    contexts: Sequence[str],
    similarity: PairTable,
    nli: PairTable | None = None,
    asked: Mapping[str, Array | float | str] = MappingProxyType({}),
) -> Evidence:
    """Every statistic of the plan, or its reason.

    The last three are the replies to the questions: None for a table that was not asked for, and
    statistics of the generator, or reasons for lacking them, by name. Contexts are as in
    `of_similarity`.

    Raises:
        RuntimeError: a planned statistic has neither.
    """
    truncated = similarity.truncated or bool(nli and nli.truncated)
    statistics = token_statistics(subject)
    absent: dict[str, str] = {}
    if subject.answer.no_answer is None:
        statistics |= _compared(plan, subject, contexts, similarity, nli)
        if generation is not None:
            for name, reading in generation.probe_readings.items():
                statistics[name] = reading.value
            absent |= generation.absent
        for name, value in asked.items():
            if isinstance(value, str):
                absent[name] = value
            else:
                statistics[name] = value
    for name in absent.keys() & statistics.keys():
        del absent[name]
    missing = plan.statistics - statistics.keys()
    if missing or plan.strategy == "given":
        absent |= _reasons(plan, subject, missing - absent.keys(), absent)
    if forgotten := missing - absent.keys():
        raise RuntimeError(f"planned and forgotten: {', '.join(sorted(forgotten))}")
    return Evidence(subject, statistics, absent, truncated, generation)


def _compared(
    plan: Plan,
    subject: Subject,
    contexts: Sequence[str],
    similarity: PairTable,
    nli: PairTable | None,
) -> dict[str, Any]:
    """Statistics that are made of texts; none of samples where all were left out."""
    statistics = of_similarity(plan, subject, contexts, similarity)
    if "exact_match" in plan.statistics:
        answer = subject.answer.compared_text
        statistics["exact_match"] = similarity.rules.rules.matches(answer, subject.texts)
    if nli is not None:
        statistics |= of_nli(plan, subject, nli)
    if subject.lacks_samples:
        for name in list(statistics):
            if reads_samples(frozenset({name})):
                del statistics[name]
    return statistics


def _reasons(
    plan: Plan, subject: Subject, missing: frozenset[str], told: Mapping[str, str]
) -> dict[str, str]:
    """Why planned statistics are missing, beside what the generation has `told` of others."""
    if (code := subject.answer.no_answer) is not None:
        return dict.fromkeys(missing, f"{code}: {NO_ANSWER[code]}")
    absent: dict[str, str] = {}
    if plan.strategy == "given":
        reason = "light estimators read hidden states of a greedy answer"
        absent |= dict.fromkeys(supplied_by("probe"), reason)
    for name in missing:
        if name == "reasoning_tokens":
            absent[name] = NO_REASONING
            if subject.answer.reasoning is not None:
                absent[name] = _UNREAD
        elif name in supplied_by("probe") and plan.strategy != "given":
            absent[name] = "the probe's reading is no number in its range"
            if name == SENTENCES_READ:
                absent[name] = "the probe has read no sentence"
        elif name == "sample_token_logprobs" and subject.is_reasoned:
            absent[name] = BEHIND_REASONING
        elif subject.lacks_samples and reads_samples(frozenset({name})):
            absent[name] = ALL_LEFT_OUT
        elif name in supplied_by("answer") and plan.is_chosen:  # y* has what its sample has
            absent[name] = told.get(STATISTICS[name].of_samples or "", LEFT_OUT)
    return absent


def token_statistics(subject: Subject) -> dict[str, Any]:
    """The statistics that the sequences hold as they are; those of samples where all hold them.

    Behind a reasoning, samples are not weighed by probability; of an answer that never came
    nothing is known.
    """
    statistics: dict[str, Any] = {}
    names = _BY_TOKEN
    if subject.lacks_samples:
        names -= supplied_by("samples")
    if subject.answer.no_answer:
        names &= {"sample_texts"}
    elif subject.is_reasoned:
        names -= {"sample_token_logprobs"}
    for name in names:
        row = STATISTICS[name]
        field = row.field or ""
        if row.source == "answer":
            value = getattr(subject.answer, field)
        else:
            value = list(map(attrgetter(field), subject.samples))
            if any(one is None for one in value):
                value = None
        if value is not None:
            statistics[name] = value
    reasoning = subject.answer.reasoning
    if reasoning is not None and reasoning.is_finished and reasoning.num_tokens:
        statistics["reasoning_tokens"] = float(reasoning.num_tokens)
    return statistics


def of_similarity(
    plan: Plan, subject: Subject, contexts: Sequence[str], table: PairTable
) -> dict[str, Any]:
    """Statistics that are computed from scores of the similarity function.

    contexts: the text before each sequence of `read_by_token`.
    """
    wanted, answer = plan.statistics, subject.answer.compared_text
    statistics: dict[str, Any] = {}
    if "similarity" in wanted:
        statistics["similarity"] = table.answer_relation(answer, subject.other_texts, "similarity")
    if "similarity_matrix" in wanted:
        statistics["similarity_matrix"] = table.similarity_matrix(subject.texts)
    relevances = []
    for context, sequence in zip(contexts, read_by_token(plan, subject), strict=True):
        relevances.append(table.token_relevance(context, sequence.token_texts or ()))
    if "token_relevance" in wanted:
        statistics["token_relevance"] = relevances.pop(0)
    if "sample_token_relevance" in wanted:
        statistics["sample_token_relevance"] = relevances
    return statistics


def of_nli(plan: Plan, subject: Subject, table: PairTable) -> dict[str, Any]:
    """Statistics that are computed from scores of the NLI model."""
    answer, statistics = subject.answer.compared_text, dict[str, Any]()
    for name in sorted(plan.statistics & _NLI):
        label, shape = STATISTICS[name].label or "", STATISTICS[name].shape
        if shape == ("M", "M"):
            statistics[name] = table.directed_matrix(subject.texts, label)
        else:
            statistics[name] = table.answer_relation(answer, subject.texts, label)
    return statistics
