"""Values in place of an answer: others of its kind, ones that differ slightly, invented names."""

import random
import string
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from num2words import num2words

from cocoa_lab.embedded.topics import Topic, split
from cocoa_lab.embedded.translation import LANGUAGES

Part = Literal["train", "test"]


def part_of(value: str) -> Part:
    """Whether training pairs or held-out pairs may use a value (an answer or a subject)."""
    return "train" if split(f"pair:{value.lower()}") == "train" else "test"


@dataclass(frozen=True, slots=True)
class Values:
    """The values that fill the wordings in one part of the split."""

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
        # Seven continents are too few to split: both parts use all of them.
        continents=sorted({topic.answer for topic in topics if topic.kind == "continent"}),
        names=answers("country", "language", "currency"),
    )


def _number(rng: random.Random) -> int:
    """A number below 100,000, most often one below 100."""
    return rng.randrange(10 ** rng.choice((1, 2, 2, 2, 3, 4, 5)))


def number_in(part: Part, rng: random.Random) -> str:
    while True:
        text = str(_number(rng))
        if part_of(text) == part:
            return text


def words_in(part: Part, language: str, rng: random.Random) -> str:
    """A number in words of `language`, in digits where that is empty."""
    number = number_in(part, rng)
    return num2words(int(number), lang=LANGUAGES[language]) if language else number


def near_number(text: str, rng: random.Random) -> str:
    """Another number: one digit changed, added, dropped or swapped, or 1 or 10 more or less."""
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
    """Another text: one letter changed, added, dropped or swapped with the next."""
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
    """The head of one name and the tail of another, as a language model invents names."""
    head = first[: rng.randrange(1, len(first) + 1)]
    tail = second[rng.randrange(len(second)) :]
    return (head + tail).strip()
