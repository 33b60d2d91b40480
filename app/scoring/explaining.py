"""Pure: the samples in groups by meaning, and a sentence on the groups and one on parts."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.scoring.derive import Evidence
from app.scoring.questions import Subject
from app.scoring.units import ScoredUnits
from models.estimators.cocoa import distinct_rows
from models.estimators.semantic import classes_of
from models.ranges import Described
from models.records import Array
from models.records import Sequence as TokenSequence

# Two texts mean the same where the similarity function is rather for it than against it.
SAME = 0.5
_MAX_NAMED = 3
_MAX_CHARACTERS = 60


@dataclass(frozen=True, slots=True)
class SampleGroup(Described):
    """Samples that mean the same."""

    text: str
    """the answer, or the group's first sample"""
    is_answer: bool
    """whether they mean the same as the answer"""
    count: int
    """samples in it, ≥ 0"""
    share: float
    """of all samples, 0 to 1"""
    mass: float | None
    """probability of its distinct texts, 0 to 1; null where not known"""
    similarity: float
    """mean similarity to the answer, 0 to 1"""


def groups_of(evidence: Evidence) -> list[SampleGroup] | None:
    """The groups, that of the answer first, then by their number of samples.

    None where it is not known how similar the samples are.
    """
    subject, statistics = evidence.subject, evidence.statistics
    if not {"similarity", "similarity_matrix"} <= statistics.keys() or not subject.samples:
        return None
    to_answer = _to_answer(subject, statistics["similarity"])
    same, apart = np.flatnonzero(to_answer >= SAME), np.flatnonzero(to_answer < SAME)
    is_alike = statistics["similarity_matrix"][np.ix_(apart, apart)] >= SAME
    others = [apart[members] for members in classes_of(is_alike)]
    others.sort(key=len, reverse=True)  # stable: of equally many the earlier sample's first
    return [_group(subject, to_answer, rows) for rows in (same, *others)]


def support_of(evidence: Evidence) -> float | None:
    """Share of the samples beside the answer that mean the same as it, in [0, 1].

    None where nothing compared them.
    """
    subject, similarity = evidence.subject, evidence.statistics.get("similarity")
    if similarity is None or not len(similarity):
        return None
    are_there = [sample.no_answer is None for sample in subject.samples]
    if subject.answer_sample is not None:
        del are_there[subject.answer_sample]
    return float(np.mean((similarity >= SAME) & are_there & (subject.answer.no_answer is None)))


def sentence(groups: Sequence[SampleGroup]) -> str:
    """One sentence: so many samples mean what the answer says, and the others this.

    >>> one = SampleGroup("India", True, 3, 0.3, None, 0.9)
    >>> other = SampleGroup("Mexico", False, 7, 0.7, None, 0.1)
    >>> sentence([one, other])
    '3 of 10 samples mean the same as the answer; the others say "Mexico" (7).'
    """
    same, *others = groups
    total = sum(group.count for group in groups)
    if not others:
        return f"All {total} samples mean the same as the answer."
    agree, who = f"{same.count} of {total} samples mean", "the others"
    if same.count == 1:
        agree = f"1 of {total} samples means"
    elif same.count == 0:
        agree, who = "No sample means", "the samples"
    meanings = ", ".join(f'"{short(group.text)}" ({group.count})' for group in others[:_MAX_NAMED])
    if len(others) > _MAX_NAMED:
        meanings += f", and {len(others) - _MAX_NAMED} more"
    return f"{agree} the same as the answer; {who} say {meanings}."


def _to_answer(subject: Subject, similarity: Array) -> Array:
    """Similarity (M,) of each sample to the answer; 1 for the one that is the answer.

    Where there is no answer behind a reasoning nothing means it: 0.
    """
    if subject.answer_sample is not None:
        similarity = np.insert(similarity, subject.answer_sample, 1.0)
    if subject.answer.no_answer:
        return np.zeros(len(similarity))
    unfinished = [sample.no_answer is not None for sample in subject.samples]
    return np.where(unfinished, 0.0, similarity)


def _group(subject: Subject, to_answer: Array, rows: NDArray[np.intp]) -> SampleGroup:
    members = [subject.samples[i] for i in rows]
    is_answer = not len(rows) or bool(to_answer[rows[0]] >= SAME)
    if is_answer and subject.answer_sample is None:
        members.insert(0, subject.answer)
    first, similarity, mass = members[0], 1.0, None
    if not subject.is_reasoned:  # else each has its probability behind a reasoning of its own
        mass = _mass(members)
    if is_answer:
        first = subject.answer
    if len(rows):
        similarity = float(np.mean(to_answer[rows]))
    return SampleGroup(
        text=first.compared_text,
        is_answer=is_answer,
        count=len(rows),
        share=len(rows) / len(subject.samples),
        mass=mass,
        similarity=similarity,
    )


def _mass(members: Sequence[TokenSequence]) -> float | None:
    """Probability of the distinct rows of tokens together; None where one is not known."""
    texts, rows, mass = [], [], 0.0
    for one in members:
        if one.token_logprobs is None or not one.num_tokens:
            return None
        texts.append(one.compared_text)
        rows.append(one.token_logprobs)
    for i in distinct_rows(texts, rows, np.zeros(len(rows))):
        mass += float(np.exp(rows[i].sum()))
    return min(1.0, mass)


def short(text: str) -> str:
    if not text:
        return "(nothing)"
    one_line = " ".join(text.split())
    if len(one_line) <= _MAX_CHARACTERS:
        return one_line
    return f"{one_line[:_MAX_CHARACTERS]}…"


def shaky_units(units: ScoredUnits) -> str:
    """One sentence: so many sentences or claims lack support, and the least supported ones."""
    shaky: list[tuple[float, str]] = []
    num_compared, kind = 0, "sentence"
    for unit in (scored.unit for scored in units.units[1:]):
        kind, mean = unit.kind, unit.support
        if mean is None or unit.supports is None:
            continue
        num_compared += 1
        if mean < SAME:
            num_samples = len(unit.supports)
            denied = f"support {mean:.2f}"
            if unit.contradictions is not None:
                denied = f"denied by {len(unit.denied_by())} of {num_samples} samples"
            for instead, share in list(unit.alternatives.items())[:1]:
                denied += f': "{short(instead or "")}" ({round(share * num_samples)})'
            shaky.append((mean, f'"{short(unit.text)}" ({denied})'))
    if not num_compared:
        return f"No {kind} is compared with samples."
    if not shaky:
        return f"The samples support each {kind}."
    shaky.sort(key=lambda one: one[0])
    named = ", ".join(text for _, text in shaky[:_MAX_NAMED])
    if len(shaky) > _MAX_NAMED:
        named += f", and {len(shaky) - _MAX_NAMED} more"
    return f"Shaky: {len(shaky)} of {num_compared} {kind}s, {named}."
