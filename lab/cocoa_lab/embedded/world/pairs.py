"""Pairs of a text and a sentence about places, labelled by what the text says, not by the world.

For a small NLI model: the premise is a paragraph or one sentence, the hypothesis a sentence, as the
paragraphs of the world are written. Values are drawn at random, so that nothing but the text can
decide.

- entailment: the text states it of this place, in whatever words; "it" is the place that the text
  is about; a capital is in its country; a list names those that the sentence names; a number is
  within `TOLERANCE` of the one told, since both say "about".
- contradiction: the text states another value there, of one fact of the sentence at least.
- neutral: the text is silent about one fact of the sentence, or is about another place.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cocoa_lab.embedded.near_misses import hybrid, near_spelling
from cocoa_lab.embedded.nli_pairs import Label, NliPair
from cocoa_lab.embedded.topics import Split, split
from cocoa_lab.embedded.world.checker import TOLERANCE
from cocoa_lab.embedded.world.grammar import WORDINGS, joined, sentence
from cocoa_lab.embedded.world.knowledge import Fact
from cocoa_lab.embedded.world.paragraphs import sentences
from cocoa_lab.embedded.world.pen import Pen
from cocoa_lab.embedded.world.places import ROUNDED, Kind, Place, Value, World, rounded, texts

MAX_SENTENCES = 8
SHARE_ONE_SENTENCE, SHARE_PRONOUN, SHARE_OTHER_PLACE = 0.25, 0.5, 0.4
# Of the short premises, those that speak of another place as well.
SHARE_TWO_PLACES = 0.2
# Of the hypotheses, those that tell two facts, where the wordings can be joined.
SHARE_JOINED = 0.3
# Of the names, those that are made up of two others.
SHARE_MADE_UP = 0.3
# Of the other values, those that the text tells elsewhere, and those that are nearly the same.
SHARE_TOLD_ELSEWHERE, SHARE_NEAR = 0.15, 0.3
# What has so few values that every part needs all.
SHARED = frozenset({"continent", "side", "known_for"})
# Whose values are names, which can be misspelt.
NAMES = frozenset(
    {"capital", "language", "currency", "country", "capital_of", "near", "river", "founder"}
)
# Words of a list that is whole, against one of some of its members.
_ALL = "neighbours are"
_LABELS: tuple[Label, ...] = ("entailment", "contradiction", "neutral")


@dataclass(frozen=True)
class Pool:
    """Names and values to draw from, by kind of place; no two parts of the split share a name."""

    names: Mapping[Kind, list[str]]
    values: Mapping[Kind, Mapping[str, list[Value]]]


def pool_of(worlds: Sequence[World], part: Split) -> Pool:
    """What one part of the split may use. Numbers, lists and what has few values belong to all."""
    names: dict[Kind, list[str]] = {"country": [], "city": []}
    values: dict[Kind, dict[str, list[Value]]] = {"country": {}, "city": {}}
    for place in (place for world in worlds for place in world.places.values()):
        if split(place.name) == part:
            names[place.kind].append(place.name)
        for attribute, value in place.facts.items():
            if not isinstance(value, str) or split(value) == part or attribute in SHARED:
                values[place.kind].setdefault(attribute, []).append(value)
    return Pool(names, values)


def _name(kind: Kind, pool: Pool, pen: Pen) -> str:
    first, second = pen.rng.choice(pool.names[kind]), pen.rng.choice(pool.names[kind])
    return _made_up(first, second, pen) if pen.chance(SHARE_MADE_UP) else first


def _made_up(first: str, second: str, pen: Pen) -> str:
    """A name like two others; those that would not be read as one name are not used."""
    name = hybrid(first, second, pen.rng)
    return name if re.fullmatch(r"[A-Z][\w' -]{2,24}\w", name) else first


def _value(attribute: str, kind: Kind, pool: Pool, pen: Pen) -> Value:
    known = pool.values[kind][attribute]
    value = pen.rng.choice(known)
    if attribute in NAMES and pen.chance(SHARE_MADE_UP):
        return _made_up(str(value), str(pen.rng.choice(known)), pen)
    return value


def _facts(kind: Kind, name: str, count: int, pool: Pool, pen: Pen) -> list[Fact]:
    attributes = pen.rng.sample(list(WORDINGS[kind]), count)
    return [Fact(name, a, _value(a, kind, pool, pen), is_true=True) for a in attributes]


def _agrees(attribute: str, told: Value, stated: Value) -> bool:
    if attribute in ROUNDED:
        return abs(int(str(told)) - int(str(stated))) <= TOLERANCE * int(str(told))
    return told == stated


def _is_clear(attribute: str, told: Value, stated: Value) -> bool:
    """Whether a value is another one, and not one that only just is."""
    if attribute in ROUNDED:
        one, other = int(str(told)), int(str(stated))
        return abs(one - other) > 2 * TOLERANCE * max(one, other)
    return told != stated


def _again(attribute: str, value: Value, pen: Pen) -> Value:
    """The value as another text may tell it: a number within what "about" allows."""
    if attribute in ROUNDED and pen.chance(0.5):
        other = rounded(round(int(str(value)) * pen.rng.uniform(0.91, 1.09)))
        if _agrees(attribute, value, other):
            return other
    return value


def _near(attribute: str, value: Value, pen: Pen) -> Value:
    """A value that looks like this one, and is another."""
    if attribute in ROUNDED:
        factor = pen.rng.choice((0.001, 0.1, 0.5, 0.65, 0.75, 1.3, 1.5, 2, 10, 1000))
        return max(1, rounded(round(int(str(value)) * factor)))
    if attribute == "founded":
        return int(str(value)) + pen.rng.choice((-100, -40, -10, -3, -1, 1, 2, 7, 10, 100))
    if attribute in NAMES:
        return near_spelling(str(value), pen.rng)
    return value


def _other(fact: Fact, told: Sequence[Fact], kind: Kind, pool: Pool, pen: Pen) -> Value:
    """A value that is clearly another one than a fact's; at times one that is told elsewhere."""
    while True:
        other = _elsewhere(fact.attribute, told, pen)
        if other is None and pen.chance(SHARE_NEAR):
            other = _near(fact.attribute, fact.value, pen)
        if other is None:
            other = _value(fact.attribute, kind, pool, pen)
        if _is_clear(fact.attribute, fact.value, other):
            return other


def _elsewhere(attribute: str, told: Sequence[Fact], pen: Pen) -> Value | None:
    """A value of the same sort that the text tells of something else, or, mostly, None."""
    values = [one.value for one in told if {one.attribute, attribute} <= NAMES]
    if attribute not in NAMES:
        values = [one.value for one in told if one.attribute == attribute]
    return pen.rng.choice(values) if values and pen.chance(SHARE_TOLD_ELSEWHERE) else None


def _told_of(name: str, kind: Kind, facts: Sequence[Fact]) -> Place:
    return Place(name, kind, invented=True, facts={f.attribute: f.value for f in facts}, size=0)


def _text(place: Place, facts: Sequence[Fact], pen: Pen) -> str:
    return " ".join(text for text, _ in sentences(place, facts, pen, apart=False))


def make_pair(pool: Pool, pen: Pen) -> NliPair:
    """A premise with a hypothesis; the family says what kind of premise and hypothesis they are."""
    kind: Kind = pen.rng.choice(("country", "city"))
    name, stranger = _name(kind, pool, pen), _name(kind, pool, pen)
    if name == stranger or pen.chance(SHARE_NEAR):
        stranger = near_spelling(name, pen.rng)
    count = 1 if pen.chance(SHARE_ONE_SENTENCE) else pen.rng.randint(2, MAX_SENTENCES)
    facts = _facts(kind, name, count, pool, pen)
    place, other = _told_of(name, kind, facts), _told_of(stranger, kind, ())
    text = _text(place, facts, pen)
    wanted = pen.rng.choice(_LABELS)
    if wanted == "neutral" and pen.chance(SHARE_OTHER_PLACE):
        fact = pen.rng.choice(facts)
        hypothesis = sentence(other, fact.attribute, fact.value, pen, named=True)
        return NliPair(text, hypothesis, "neutral", "other_place")

    has_two = count <= MAX_SENTENCES // 2 and pen.chance(SHARE_TWO_PLACES)
    is_named = has_two or not pen.chance(SHARE_PRONOUN)
    told: list[Fact] = []
    if has_two:
        told = _facts(kind, stranger, pen.rng.randint(1, MAX_SENTENCES // 2), pool, pen)

    def stated(label: Label, *, named: bool) -> tuple[str, Label]:
        attribute, value = _stated(label, place, facts, [*facts, *told], pool, pen)
        statement = sentence(place, attribute, value, pen, named=named)
        return statement, label_of(place, text, attribute, value, statement)

    hypothesis, label = stated(wanted, named=is_named)
    family = "named" if is_named else "pronoun"
    if pen.chance(SHARE_JOINED):
        # The other fact must not outweigh the one that has the label that is wanted.
        second, its_label = stated(pen.rng.choice(("entailment", wanted)), named=False)
        both = joined(hypothesis, second, place)
        if both is not None and second != hypothesis:
            hypothesis, label, family = both, of_both(label, its_label), "joined"
    if has_two:
        parts = [text, _text(other, told, pen)]
        pen.rng.shuffle(parts)
        return NliPair(" ".join(parts), hypothesis, label, "two_places")
    premise_kind = "sentence" if count == 1 else "paragraph"
    return NliPair(text, hypothesis, label, f"{premise_kind}_{family}")


def of_both(first: Label, second: Label) -> Label:
    """The label of two facts in one sentence."""
    if "contradiction" in (first, second):
        return "contradiction"
    return "entailment" if first == second == "entailment" else "neutral"


def _stated(
    wanted: Label,
    place: Place,
    facts: Sequence[Fact],
    told: Sequence[Fact],
    pool: Pool,
    pen: Pen,
) -> tuple[str, Value]:
    """An attribute and a value for a hypothesis of this label, or nearly.

    facts: what the text tells of the place. told: what it tells of any place.
    """
    untold = [attribute for attribute in WORDINGS[place.kind] if attribute not in place.facts]
    if wanted == "neutral" and untold:
        attribute = pen.rng.choice(untold)
        value = _elsewhere(attribute, told, pen)
        return attribute, _value(attribute, place.kind, pool, pen) if value is None else value
    fact = pen.rng.choice(facts)
    if wanted == "entailment":
        return fact.attribute, _again(fact.attribute, fact.value, pen)
    return fact.attribute, _other(fact, told, place.kind, pool, pen)


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
    return "entailment" if _agrees(attribute, stated, value) else "contradiction"


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
    pens = (Pen(f"{seed}:{number}", backwards=number % 2 == 1) for number in range(count))
    return [make_pair(pool, pen) for pen in pens]
