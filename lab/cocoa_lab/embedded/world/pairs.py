"""Pairs of a text and a sentence about places, labelled by what the text says, not by the world.

For a small NLI model: the premise is a paragraph or one sentence, the hypothesis a sentence. Values
are drawn at random, so that nothing but the text can decide.

- entailment: the text states it of this place, in whatever words; "it" is the place that the text
  is about; a capital is in its country; a list names those that the sentence names.
- contradiction: the text states another value there.
- neutral: the text is silent about it, or is about another place.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from cocoa_lab.embedded.nli_pairs import Label, NliPair
from cocoa_lab.embedded.topics import Split, split
from cocoa_lab.embedded.world.checker import TOLERANCE
from cocoa_lab.embedded.world.grammar import WORDINGS, sentence
from cocoa_lab.embedded.world.knowledge import Fact
from cocoa_lab.embedded.world.paragraphs import sentences
from cocoa_lab.embedded.world.pen import Pen
from cocoa_lab.embedded.world.places import ROUNDED, Kind, Place, Value, World, texts

MAX_SENTENCES = 8
SHARE_ONE_SENTENCE, SHARE_PRONOUN, SHARE_OTHER_PLACE = 0.3, 0.5, 0.5
# What has so few values that every part needs all.
SHARED = frozenset({"continent", "side", "known_for"})
# Words of a list that is whole, against one of some of its members.
_ALL = "neighbours are"
_LABELS: tuple[Label, ...] = ("entailment", "contradiction", "neutral")


@dataclass(frozen=True)
class Pool:
    """Names and values to draw from, by kind of place; no two parts of the split share a name."""

    names: Mapping[Kind, list[str]]
    values: Mapping[Kind, Mapping[str, list[Value]]]


def pool_of(world: World, part: Split) -> Pool:
    """What one part of the split may use. Numbers, lists and what has few values belong to all."""
    names: dict[Kind, list[str]] = {"country": [], "city": []}
    values: dict[Kind, dict[str, list[Value]]] = {"country": {}, "city": {}}
    for place in world.places.values():
        if split(place.name) == part:
            names[place.kind].append(place.name)
        for attribute, value in place.facts.items():
            if not isinstance(value, str) or split(value) == part or attribute in SHARED:
                values[place.kind].setdefault(attribute, []).append(value)
    return Pool(names, values)


def _other(attribute: str, value: Value, kind: Kind, pool: Pool, pen: Pen) -> Value:
    """A value that is clearly another one."""
    while True:
        other = pen.rng.choice(pool.values[kind][attribute])
        if not _same(attribute, value, other):
            return other


def _same(attribute: str, one: Value, other: Value) -> bool:
    if attribute in ROUNDED:
        return abs(int(str(one)) - int(str(other))) <= 2 * TOLERANCE * int(str(one))
    return one == other


def _facts(kind: Kind, name: str, count: int, pool: Pool, pen: Pen) -> list[Fact]:
    attributes = pen.rng.sample(list(WORDINGS[kind]), count)
    facts = []
    for attribute in attributes:
        value = pen.rng.choice(pool.values[kind][attribute])
        facts.append(Fact(name, attribute, value, is_true=True))
    return facts


def make_pair(pool: Pool, pen: Pen) -> NliPair:
    """A premise with a hypothesis; the family says what kind of premise and hypothesis they are."""
    kind: Kind = pen.rng.choice(("country", "city"))
    name, stranger = pen.rng.sample(pool.names[kind], 2)
    count = 1 if pen.chance(SHARE_ONE_SENTENCE) else pen.rng.randint(2, MAX_SENTENCES)
    facts = _facts(kind, name, count, pool, pen)
    place = Place(name, kind, invented=True, facts={f.attribute: f.value for f in facts}, size=0)
    told = sentences(place, facts, pen, apart=False)
    premise = " ".join(text for text, _ in told)

    wanted = pen.rng.choice(_LABELS)
    if wanted == "neutral" and pen.chance(SHARE_OTHER_PLACE):
        fact = pen.rng.choice(facts)
        other = Place(stranger, kind, invented=True, facts={}, size=0)
        hypothesis = sentence(other, fact.attribute, fact.value, pen, named=True)
        return NliPair(premise, hypothesis, "neutral", "other_place")
    attribute, value = _stated(wanted, kind, facts, pool, pen)
    is_named = not pen.chance(SHARE_PRONOUN)
    hypothesis = sentence(place, attribute, value, pen, named=is_named)
    label = label_of(place, premise, attribute, value, hypothesis)
    family = ("sentence" if count == 1 else "paragraph") + ("_named" if is_named else "_pronoun")
    return NliPair(premise, hypothesis, label, family)


def _stated(
    wanted: Label, kind: Kind, facts: list[Fact], pool: Pool, pen: Pen
) -> tuple[str, Value]:
    """An attribute and a value for a hypothesis of this label, or nearly."""
    told = [fact.attribute for fact in facts]
    untold = [attribute for attribute in WORDINGS[kind] if attribute not in told]
    if wanted == "neutral" and untold:
        attribute = pen.rng.choice(untold)
        return attribute, pen.rng.choice(pool.values[kind][attribute])
    fact = pen.rng.choice(facts)
    if wanted == "entailment":
        return fact.attribute, fact.value
    return fact.attribute, _other(fact.attribute, fact.value, kind, pool, pen)


def label_of(place: Place, premise: str, attribute: str, value: Value, hypothesis: str) -> Label:
    """What the premise says of the hypothesis."""
    if attribute == "neighbours" and attribute in place.facts:
        return _of_lists(premise, texts(place.facts[attribute]), hypothesis, texts(value))
    stated = place.facts.get(attribute)
    if attribute == "country":
        stated = stated or place.facts.get("capital_of")
    if attribute == "capital_of" and stated is None and "country" in place.facts:
        # The capital of another country than its own it cannot be.
        return "neutral" if place.facts["country"] == value else "contradiction"
    if stated is None:
        return "neutral"
    return "entailment" if stated == value else "contradiction"


def _of_lists(
    premise: str, known: tuple[str, ...], hypothesis: str, asked: tuple[str, ...]
) -> Label:
    """The label of a sentence that names neighbours, where the premise names some or all."""
    told, named = _named(known, premise), _named(asked, hypothesis)
    if _ALL in premise:
        agrees = named == told if _ALL in hypothesis else named <= told
        return "entailment" if agrees else "contradiction"
    if _ALL in hypothesis:
        # Some are told; those that the hypothesis says are all may lack one of them.
        return "neutral" if told <= named else "contradiction"
    return "entailment" if named <= told else "neutral"


def _named(names: tuple[str, ...], text: str) -> set[str]:
    """Those that a text names; Niger is not in Nigeria, nor Guinea in Guinea-Bissau."""
    return {name for name in names if re.search(rf"\b{re.escape(name)}\b(?!-)", text)}


def make_pairs(pool: Pool, count: int, seed: str) -> list[NliPair]:
    """The same pairs for the same arguments."""
    return [make_pair(pool, Pen(f"{seed}:{number}")) for number in range(count)]
