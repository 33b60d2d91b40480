"""Whether a sentence about the world is true, by rule.

A sentence is read by the wordings of `grammar.py`. It is false where what it says of a place that
the world knows is not so, and unverifiable where no wording fits, where it speaks of a place that
the world does not hold, or where the world does not say.
"""

import re
from dataclasses import dataclass
from functools import cache
from typing import Literal

from cocoa_lab.embedded.world.grammar import NOUNS, PARTIAL, WORDINGS, read
from cocoa_lab.embedded.world.places import Kind, Place, Value, World

Label = Literal["true", "false", "unverifiable"]

# What a number may be off by, since sentences say "about".
TOLERANCE = 0.1
_SUBJECT = r"(?P<s>[A-Z][\w' -]*?)"
_POSSESSIVE = r"(?P<p>[A-Z][\w' -]*?)"


@dataclass(frozen=True, slots=True)
class _Reading:
    """A wording that fits a sentence; `subject` is None where it names none."""

    kind: Kind
    attribute: str
    wording: str
    subject: str | None
    value: str


@cache
def _patterns() -> list[tuple[Kind, str, str, re.Pattern[str]]]:
    patterns = []
    for kind, by_attribute in WORDINGS.items():
        for attribute, wordings in by_attribute.items():
            for wording in wordings:
                filled = re.escape(wording)
                for gap, group in (("s", _SUBJECT), ("p", _POSSESSIVE), ("v", "(?P<v>.+)")):
                    filled = filled.replace(rf"\{{{gap}\}}", group)
                patterns.append((kind, attribute, wording, re.compile(filled)))
    return patterns


def _readings(sentence: str) -> list[_Reading]:
    readings = []
    for kind, attribute, wording, pattern in _patterns():
        match = pattern.fullmatch(sentence)
        if match is None:
            continue
        groups = match.groupdict()
        subject = groups.get("s") or _owner(groups.get("p"))
        readings.append(_Reading(kind, attribute, wording, subject, groups["v"]))
    return readings


def _owner(possessive: str | None) -> str | None:
    """Without its ending, as in "The Bahamas'" and "Lima's"; of "Its", "It"."""
    if possessive is None:
        return None
    return "It" if possessive == "Its" else possessive.removesuffix("'s").removesuffix("'")


def _place(world: World, subject: str | None, topic: Place | None) -> Place | None:
    """Who is spoken of: the topic, for a pronoun, or the place of that name."""
    if subject is None or subject == "It":
        return topic
    for kind, noun in NOUNS.items():
        if subject == noun:
            return topic if topic is not None and topic.kind == kind else None
    return world.find(subject)


def _agrees(reading: _Reading, stated: Value, truth: Value) -> bool:
    if isinstance(truth, tuple) and isinstance(stated, tuple):
        told = set(stated)
        return told <= set(truth) if reading.wording in PARTIAL else told == set(truth)
    if isinstance(truth, int) and isinstance(stated, int):
        allowed = 0 if reading.attribute == "founded" else TOLERANCE * truth
        return abs(stated - truth) <= allowed
    return str(stated).casefold() == str(truth).casefold()


def _label(reading: _Reading, place: Place) -> Label:
    stated = read(reading.attribute, reading.value)
    if stated is None:
        return "unverifiable"
    if reading.kind != place.kind:
        # A country has no river, and a city no neighbours. What both may have, the other reading
        # of the same wording decides.
        is_common = reading.wording in WORDINGS[place.kind].get(reading.attribute, ())
        return "unverifiable" if is_common else "false"
    truth = place.facts.get(reading.attribute)
    if truth is None:
        # What is missing of a real place is not known; of capitals, everything is.
        return "false" if reading.attribute == "capital_of" else "unverifiable"
    return "true" if _agrees(reading, stated, truth) else "false"


def _label_one(world: World, sentence: str, topic: Place | None) -> tuple[Label, Place | None]:
    """The label of a sentence that is no pair, and the place that it speaks of."""
    best: Label = "unverifiable"
    spoken_of = topic
    for reading in _readings(sentence):
        place = _place(world, reading.subject, topic)
        if place is None:
            continue
        label = _label(reading, place)
        if label == "true":
            return "true", place
        if label == "false":
            best, spoken_of = "false", place
    return best, spoken_of


def label_sentence(world: World, sentence: str, topic: Place | None) -> tuple[Label, Place | None]:
    """The label, and the place that "it" means from here on.

    topic: what the text speaks of before this sentence.
    """
    sentence = sentence.strip()
    whole, place = _label_one(world, sentence, topic)
    if whole != "unverifiable" or " and " not in sentence:
        return whole, place
    first, _, rest = sentence.rpartition(" and ")
    one, place = _label_one(world, f"{first}.", topic)
    other, _ = _label_one(world, f"It {rest}", place)
    if "unverifiable" in (one, other):
        return "unverifiable", place
    return ("true" if one == other == "true" else "false"), place


def label_sentences(world: World, sentences: list[str], topic: Place | None) -> list[Label]:
    """A label for each sentence of a text that was asked for about `topic`."""
    labels = []
    for sentence in sentences:
        label, topic = label_sentence(world, sentence, topic)
        labels.append(label)
    return labels
