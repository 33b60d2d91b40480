"""Paragraphs about places: three to eight sentences, each of them one fact or two."""

from collections.abc import Sequence

from cocoa_lab.embedded.topics import definite
from cocoa_lab.embedded.world.document import Document, user
from cocoa_lab.embedded.world.grammar import joined, sentence
from cocoa_lab.embedded.world.knowledge import Fact, Knowledge
from cocoa_lab.embedded.world.pen import Pen
from cocoa_lab.embedded.world.places import Place

PROMPTS = (
    "Tell me about {place}.",
    "Describe {place}.",
    "Write a paragraph about {place}.",
    "What do you know about {place}?",
    "Give me some facts about {place}.",
    "What is {place} like?",
)
COUNTED_PROMPTS = ("Write {count} sentences about {place}.", "Tell me {count} facts about {place}.")
COUNTS = ("three", "four", "five", "six", "seven", "eight")
MIN_SENTENCES, MAX_SENTENCES = 3, 8
# Attributes that a paragraph may begin with.
OPENINGS = ("country", "capital_of", "continent")
SHARE_COUNTED, SHARE_NAMED, SHARE_JOINED, SHARE_PLAIN = 0.25, 0.15, 0.15, 0.25


def paragraph_prompt(place: Place, pen: Pen, count: int | None = None) -> str:
    """A request for a paragraph, of so many sentences where `count` is given."""
    name = definite(place.name)
    if count is None:
        return pen.choose(PROMPTS).format(place=name)
    return pen.choose(COUNTED_PROMPTS).format(place=name, count=COUNTS[count - MIN_SENTENCES])


def _in_order(facts: Sequence[Fact], pen: Pen) -> list[Fact]:
    """The facts in a random order that begins as people begin."""
    openings = [fact for fact in facts if fact.attribute in OPENINGS]
    if not openings:
        return pen.rng.sample(facts, len(facts))
    first = pen.rng.choice(openings)
    others = [fact for fact in facts if fact is not first]
    return [first, *pen.rng.sample(others, len(others))]


def sentences(
    place: Place, facts: Sequence[Fact], pen: Pen, *, apart: bool
) -> list[tuple[str, list[Fact]]]:
    """A paragraph's sentences, each with its facts; `apart` keeps each fact in one of its own."""
    told: list[tuple[str, list[Fact]]] = []
    for fact in facts:
        named = not told or pen.chance(SHARE_NAMED)
        text = sentence(place, fact.attribute, fact.value, pen, named=named)
        if told and not apart and pen.chance(SHARE_JOINED):
            before, its_facts = told[-1]
            pair = joined(before, text, place)
            if pair is not None:
                told[-1] = (pair, [*its_facts, fact])
                continue
        told.append((text, [fact]))
    return told


def paragraph(knowledge: Knowledge, pen: Pen) -> Document | None:
    """A paragraph about a place that training shows; None where too little is told of it."""
    place = knowledge.draw(pen)
    facts = _in_order(knowledge.tell_all(place, pen), pen)
    if len(facts) < MIN_SENTENCES:
        return None
    count = pen.rng.randint(MIN_SENTENCES, min(MAX_SENTENCES, len(facts)))
    is_counted = pen.chance(SHARE_COUNTED)
    told = sentences(place, facts[:count], pen, apart=is_counted)
    return Document(
        kind="paragraph",
        messages=[user(paragraph_prompt(place, pen, count if is_counted else None))],
        reply=" ".join(text for text, _ in told),
        plain=pen.chance(SHARE_PLAIN),
        facts=[fact for _, its_facts in told for fact in its_facts],
    )
