"""What can be said in place of an answer.

Other values, values that differ by a hair, and made-up ones.
"""

import random
import string
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from num2words import num2words

from models.embedded.build.topics import Topic, split
from models.embedded.build.translation import LANGUAGES

Part = Literal["train", "test"]

MAX_NUMBER = 99_999


def part_of(value: str) -> Part:
    """Whether training pairs or held-out pairs may use a value (an answer or a subject)."""
    return "train" if split(f"pair:{value.lower()}") == "train" else "test"


@dataclass(frozen=True, slots=True)
class Values:
    """What the wordings of one part of the split are filled with."""

    part: Part
    countries: Sequence[str]
    cities: Sequence[str]
    currencies: Sequence[str]
    continents: Sequence[str]
    names: Sequence[str]  # of countries, languages and currencies in the three foreign languages

    def of(self, kind: str, language: str, rng: random.Random) -> str:
        """A random value that may answer a question of this kind, true or not."""
        if kind in ("sum", "difference", "product"):
            return number_in(self.part, rng)
        if kind in ("number", "number_words"):
            return words_in(self.part, language, rng)
        pools = {
            "city_country": self.countries,
            "city_continent": self.continents,
            "continent": self.continents,
            "currency": self.currencies,
            "capital": self.cities,
        }
        return rng.choice(pools.get(kind) or self.names)


def values_in(part: Part, topics: Sequence[Topic]) -> Values:
    def pool(texts: Sequence[str]) -> list[str]:
        return sorted({text for text in texts if part_of(text) == part})

    def answers(*kinds: str) -> list[str]:
        return pool([topic.answer for topic in topics if topic.kind in kinds])

    return Values(
        part=part,
        countries=answers("city_country"),
        cities=pool([topic.subject for topic in topics if topic.kind == "city_country"]),
        currencies=answers("currency"),
        # Seven continents cannot be parted: both sides use all of them.
        continents=sorted({topic.answer for topic in topics if topic.kind == "continent"}),
        names=answers("country", "language", "currency"),
    )


def _number(rng: random.Random) -> int:
    return rng.randrange(10 ** rng.choice((1, 2, 2, 2, 3, 4, 5)))


def number_in(part: Part, rng: random.Random) -> str:
    while True:
        text = str(_number(rng))
        if part_of(text) == part:
            return text


def words_in(part: Part, language: str, rng: random.Random) -> str:
    return (
        num2words(int(number_in(part, rng)), lang=LANGUAGES[language])
        if language
        else number_in(part, rng)
    )


def near_number(text: str, rng: random.Random) -> str:
    """One digit changed, dropped, added or moved; or one more or less."""
    place = rng.randrange(len(text))
    digit = rng.choice(string.digits)
    candidates = [
        text[:place] + digit + text[place + 1 :],
        text[:place] + digit + text[place:],
        text[:place] + text[place + 1 :],
        text[:place] + text[place : place + 2][::-1] + text[place + 2 :],
        str(int(text) + rng.choice((-10, -1, 1, 10))),
    ]
    fitting = [c.lstrip("0") or "0" for c in candidates if c.lstrip("-").isdigit()]
    return rng.choice([c for c in fitting if c != text] or [str(int(text) + 1)])


def near_spelling(text: str, rng: random.Random) -> str:
    """One letter changed, dropped, added or moved."""
    place = rng.randrange(len(text))
    letter = rng.choice(string.ascii_lowercase)
    candidates = [
        text[:place] + letter + text[place + 1 :],
        text[:place] + letter + text[place:],
        text[:place] + text[place + 1 :],
        text[:place] + text[place : place + 2][::-1] + text[place + 2 :],
    ]
    different = [c for c in candidates if c.strip() and c.lower() != text.lower()]
    return rng.choice(different or [text + letter])


def hybrid(first: str, second: str, rng: random.Random) -> str:
    """The head of one name and the tail of another.

    A language model invents such names where it does not know.
    """
    head = first[: rng.randrange(1, len(first) + 1)]
    tail = second[rng.randrange(len(second)) :]
    return (head + tail).strip()
