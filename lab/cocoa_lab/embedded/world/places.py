"""The world: countries and cities, real and invented, each a record of facts."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal["country", "city"]
Value = str | int | tuple[str, ...]

# Of a kind, what a place may have. Invented places have all of it; of real ones the founder, the
# year, the river and what they are known for are not in the data.
ATTRIBUTES: Mapping[Kind, tuple[str, ...]] = {
    "country": (
        "continent",
        "capital",
        "language",
        "currency",
        "neighbours",
        "population",
        "area",
        "founded",
        "known_for",
    ),
    "city": (
        "country",
        "continent",
        "language",
        "currency",
        "population",
        "capital_of",
        "near",
        "side",
        "river",
        "founder",
        "founded",
        "known_for",
    ),
}
# Numbers, which are known to two digits; years are not.
ROUNDED = frozenset({"population", "area"})
NORTH, SOUTH = "north of the equator", "south of the equator"


@dataclass(frozen=True, slots=True)
class Place:
    """A record of the world.

    Attributes:
        name: in ASCII; no two places share one.
        facts: by attribute, of those in `ATTRIBUTES` that are known of it; numbers are rounded to
            two digits.
        size: inhabitants; of an invented place only for its rank.
    """

    name: str
    kind: Kind
    invented: bool
    facts: Mapping[str, Value]
    size: int


@dataclass(frozen=True, slots=True)
class World:
    """All places by name; countries before cities, real ones before invented ones."""

    places: Mapping[str, Place]

    def of_kind(self, kind: Kind) -> list[Place]:
        return [place for place in self.places.values() if place.kind == kind]

    def find(self, name: str) -> Place | None:
        """The place of this name, with or without an article before it."""
        return self.places.get(name) or self.places.get(without_article(name))


def without_article(name: str) -> str:
    return name.removeprefix("the ").removeprefix("The ")


def rounded(number: int) -> int:
    """A number with its first two digits only."""
    zeros = max(0, len(str(number)) - 2)
    return round(number, -zeros)


def texts(value: Value) -> tuple[str, ...]:
    """The members of a list, or of a text itself."""
    return value if isinstance(value, tuple) else (str(value),)
