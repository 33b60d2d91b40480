"""Ways to mention a thing in a request: by its name, or by what one has to know of a place."""

from collections.abc import Mapping
from dataclasses import dataclass

from cocoa_lab.embedded.topics import definite
from cocoa_lab.embedded.world.knowledge import Fact, Knowledge
from cocoa_lab.embedded.world.pen import Pen
from cocoa_lab.embedded.world.places import Kind

# By what is mentioned: kind of the place that it is known of, attribute, and words for it.
INDIRECT: Mapping[str, tuple[tuple[Kind, str, str], ...]] = {
    "city": (("country", "capital", "the capital of {place}"),),
    "country": (("city", "country", "the country of {place}"),),
    "currency": (
        ("country", "currency", "the currency of {place}"),
        ("city", "currency", "the money of {place}"),
    ),
    "language": (
        ("country", "language", "the language of {place}"),
        ("city", "language", "the language of {place}"),
    ),
}
SHARE_INDIRECT = 0.5


@dataclass(frozen=True, slots=True)
class Mention:
    """Words that stand for a value, and the facts that one has to know to tell it."""

    words: str
    value: str
    facts: tuple[Fact, ...] = ()


def mention(what: str, knowledge: Knowledge, pen: Pen) -> Mention:
    """A mention of a city, country, currency or language; cities and countries also by name."""
    must_be_known = what in ("currency", "language") and pen.chance(0.7)
    while must_be_known or pen.chance(SHARE_INDIRECT):
        kind, attribute, words = pen.choose(INDIRECT[what])
        place = knowledge.draw(pen, kind)
        fact = knowledge.tell(place, attribute, pen)
        if fact is not None:
            return Mention(words.format(place=definite(place.name)), str(fact.value), (fact,))
    if what in ("city", "country"):
        name = knowledge.draw(pen, "city" if what == "city" else "country").name
        return Mention(definite(name), name)
    country = knowledge.draw(pen, "country")
    value = str(country.facts[what])
    return Mention(f"the {value}" if what == "currency" else value, value)
