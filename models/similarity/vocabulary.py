"""Closed lists of words: what says nothing, what denies, numbers, months and units."""

import re
import unicodedata
from collections.abc import Iterable
from fractions import Fraction
from functools import cache
from itertools import product

from stopwordsiso import langs, stopwords

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


def listed(words: str) -> frozenset[str]:
    """The keys of the words of a list."""
    return frozenset(map(key_of, words.split()))


NEGATIONS = listed(
    """not no never nor neither without hardly nicht nein kein keine keinen keinem keiner nie ohne
    weder ne ni non pas jamais sans nunca sin não nem sem не нет ни никогда без niet geen nej inte
    ikke değil لا ليس لא אין नहीं 不 没 沒 無 无 非 未"""
)
AFFIRMATIONS = listed("yes yeah ja oui sí sì sim да")
ARTICLES = listed(
    """a an the der die das den dem des ein eine einen einem einer le la les un une el los las una
    il lo gli"""
)
# Of two words of a row one denies the other. None of them is a function word.
_OPPOSED = """more less|over under|above below|before after|least most|true false|north south
|east west|left right|up down|better worse|higher lower|larger smaller|bigger smaller|longer shorter
|older younger|earlier later|first last|min max|major minor|profit loss|men women|increase decrease
|high low|hot cold|good bad|old new|early late|all none|everybody nobody|once twice
|mehr weniger|über unter|vor nach|größer kleiner|länger kürzer|plus moins|avant après|más menos
|antes después|до после"""
_MONTHS = """jan january januar janvier enero января|feb february februar février febrero февраля
|mar march märz mars marzo марта|apr april avril abril апреля|may mai mayo мая|jun june juni juin
junio июня|jul july juli juillet julio июля|aug august août agosto августа|sep sept september
septembre septiembre сентября|oct okt october oktober octobre octubre октября|nov november novembre
noviembre ноября|dec dez december dezember décembre diciembre декабря"""
# Sign and names of units that the prefixes of the SI go with, and of others.
_SI = """m metre meter metro|g gram gramm gramme gramo|l liter litre litro|s sec second|W watt
|V volt|Hz hertz|A ampere amp|N newton|J joule|Pa pascal|B byte"""
_PREFIXES = """n nano -9|μ micro -6|m milli -3|c centi -2|c zenti -2|k kilo 3|M mega 6|G giga 9
|T tera 12"""
_OTHERS = """% percent percentage prozent|°C celsius|°F fahrenheit|$ dollar|€ euro|£|¥ yen
|min minute|h hour stunde heure hora|day tag jour dia|week woche semaine semana
|month monat mois mes|year jahr annee"""
_LATIN = str.maketrans("кмгсл", "kmgcl")
SCALES = {"k": 3, "thousand": 3, "million": 6, "billion": 9, "bn": 9, "trillion": 12, "mio": 6}
SCALES |= {"M": 6, "millionen": 6, "millone": 6, "milliard": 9, "milliarden": 9, "миллиона": 6}
# Behind a number they make it another one, which nobody reads here; and what makes it negative.
UNREAD = listed("hundred hundert cent thousand tausend mil mille half third quarter dozen сто")
MINUS = listed("minus moins menos минус")
BESIDE = listed("degree degrees grad degrés grados o'clock of de")  # between a number and its unit
PASSIVE = frozenset(("is", "are", "was", "were"))
# What such a word numbers is no quantity: 3.10 is not 3.1.
NAMES = re.compile(
    r"versi|release|\bzip\b|\bpost(?:al|c|leitz)|\bplz\b|\bcode|código|\bpin\b|\bis[bs]n\b|\biban\b|"
    "phone|telefon|верси|индекс|バージョン|版本|郵便番号|邮编"
)
# Words of numbers: one to nineteen, tens from twenty on, and how both are joined.
_COUNTED = (
    (
        """one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
        sixteen seventeen eighteen nineteen""",
        "twenty thirty forty fifty sixty seventy eighty ninety",
        "{ten} {one}",
    ),
    (
        """ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn
        sechzehn siebzehn achtzehn neunzehn""",
        "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig",
        "{one}und{ten}",
    ),
    (
        """un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize
        dix-sept dix-huit dix-neuf""",
        "vingt trente quarante cinquante soixante _ quatre-vingt",
        "{ten} {one}",
    ),
    (
        """uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince
        dieciséis diecisiete dieciocho diecinueve""",
        "veinte treinta cuarenta cincuenta sesenta setenta ochenta noventa",
        "{ten} {one}",
    ),
    (
        """один два три четыре пять шесть семь восемь девять десять одиннадцать двенадцать
        тринадцать четырнадцать пятнадцать шестнадцать семнадцать восемнадцать девятнадцать""",
        "двадцать тридцать сорок пятьдесят шестьдесят семьдесят восемьдесят девяносто",
        "{ten} {one}",
    ),
)
HAN_DIGITS = "一二三四五六七八九十"
# Languages whose function words have a capital where they begin a sentence; in others names do.
BEGINNING = ("en", "de", "fr", "es", "ru", "it", "pt", "nl", "sv", "da", "no", "pl", "cs", "tr")
_LETTERS_ALONE = frozenset("bcdfghjklmnpqrstvwxz")  # no words


@cache
def function_words(languages: Iterable[str] | None = None) -> frozenset[str]:
    """Words that say nothing by themselves, by their keys; of all 57 languages by default."""
    bearing = {*NEGATIONS, *AFFIRMATIONS, *opposed(), *_units(), *months(), *SCALES, *UNREAD}
    bearing |= _LETTERS_ALONE
    bearing.update(word for word in number_words() if " " not in word)
    words = stopwords(languages or langs())
    return frozenset(map(key_of, words)) - bearing | ARTICLES


@cache
def number_words() -> dict[str, int]:
    """Words of the numbers below 100, without what joins them: "vingt et un" is "vingt un"."""
    words = {digit: n for n, digit in enumerate(HAN_DIGITS, 1)} | {"quatre-vingts": 80}
    for ones, tens, joined in _COUNTED:
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
    return {key_of(word): n for n, row in enumerate(_MONTHS.split("|"), 1) for word in row.split()}


@cache
def opposed() -> dict[str, set[str]]:
    """Words, each with those that deny it."""
    rows: dict[str, set[str]] = {}
    for row in _OPPOSED.split("|"):
        first, second = map(key_of, row.split())
        rows.setdefault(first, set()).add(second)
        rows.setdefault(second, set()).add(first)
    return rows


@cache
def _units() -> dict[str, tuple[str, Fraction]]:
    """A unit's signs and names, each with its base unit and the factor."""
    units: dict[str, tuple[str, Fraction]] = {}
    for names in map(str.split, f"{_OTHERS}|{_SI}".split("|")):
        units |= dict.fromkeys(names, (names[0], Fraction(1)))
    for (sign, *names), prefix in product(map(str.split, _SI.split("|")), _PREFIXES.split("|")):
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
    return units.get(key_of(text))
