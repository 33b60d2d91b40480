"""Pure: numbers by value, their words, scales and units, and months.

Words are English, German, French, Spanish, Italian and Portuguese. One that also means something
else ("once", "due") is no number.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Number:
    """A number as it may be meant.

    Attributes:
        values: 1,000 may be a thousand or one, a billion 1e9 or 1e12; the usual one is first.
        dimension: of its unit; "" for one without.
        factor: of the unit, in the base unit of its dimension.
    """

    values: tuple[Fraction, ...]
    dimension: str = ""
    factor: Fraction = Fraction(1)

    def may_be(self, other: "Number") -> bool:
        """Whether both can mean one value; one without a unit may have that of the other."""
        ours, theirs = self.values, other.values
        if self.dimension and other.dimension:
            if self.dimension != other.dimension:
                return False
            ours, theirs = self._in_base_unit(), other._in_base_unit()
        elif "clock" in (self.dimension, other.dimension):  # "at 5" may be 5 pm
            ours, theirs = (tuple(hour % 12 for hour in one) for one in (ours, theirs))
        return not set(ours).isdisjoint(theirs)

    def is_written(self, other: "Number") -> bool:
        """Whether both can mean one value in one unit, which one of them may leave out."""
        is_one_unit = self.factor == other.factor or "" in (self.dimension, other.dimension)
        return is_one_unit and self.may_be(other)

    def is_same(self, other: "Number") -> bool:
        """Whether both mean one value, read in the usual way, in one dimension."""
        ours, theirs = self._in_base_unit()[0], other._in_base_unit()[0]
        return self.dimension == other.dimension and ours == theirs

    def _in_base_unit(self) -> tuple[Fraction, ...]:
        return tuple(self.factor * value for value in self.values)


# Chinese characters of numbers: two or more, or one that counts something; 一 alone is an article.
_HAN_DIGITS = dict(zip("零〇一二两三四五六七八九", (0, 0, 1, 2, 2, *range(3, 10)), strict=True))
_HAN_FACTORS = {"亿": 10**8, "億": 10**8, "万": 10**4, "千": 1000, "百": 100, "十": 10}
_HAN = re.compile(
    "[一二两三四五六七八九十百千][零〇一二两三四五六七八九十百千万亿億]+"
    "|(?<=第)[一二三四五六七八九十]"
    "|[二两三四五六七八九十](?=[个個年月日人岁歳歲次度座名本])|一(?=[月日])"
)
_SCALED_BY_HAN = re.compile(r"(?<![\d.,])(\d{1,12}(?:\.\d{1,6})?)([百千万亿億]{1,2})(?!\d)")


def listed(words: str) -> frozenset[str]:
    """The words of a list with blanks between."""
    return frozenset(words.split())


_UNITS = (  # dimension, factor, how people write it
    *(("length", f, w) for f, w in ((1e-9, "nm nanometers nanometres"), (1e-6, "µm μm"))),
    ("length", 1e-3, "mm millimeter millimeters millimetre millimetres millimètres milímetros"),
    ("length", 1e-2, "cm centimeter centimeters centimetre centimetres zentimeter zentimetern"),
    ("length", 1e-2, "centimètres"),
    ("length", 1e-2, "centímetros centimetri"),
    ("length", 1.0, "m meter meters metre metres metern mètre mètres metro metros metri"),
    ("length", 1e3, "km kilometer kilometers kilometre kilometres kilometern kilomètres"),
    ("length", 1e3, "kilómetros"),
    ("length", 1e3, "chilometri quilômetros quilómetros"),
    ("length", 1609.344, "mile miles mi meile meilen"),
    ("length", 0.3048, "foot feet ft"),
    ("length", 0.0254, "inch inches"),
    ("length", 0.9144, "yard yards"),
    *(("mass", f, w) for f, w in ((1e-9, "µg μg mcg"), (1e-6, "mg milligram milligrams"))),
    ("mass", 1e-3, "g gram grams gramm gramme grammes gramos grammi gramas"),
    ("mass", 1.0, "kg kilo kilos kilogram kilograms kilogramm"),
    ("mass", 1e3, "t ton tons tonne tonnes tonnen"),
    ("mass", 0.45359237, "lb lbs pound pounds"),
    ("mass", 0.45359237 / 16, "oz ounce ounces"),
    ("time", 1e-3, "ms"),
    ("time", 1.0, "s sec second seconds sekunde sekunden seconde secondes segundos secondi"),
    ("time", 60.0, "min mins minute minutes minuten minutos minuti"),
    ("time", 3600.0, "h hr hour hours stunde stunden heure heures hora horas ore"),
    ("time", 86400.0, "day days tag tage tagen jour jours día días dias giorni"),
    ("time", 604800.0, "week weeks woche wochen semaine semaines semana semanas settimane"),
    ("time", 2629800.0, "month months monat monate monaten mois mes meses mese mesi mês"),
    ("time", 31557600.0, "year years jahr jahre jahren an ans année années año años anno anni"),
    ("time", 31557600.0, "anos"),
    ("volume", 1e-3, "ml milliliter milliliters millilitre millilitres"),
    ("volume", 3.785411784, "gallon gallons"),
    ("volume", 1.0, "l liter liters litre litres litro litros litri"),
    *(("speed", f, w) for f, w in ((3.6, "m/s"), (1.0, "km/h kmh kph"), (1.609344, "mph mi/h"))),
    *(("power", f, w) for f, w in ((1.0, "w watt watts"), (1e3, "kw"), (1e6, "mw"))),
    *(("frequency", f, w) for f, w in ((1.0, "hz"), (1e3, "khz"), (1e6, "mhz"), (1e9, "ghz"))),
    *(("data", f, w) for f, w in ((1.0, "kb"), (1e3, "mb"), (1e6, "gb"), (1e9, "tb"))),
    ("share", 0.01, "% percent prozent"),
    ("year before Christ", 1.0, "bc bce"),
    ("year after Christ", 1.0, "ad ce"),
    ("temperature C", 1.0, "°c celsius"),
    ("temperature F", 1.0, "°f fahrenheit"),
    ("dollar", 1.0, "$ usd dollar dollars"),
    ("euro", 1.0, "€ eur euro euros"),
    ("pound sterling", 1.0, "£ gbp"),
    ("yen", 1.0, "¥ yen jpy"),
    ("rupee", 1.0, "₹ inr rupee rupees"),
)
DEGREES = frozenset(("degree", "degrees", "grad", "degrés", "grados", "gradi", "graus"))
UNIT_OF: Mapping[str, tuple[str, Fraction]] = {
    word: (dimension, Fraction(str(factor)))
    for dimension, factor, words in _UNITS
    for word in words.split()
}

_MONTHS = (
    "january januar janvier enero gennaio janeiro jan",
    "february februar février febrero febbraio fevereiro feb",
    "march märz mars marzo março mar",
    "april avril abril aprile apr",
    "may mai mayo maggio maio",
    "june juni juin junio giugno junho jun",
    "july juli juillet julio luglio julho jul",
    "august août agosto aug",
    "september septembre septiembre settembre setembro sep sept",
    "october oktober octobre octubre ottobre outubro oct okt",
    "november novembre noviembre novembro nov",
    "december dezember décembre diciembre dicembre dezembro dec dez",
)
MONTH_OF = {word: n for n, words in enumerate(_MONTHS, 1) for word in words.split()}

_ENGLISH = """zero . two three four five six seven eight nine ten eleven twelve thirteen fourteen
fifteen sixteen seventeen eighteen nineteen"""
_GERMAN = """null . zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn
fünfzehn sechzehn siebzehn achtzehn neunzehn"""
_FRENCH = """zéro . deux trois quatre cinq six sept huit . dix onze douze treize quatorze quinze
seize dix-sept dix-huit dix-neuf"""
_SPANISH = """cero . dos tres cuatro cinco seis siete ocho nueve diez . doce trece catorce quince
dieciséis diecisiete dieciocho diecinueve"""
_ITALIAN = """zero . . tre quattro cinque . sette otto nove dieci undici dodici tredici quattordici
quindici sedici diciassette diciotto diciannove"""
_PORTUGUESE = """zero . dois três quatro cinco seis sete oito nove dez onze doze treze quatorze
quinze dezesseis dezessete dezoito dezenove"""
_TENS = """twenty thirty forty fifty sixty seventy eighty ninety
zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig
vingt trente quarante cinquante soixante . quatre-vingt .
veinte treinta cuarenta cincuenta sesenta setenta ochenta noventa
venti trenta quaranta cinquanta sessanta settanta ottanta novanta
vinte trinta quarenta cinquenta sessenta setenta oitenta noventa"""
_HUNDREDS = frozenset(("hundred", "hundert", "cento", "cents"))
_SCALED: tuple[
    tuple[tuple[int | Fraction, ...], str], ...
] = (  # factors in the usual order, how people write them
    ((10**3,), "thousand tausend mille mil mila k"),
    ((10**6,), "million millions millionen millón millones milione milioni milhão milhões"),
    ((10**9,), "milliarde milliarden milliard milliards miliardo miliardi"),
    ((10**9, 10**12), "billion billions"),
    ((10**12, 10**18), "trillion trillions"),
    ((12,), "dozen dutzend douzaines docenas dozzine dúzias"),
    ((Fraction(1, 2),), "half halves"),
    ((Fraction(1, 3),), "third thirds drittel tiers tercio tercios terzo terzi terço terços"),
    ((Fraction(1, 4),), "quarter quarters viertel quart quarts cuarto cuartos quarti quartos"),
    *(((Fraction(1, n),), w) for n, w in ((5, "fifth fifths fünftel"), (10, "tenth tenths"))),
)
_SCALES: Mapping[str, tuple[int | Fraction, ...]] = {
    word: factors for factors, words in _SCALED for word in words.split()
}

# Behind one alone: "5 May, the third day".
_SINGULAR = listed("half third quarter fifth tenth quart tercio cuarto terzo terço")


def _words() -> dict[str, int]:
    """Words of whole numbers below 100."""
    words: dict[str, int] = {}
    for language in (_ENGLISH, _GERMAN, _FRENCH, _SPANISH, _ITALIAN, _PORTUGUESE):
        words |= {word: value for value, word in enumerate(language.split())}
    for line in _TENS.splitlines():
        words |= {word: 10 * ten for ten, word in enumerate(line.split(), 2)}
    german = ("ein", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun")
    for ten, word in enumerate(_TENS.splitlines()[1].split(), 2):
        words |= {f"{one}und{word}": 10 * ten + value for value, one in enumerate(german, 1)}
    spanish = ("uno", "dós", "trés", "cuatro", "cinco", "séis", "siete", "ocho", "nueve")
    words |= {f"veinti{one}": 20 + value for value, one in enumerate(spanish, 1)}
    italian = ("uno", "due", "tre", "quattro", "cinque", "sei", "sette", "otto", "nove")
    for ten, word in enumerate(_TENS.splitlines()[4].split(), 2):
        for value, one in enumerate(italian, 1):
            stem = word[:-1] if one[0] in "uo" else word
            words[f"{stem}{one}"] = 10 * ten + value
    words |= {"quatre-vingts": 80, "quatre-vingt-dix": 90, "soixante-dix": 70}
    del words["."]
    return words


_WORDS = _words()
# Behind tens alone: "twenty-one".
_ONES = dict.fromkeys(("one", "un", "une", "uno", "um", "uma"), 1)
# Before a hundred or a scale as well: "a hundred", "ein Drittel".
_BEFORE_SCALES = frozenset((*_ONES, "a", "ein", "eine", "einer"))
# Between words of one number: "two hundred and five", "treinta y uno"; between numbers of a list.
JOINING = frozenset(("and", "und", "et", "y", "e"))


# With which a number in words begins.
FIRST_WORDS = frozenset((*_WORDS, *_BEFORE_SCALES))


def in_words(words: Sequence[str], start: int) -> tuple[int | None, int]:
    """The number below 1,000 that begins at a word, and where it ends; None without one.

    Args:
        words: in lower case, "" for what is no word.
        start: position of the first.

    >>> in_words(["two", "hundred", "and", "five", "men"], 0)
    (205, 4)
    """
    total: int | None = None
    end = i = start
    first, behind = (*words[start : start + 2], "", "")[:2]
    if first in _BEFORE_SCALES and (behind in _HUNDREDS or _is_scale(first, behind)):
        total, end, i = 1, start + 1, start + 1
    while i < len(words) and (word := words[i]):
        i += 1
        if total is not None and word in JOINING:
            continue
        longer: int | None
        if total is not None and total < 10 and word in _HUNDREDS:
            longer = 100 * total
        elif word in _WORDS:
            longer = _sum(total, _WORDS[word])
        else:
            longer = total
            for part in word.split("-"):
                longer = _sum(longer, _WORDS.get(part, _ONES.get(part)))
            if total is None and word in _ONES:
                longer = None  # mostly an article
        if longer is None:
            break
        total, end = longer, i
    return total, end


def scales_of(word: str, number: Number) -> tuple[int | Fraction, ...]:
    """What a word behind a number multiplies it by, in the usual order; empty if by nothing."""
    if word in _SINGULAR and number.values != (Fraction(1),):
        return ()
    return _SCALES.get(word, ())


def _is_scale(article: str, word: str) -> bool:
    """Whether it scales "a": "a third" is mostly one more, where "one third" is a part."""
    return word in _SCALES and (_SCALES[word][0] > 1 or article != "a")


def _sum(total: int | None, part: int | None) -> int | None:
    """Of two words of one number; None where they are not."""
    if total is None or part is None:
        return part
    if total == 4 and part == 20:  # quatre-vingt
        return 80
    if total % 100 == 0 and total:
        return total + part
    is_french = total in (60, 80) and 10 <= part < 20
    if is_french or (total >= 20 and total % 10 == 0 and part < 10):
        return total + part
    return None


def with_han_in_digits(text: str) -> str:
    """The text with the numbers that are written in Chinese characters in digits.

    >>> with_han_in_digits("一九四五年, 三万二千人, 第十二, 一万二, 一个, 1.4亿")
    '1945年, 32000人, 第12, 12000, 一个, 140000000'
    """
    text = _SCALED_BY_HAN.sub(_of_digits, text)
    return _HAN.sub(lambda number: str(_of_han(number[0])), text)


def _of_digits(match: re.Match[str]) -> str:
    value = Fraction(match[1])
    for sign in match[2]:
        value *= _HAN_FACTORS[sign]
    return str(value) if value.denominator == 1 else match[0]


def _of_han(written: str) -> int:
    for sign, factor in _HAN_FACTORS.items():
        before, found, behind = written.rpartition(sign)
        if not found:
            continue
        times = _of_han(before) if before else 1
        if len(behind) == 1 and factor > 10:  # 1,200 is "a thousand two"
            return times * factor + _of_han(behind) * factor // 10
        return times * factor + (_of_han(behind) if behind else 0)
    return int("".join(str(_HAN_DIGITS[digit]) for digit in written))
