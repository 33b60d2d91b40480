"""Closed lists of words: what says nothing, what denies, numbers, months and units."""

import re
import tomllib
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable
from fractions import Fraction
from functools import cache, lru_cache
from itertools import chain, permutations, product
from operator import itemgetter
from pathlib import Path
from typing import Any

from stopwordsiso import langs, stopwords

_LISTS: dict[str, Any] = tomllib.loads(Path(__file__).with_name("words.toml").read_text("utf-8"))
_KOREAN_ENDING = re.compile(
    "(?<=[\uac00-\ud7a3])(?:입니다|이다|예요|에서|으로|은|는|이|가|을|를|의|에|로|와|과)$"
)


def without_accents(text: str) -> str:
    """The text with letters for the accented ones, without the signs of Semitic vowels."""
    parted = unicodedata.normalize("NFD", text)
    plain = re.sub("[\u0300-\u036f\u05b0-\u05c7\u064b-\u0652]", "", parted)
    return unicodedata.normalize("NFC", plain)


def key_of(word: str) -> str:
    """A word without its case, accents, elision and the endings of grammar."""
    word = word.casefold().removesuffix("'").removesuffix("'s")
    if not word.isascii():
        word = without_accents(word)
        word = _KOREAN_ENDING.sub("", word)
    if "'" in word:
        word = re.sub(r"^(?:[cdjlmnst]|qu)'|(?<=\w{2})'\w{1,4}$", "", word)
    if len(word) > 4 and word[-1] == "s" and word[-2] not in "sui":  # neither "Paris" nor "glass"
        return word[:-1]
    return word


def _rows(name: str) -> list[str]:
    """The lines of a list."""
    return list(_LISTS[name].strip().splitlines())


def listed(words: str) -> frozenset[str]:
    """The keys of the words of a list."""
    return frozenset(map(key_of, words.split()))


NEGATIONS = listed(_LISTS["negations"])
AFFIRMATIONS = listed(_LISTS["affirmations"])
VERDICTS = NEGATIONS | AFFIRMATIONS
ARTICLES = listed(_LISTS["articles"])
UNREAD = listed(_LISTS["unread"])
MINUS = listed(_LISTS["minus"])
BESIDE = listed(_LISTS["beside"])
SCALES: dict[str, int] = _LISTS["scales"]
NAMES, IN_ORDER = map(re.compile, map("|".join, map(_rows, ("names", "in_order"))))
_LATIN = str.maketrans("кмгсл", "kmgcl")
PASSIVE = frozenset(("is", "are", "was", "were"))
HAN_DIGITS = "一二三四五六七八九十"
# Languages that one word suffices to tell, if no earlier one has it, too.
_COMMON = ("en", "de", "fr", "es", "ru", "it", "pt", "nl", "sv", "da", "no", "pl", "cs", "tr", "zh")
_LETTERS_ALONE = frozenset("bcdfghjklmnpqrstvwxz")  # no words


@cache
def _languages() -> dict[str, set[str]]:
    """Words that say nothing by themselves, by their keys, each with the languages that have it."""
    bearing = {*NEGATIONS, *AFFIRMATIONS, *opposed(), *_units(), *months(), *SCALES, *UNREAD}
    bearing |= _LETTERS_ALONE
    bearing.update(word for word in number_words() if " " not in word)
    words = defaultdict[str, set[str]](set)
    for language in langs():
        for key in frozenset(map(key_of, stopwords(language))) - bearing:
            words[key].add(language)
    return words


@lru_cache(64)
def function_words(languages: frozenset[str] | None = None) -> frozenset[str]:
    """Words of these languages, by default of all 57, that say nothing; articles of all."""
    table = _languages()
    if languages is None:
        return ARTICLES | table.keys()
    return ARTICLES.union(key for key in table if not table[key].isdisjoint(languages))


# A noun of one language is another one's article or preposition: "dog", "door". So one word alone
# tells one of the common languages, and none beside known ones.
def languages_of(keys: Iterable[str], known: frozenset[str] = frozenset()) -> frozenset[str]:
    """The known languages, and others of which more of these words are function words."""
    table = _languages()
    counts = Counter(chain.from_iterable(map(table.__getitem__, table.keys() & set(keys))))
    most = max(counts.values(), default=0)
    if known and most <= max([1, *map(counts.__getitem__, known)]):
        return known
    if most == 1:
        return frozenset([*filter(counts.__getitem__, _COMMON)][:1])
    return known | {language for language, count in counts.items() if count == most}


@cache
def number_words() -> dict[str, int]:
    """Words of the numbers below 100, without what joins them: "vingt et un" is "vingt un"."""
    words = {digit: n for n, digit in enumerate(HAN_DIGITS, 1)} | {"quatre-vingts": 80}
    for ones, tens, joined in map(itemgetter("ones", "tens", "joined"), _LISTS["counted"]):
        small = {one: n for n, one in enumerate(without_accents(ones).split(), 1)}
        words |= small
        for n, ten in enumerate(without_accents(tens).split(), 2):
            words[ten] = 10 * n
            for one, value in small.items():
                if value < 10 or ten in ("soixante", "quatre-vingt"):
                    words[joined.format(ten=ten, one=one)] = 10 * n + value
        if "veinte" in tens:
            words |= {f"veinti{one}": 20 + n for one, n in small.items() if n < 10}
    for n, (ten, one) in enumerate(product(("", *HAN_DIGITS[1:9]), ("", *HAN_DIGITS[:9])), 10):
        words[f"{ten}十{one}"] = n
    keyed = {" ".join(map(key_of, word.replace("-", " ").split())): n for word, n in words.items()}
    return keyed | {"once": 0, "neuf": 0, "_": 0}  # in another language they are no numbers


@cache
def beginnings() -> frozenset[str]:
    """Words with which a number or a date begins; most words are none."""
    return frozenset(word.split()[0] for word in (*number_words(), *months(), *MINUS))


@cache
def months() -> dict[str, int]:
    return {key_of(word): n for n, row in enumerate(_rows("months"), 1) for word in row.split()}


@cache
def opposed() -> dict[str, set[str]]:
    """Words, each with those that deny it."""
    rows = defaultdict[str, set[str]](set)
    for row in _rows("opposed"):
        for word, other in permutations(map(key_of, row.split())):
            rows[word].add(other)
    return rows


@cache
def _units() -> dict[str, tuple[str, Fraction]]:
    """A unit's signs and names, each with its base unit and the factor."""
    units: dict[str, tuple[str, Fraction]] = {}
    for names in map(str.split, _rows("others") + _rows("si")):
        units |= dict.fromkeys(names, (names[0], Fraction(1)))
    for (sign, *names), prefix in product(map(str.split, _rows("si")), _rows("prefixes")):
        short, long, power = prefix.split()
        for name in (short + sign, *(long + name for name in names)):
            units[name] = sign, Fraction(10) ** int(power)
    return units


def unit_of(text: str) -> tuple[str, Fraction] | None:
    """The base unit that a word or a sign stands for, and the factor; None for none.

    >>> unit_of("kilometres")
    ('m', Fraction(1000, 1))
    """
    text, units = text.translate(_LATIN), _units()
    if text in units or len(text) == 1:  # of one letter, A is a unit and a is none
        return units.get(text)
    return units.get(key_of(text)) or units.get(key_of(text).removesuffix("s"))
