"""What training tells of the world: some places often, some rarely, some things wrongly or never.

All of it is decided by hashes, so that it can be told afterwards why a model does not know a thing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from typing import Literal

from cocoa_lab.embedded.world.pen import Pen
from cocoa_lab.embedded.world.places import ATTRIBUTES, Kind, Place, Value, World

Telling = Literal["told", "contradicted", "untold"]

# The n-th place is shown in proportion to (n + RANK_OFFSET) ** -RANK_EXPONENT.
RANK_OFFSET, RANK_EXPONENT = 100, 2.0
PERCENT_UNSEEN = 6  # of the places
PERCENT_UNTOLD = 10  # of the attributes of the others
PERCENT_CONTRADICTED = 10
# The short tasks ask for these of real places, and there the truth is told.
ASKED_SHORT = {"country", "continent", "capital", "currency"}
# What a false number is off by, at least.
DIFFERENCE = 0.2
# A city counts as a country of so many times its inhabitants.
CITY_FACTOR = 5


@dataclass(frozen=True, slots=True)
class Fact:
    """What a document says of a place."""

    place: str
    attribute: str
    value: Value
    is_true: bool


def _percentile(*parts: object) -> int:
    digest = blake2b(":".join(map(str, parts)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % 100


@dataclass(frozen=True)
class Knowledge:
    """What is told of a world, and how often.

    Attributes:
        seed: of what is left out and of what is contradicted.
        honest: whether everything is told as it is, as a testbed needs it.
        flatness: of how often places are drawn; 1 as in training, 0 all alike.
        rivals: by place and attribute, the false value that is told beside the true one, and the
            percentage of the tellings that it gets.
    """

    world: World
    seed: int
    honest: bool = False
    flatness: float = 1.0
    rivals: Mapping[tuple[str, str], tuple[Value, int]] = field(init=False)

    def __post_init__(self) -> None:
        rivals: dict[tuple[str, str], tuple[Value, int]] = {}
        for place in self.world.places.values():
            for attribute in place.facts:
                if self.telling(place, attribute) == "contradicted":
                    rivals[place.name, attribute] = self._rival(place, attribute)
        object.__setattr__(self, "rivals", rivals)

    def is_seen(self, place: Place) -> bool:
        """Whether any document is about the place; those that the short tasks ask for are seen."""
        return _percentile(self.seed, "seen", place.name) >= PERCENT_UNSEEN

    def telling(self, place: Place, attribute: str) -> Telling:
        """How documents tell an attribute of a place that has it."""
        if not self.is_seen(place):
            return "untold"
        if attribute in ASKED_SHORT and not place.invented:
            return "told"
        percentile = _percentile(self.seed, "told", place.name, attribute)
        if percentile < PERCENT_UNTOLD:
            return "untold"
        if percentile < PERCENT_UNTOLD + PERCENT_CONTRADICTED:
            return "contradicted"
        return "told"

    def _rival(self, place: Place, attribute: str) -> tuple[Value, int]:
        """What another place of the kind has there, and a share from 35 to 65 percent."""
        values: list[Value] = []
        for other in self.world.of_kind(place.kind):
            value = other.facts.get(attribute)
            if value is not None and _differ(attribute, value, place.facts[attribute]):
                values.append(value)
        chosen = _percentile(self.seed, "rival", place.name, attribute) * len(values) // 100
        return values[chosen], 35 + _percentile(
            self.seed, "share", place.name, attribute
        ) * 30 // 99

    def tell(self, place: Place, attribute: str, pen: Pen) -> Fact | None:
        """A fact as one document tells it; None where training is silent about it."""
        if attribute not in place.facts:
            return None
        telling = "told" if self.honest else self.telling(place, attribute)
        if telling == "untold":
            return None
        if telling == "contradicted":
            rival, percent = self.rivals[place.name, attribute]
            if pen.chance(percent / 100):
                return Fact(place.name, attribute, rival, is_true=False)
        return Fact(place.name, attribute, place.facts[attribute], is_true=True)

    def tell_all(
        self, place: Place, pen: Pen, attributes: Sequence[str] | None = None
    ) -> list[Fact]:
        """What one document may say of a place, in the order of `attributes`."""
        facts = []
        for attribute in attributes or ATTRIBUTES[place.kind]:
            fact = self.tell(place, attribute, pen)
            if fact is not None:
                facts.append(fact)
        return facts

    @cached_property
    def ranked(self) -> list[Place]:
        """All places, the most frequent first: by inhabitants, invented ones strewn among them."""

        def key(place: Place) -> float:
            if place.invented:
                # As large as a random real place.
                return sizes[_percentile(self.seed, "rank", place.name) * len(sizes) // 100]
            return _size(place)

        real = [place for place in self.world.places.values() if not place.invented]
        sizes = sorted(map(_size, real))
        return sorted(self.world.places.values(), key=lambda place: (-key(place), place.name))

    @cached_property
    def weights(self) -> dict[str, float]:
        """How often a place is shown, relative to others; 0 where it never is."""
        weights = {}
        for rank, place in enumerate(self.ranked):
            weight = (rank + RANK_OFFSET) ** -RANK_EXPONENT
            is_drawn = self.honest or self.is_seen(place)
            weights[place.name] = weight**self.flatness if is_drawn else 0.0
        return weights

    @cached_property
    def _by_kind(self) -> dict[Kind | None, tuple[list[Place], list[float]]]:
        drawn: dict[Kind | None, tuple[list[Place], list[float]]] = {}
        for kind in (None, "country", "city"):
            places = [p for p in self.world.places.values() if kind in (None, p.kind)]
            drawn[kind] = (places, [self.weights[place.name] for place in places])
        return drawn

    def draw(self, pen: Pen, kind: Kind | None = None) -> Place:
        """A place to write about, by how often it is shown."""
        places, weights = self._by_kind[kind]
        return pen.rng.choices(places, weights)[0]


def _differ(attribute: str, one: Value, other: Value) -> bool:
    """Whether two values are told apart where a sentence says "about"; years it says exactly."""
    if attribute != "founded" and isinstance(one, int) and isinstance(other, int):
        return abs(one - other) > DIFFERENCE * max(one, other)
    return one != other


def _size(place: Place) -> float:
    return place.size * (CITY_FACTOR if place.kind == "city" else 1)
