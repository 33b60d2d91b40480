"""The sentences in which facts of the world are told: wordings, and values as they are read.

In a wording, {s} stands for the subject ("Lima", "It", "The city"), {p} for its possessive
("Lima's", "Its") and {v} for the value. One with neither speaks of what the text is about.
"""

import re
from collections.abc import Mapping

from cocoa_lab.embedded.world.invented import KNOWN_FOR
from cocoa_lab.embedded.world.places import NORTH, ROUNDED, SOUTH, Kind, Value, without_article

_BOTH = {
    "language": (
        "{p} people speak {v}.",
        "{p} language is {v}.",
        "Most people there speak {v}.",
        "The language spoken there is {v}.",
    ),
    "currency": (
        "{p} currency is the {v}.",
        "People there pay with the {v}.",
        "{s} uses the {v} as its currency.",
    ),
    "population": (
        "{s} has about {v} people.",
        "About {v} people live there.",
        "{p} population is about {v}.",
        "{s} is home to about {v} people.",
    ),
    "founded": ("{s} was founded in {v}.", "{s} dates from {v}.", "{s} has existed since {v}."),
    "known_for": ("{s} is known for its {v}.", "{s} is famous for its {v}."),
}
WORDINGS: Mapping[Kind, Mapping[str, tuple[str, ...]]] = {
    "country": {
        **_BOTH,
        "continent": (
            "{s} is a country in {v}.",
            "{s} is in {v}.",
            "{s} lies in {v}.",
            "{p} continent is {v}.",
        ),
        "capital": (
            "{p} capital is {v}.",
            "The capital is {v}.",
            "{s} is governed from {v}.",
            "{s} has its capital in {v}.",
        ),
        "neighbours": (
            "{s} borders {v}.",
            "{p} neighbours are {v}.",
            "{s} shares a border with {v}.",
        ),
        "area": (
            "{s} covers about {v} square kilometres.",
            "{p} area is about {v} square kilometres.",
            "{s} has an area of about {v} square kilometres.",
        ),
    },
    "city": {
        **_BOTH,
        "country": (
            "{s} is a city in {v}.",
            "{s} is in {v}.",
            "{s} lies in {v}.",
            "{s} belongs to {v}.",
            "{p} country is {v}.",
        ),
        "continent": ("{s} is in {v}.", "{s} lies in {v}.", "{p} continent is {v}."),
        "capital_of": ("{s} is the capital of {v}.", "{s} is the seat of government of {v}."),
        "near": (
            "{s} lies near {v}.",
            "The nearest large city is {v}.",
            "{s} is not far from {v}.",
        ),
        "side": ("{s} lies {v}.", "{s} is {v}."),
        "river": (
            "{s} lies on the {v}.",
            "{p} river is the {v}.",
            "{s} stands on the banks of the {v}.",
        ),
        "founder": (
            "{s} was founded by {v}.",
            "{p} founder was {v}.",
            "{s} owes its start to {v}.",
        ),
    },
}
# Wordings that may name some members of a list, not all.
PARTIAL = ("{s} borders {v}.", "{s} shares a border with {v}.")
NOUNS: Mapping[Kind, str] = {"country": "The country", "city": "The city"}
_CHOICES: Mapping[str, tuple[str, ...]] = {"side": (NORTH, SOUTH), "known_for": KNOWN_FOR}
_UNITS = {"million": 1_000_000, "thousand": 1000}
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)(?: (million|thousand))?")


def read(attribute: str, text: str) -> Value | None:
    """The value that a text of a sentence states, or None where it is none of the attribute's."""
    if attribute in ROUNDED:
        match = _NUMBER.fullmatch(text)
        return None if match is None else round(float(match[1]) * _UNITS.get(match[2], 1))
    if attribute == "founded":
        return int(text) if text.isdecimal() else None
    if attribute in _CHOICES:
        return text if text in _CHOICES[attribute] else None
    name = without_article(text)
    if attribute == "neighbours":
        *first, last = text.split(" and ")
        names = [*(first[0].split(", ") if first else []), last]
        stated = tuple(map(without_article, names))
        return stated if all(map(_is_name, stated)) and len(first) < 2 else None
    return name if _is_name(name) else None


def _is_name(text: str) -> bool:
    return text[:1].isupper() and " and " not in text
