"""Who says which sentences of an answer are right, by the name that a line of a file has."""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from cocoa_lab.embedded.world import WORLDS
from cocoa_lab.facts import Known
from models.units.sentences import sentence_spans


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is known of a part.

    Attributes:
        error: kind of error of one that is wrong; None where nobody says.
    """

    is_right: bool
    error: str | None = None


# From an answer and statements of it, in order, to what each of them is; None: not to be said. What
# knows a world reads sentences one after another, and is told all of them.
Judge = Callable[[str, Sequence[str]], Awaitable[Sequence[Verdict | None]]]


def _world(seed: int, line: Mapping[str, Any]) -> Judge:
    """The checker of an embedded model of long answers; `subject` is what the prompt is about.

    What the world does not say is wrong, too, as what nobody can know is.
    """
    # Its data comes from the extra of the atlas.
    from cocoa_lab.embedded.world.building import world_of
    from cocoa_lab.embedded.world.checker import label_sentences

    world = world_of(seed)
    topic = world.find(str(line.get("subject")))
    if topic is None:
        raise ValueError("field 'subject' is no place of the world")

    async def judge(_: str, sentences: Sequence[str]) -> list[Verdict | None]:
        found: list[Verdict | None] = []
        for label in label_sentences(world, list(sentences), topic):
            is_right = label == "true"
            found.append(Verdict(is_right, None if is_right else label))
        return found

    return judge


def _facts(line: Mapping[str, Any]) -> Judge:
    """By rule: a sentence is right that says what is known, where it speaks of it."""
    return of_known(Known.of(line))


# What says that it knows nothing.
_ABSTAINS = re.compile(
    r"(?:\bno\b|\bnot\b|n't\b).{0,40}\b(?:mention|provided|specified|contain|include|state|given|know)"
    r"|\bno information\b|\bun(?:known|clear)\b",
    re.IGNORECASE,
)


def _documents(line: Mapping[str, Any]) -> Judge:
    """By rule: a sentence is right that says what its documents do (`facts`), true or not.

    Else it is of the model's memory, where it is true (`true_facts`), or of nowhere. What says that
    it knows nothing is neither.
    """
    said, true = Known.of(line), Known.of({**line, "facts": line.get("true_facts")})

    async def judge(_: str, sentences: Sequence[str]) -> list[Verdict | None]:
        found: list[Verdict | None] = []
        for sentence in sentences:
            is_said, error = said.verdict(sentence), "nowhere"
            if is_said is None or _ABSTAINS.search(sentence):
                found.append(None)
                continue
            if true.verdict(sentence):
                error = "memory"
            found.append(Verdict(is_said, None if is_said else error))
        return found

    return judge


def of_known(known: Known) -> Judge:
    """That of what is known of a subject."""

    async def judge(_: str, sentences: Sequence[str]) -> list[Verdict | None]:
        found: list[Verdict | None] = []
        for is_right in map(known.verdict, sentences):
            found.append(None if is_right is None else Verdict(is_right))
        return found

    return judge


# From a line of a file to its judge; raises ValueError where the line lacks what the judge reads.
JUDGES: Mapping[str, Callable[[Mapping[str, Any]], Judge]] = {
    "facts": _facts,
    "documents": _documents,
    **{name: partial(_world, seed) for seed, name in enumerate(WORLDS)},
}


def judge_of(line: Mapping[str, Any]) -> Judge | None:
    """The judge that a line names; None where it names none.

    Raises:
        ValueError: there is no such judge, or the line lacks what it reads.
    """
    if "judge" not in line:
        return None
    if line["judge"] not in JUDGES:
        raise ValueError(f"field 'judge' is none of {', '.join(JUDGES)}")
    return JUDGES[line["judge"]](line)


async def share_right(text: str, judge: Judge) -> float:
    """Share of the sentences of a text with a verdict that are right; NaN where none has one."""
    sentences = [text[start:end] for start, end in sentence_spans(text)]
    verdicts = [one.is_right for one in await judge(text, sentences) if one is not None]
    if not verdicts:
        return float("nan")
    return sum(verdicts) / len(verdicts)
