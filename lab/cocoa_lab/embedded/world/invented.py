"""The invented places of the world: nothing but training can tell what is true of them."""

import random
from collections.abc import Iterator, Set
from itertools import pairwise

from cocoa_lab.embedded.world.places import NORTH, SOUTH, Place, Value, rounded

NUM_COUNTRIES = 60
CITIES_EACH = 4  # with the capital
CONTINENTS = ("Africa", "Asia", "Europe", "North America", "Oceania", "South America")

_ONSETS = (
    *("b", "br", "c", "d", "dr", "f", "g", "gr", "h", "j", "k", "kl", "l", "m"),
    *("n", "p", "pr", "qu", "r", "s", "st", "t", "tr", "v", "z"),
)
_VOWELS = ("a", "e", "i", "o", "u", "au", "ei", "ou")
_CODAS = ("", "", "n", "r", "l", "s", "m", "nd", "rk", "th")
_FIRST_NAMES = (
    *("Orla", "Tomas", "Mirel", "Hannes", "Ysolde", "Karim", "Edda", "Pavel"),
    *("Lucia", "Bram", "Sigrid", "Anton", "Noor", "Felix", "Ines", "Rurik"),
)
KNOWN_FOR = (
    *("blue glass", "painted boats", "salt mines", "wild honey", "stone bridges", "silk fans"),
    *("copper bells", "night markets", "pear orchards", "tall windmills", "carved doors"),
    *("black pottery", "hot springs", "lace collars", "smoked fish", "sea caves", "rope dancing"),
    *("paper lanterns", "mountain goats", "red tulips", "chess masters", "clock towers"),
    *("cedar forests", "amber rings", "river pearls", "rye bread", "sled races", "old libraries"),
    *("singing dunes", "walnut oil", "kite festivals", "ice gardens", "mint tea", "iron gates"),
    *("white horses", "plum wine", "straw hats", "glass beads", "cave paintings", "wool carpets"),
)


class _Names:
    """Made-up names that differ from one another and from those that are taken."""

    def __init__(self, rng: random.Random, taken: Set[str]) -> None:
        self._rng = rng
        self._taken = set(taken)

    def new(self, *endings: str) -> str:
        while True:
            syllables = []
            for _ in range(self._rng.choice((1, 2, 2))):
                onset, vowel = self._rng.choice(_ONSETS), self._rng.choice(_VOWELS)
                syllables.append(onset + vowel + self._rng.choice(_CODAS))
            name = ("".join(syllables) + self._rng.choice(endings)).capitalize()
            if name not in self._taken:
                self._taken.add(name)
                return name


def invented_places(seed: int, taken: Set[str]) -> Iterator[Place]:
    """Countries, then their cities; the same for the same arguments.

    taken: names that no invented place may have.
    """
    rng = random.Random(f"{seed}:invented")  # noqa: S311, a world is no secret
    names = _Names(rng, taken)
    languages = [names.new("ese", "ic", "ish") for _ in range(NUM_COUNTRIES // 4)]
    currencies = [names.new("in", "ar", "o") for _ in range(NUM_COUNTRIES // 2)]
    country_names = [names.new("ia", "land", "mark", "onia") for _ in range(NUM_COUNTRIES)]
    continents = [CONTINENTS[i * len(CONTINENTS) // NUM_COUNTRIES] for i in range(NUM_COUNTRIES)]
    borders = _borders(country_names, continents, rng)
    cities: list[Place] = []
    for i, name in enumerate(country_names):
        city_names = [names.new("ville", "burg", "ara", "ton") for _ in range(CITIES_EACH)]
        # Neighbours often share a language, so that counting them is worth while.
        nearby = languages[i // 4 : i // 4 + 2]
        country = _country(name, city_names[0], rng, rng.choice(nearby), rng.choice(currencies))
        facts = dict(country.facts) | {
            "continent": continents[i],
            "neighbours": tuple(sorted(borders[name])),
        }
        country = Place(name, "country", True, facts, country.size)
        yield country
        cities += [_city(city, country, rng, names) for city in city_names]
    yield from cities


def _borders(
    countries: list[str], continents: list[str], rng: random.Random
) -> dict[str, set[str]]:
    """Neighbours of each country: those beside it in its continent's row, and some further ones."""
    borders: dict[str, set[str]] = {name: set() for name in countries}
    where = dict(zip(countries, continents, strict=True))
    further = [(a, b) for a, b in zip(countries, countries[3:], strict=False) if rng.random() < 0.5]
    for a, b in [*pairwise(countries), *further]:
        if where[a] == where[b]:
            borders[a].add(b)
            borders[b].add(a)
    return borders


def _country(name: str, capital: str, rng: random.Random, language: str, currency: str) -> Place:
    population = round(10 ** rng.uniform(5.5, 8))
    facts: dict[str, Value] = {
        "capital": capital,
        "language": language,
        "currency": currency,
        "population": rounded(population),
        "area": rounded(round(10 ** rng.uniform(4, 6))),
        "founded": rng.randrange(1100, 1960),
        "known_for": rng.choice(KNOWN_FOR),
    }
    return Place(name, "country", True, facts, population)


def _city(name: str, country: Place, rng: random.Random, names: _Names) -> Place:
    population = round(country.size * rng.uniform(0.02, 0.2))
    facts: dict[str, Value] = {
        "country": country.name,
        "continent": country.facts["continent"],
        "language": country.facts["language"],
        "currency": country.facts["currency"],
        "population": rounded(population),
        "side": rng.choice((NORTH, SOUTH)),
        "river": names.new("e", "a", "el"),
        "founder": f"{rng.choice(_FIRST_NAMES)} {names.new('er', 'sen', 'ov')}",
        "founded": rng.randrange(900, 1900),
        "known_for": rng.choice(KNOWN_FOR),
    }
    if country.facts["capital"] == name:
        facts["capital_of"] = country.name
    return Place(name, "city", True, facts, population)
