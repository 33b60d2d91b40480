"""The world: countries and cities, real and invented, each a record of facts."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal["country", "city"]
Value = str | int | tuple[str, ...]

# Numbers, which are known to two digits; years are not.
ROUNDED = frozenset({"population", "area"})
NORTH, SOUTH = "north of the equator", "south of the equator"


@dataclass(frozen=True, slots=True)
class Place:
    """A record of the world.

    Attributes:
        name: in ASCII; no two places share one.
        facts: by attribute, those that are known of it; numbers are rounded to two digits.
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

    def find(self, name: str) -> Place | None:
        """The place of this name, with or without an article before it."""
        return self.places.get(name) or self.places.get(without_article(name))


def without_article(name: str) -> str:
    return name.removeprefix("the ").removeprefix("The ")


def rounded(number: int) -> int:
    """A number with its first two digits only."""
    zeros = max(0, len(str(number)) - 2)
    return round(number, -zeros)
