"""Pure: the numbers that a text has, by value: 12 and twelve, 1,000 and 1000, 5 km and 5000 m.

Digits are read as people write them, words in English, German, French, Spanish, Italian and
Portuguese. A word that also means something else ("once", "due") is no number.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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

    def is_same(self, other: "Number") -> bool:
        """Whether both mean one value, read in the usual way, in one dimension."""
        ours, theirs = self._in_base_unit()[0], other._in_base_unit()[0]
        return self.dimension == other.dimension and ours == theirs

    def _in_base_unit(self) -> tuple[Fraction, ...]:
        return tuple(self.factor * value for value in self.values)


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
    ("time", 31557600.0, "year years jahr jahre jahren an ans année années año años anno anni"),
    ("time", 31557600.0, "anos"),
    ("volume", 1e-3, "ml milliliter milliliters millilitre millilitres"),
    ("volume", 3.785411784, "gallon gallons"),
    ("volume", 1.0, "l liter liters litre litres litro litros litri"),
    ("share", 0.01, "% percent prozent"),
    ("year before Christ", 1.0, "bc bce"),
    ("year after Christ", 1.0, "ad ce"),
    ("temperature C", 1.0, "°c celsius"),
    ("temperature F", 1.0, "°f fahrenheit"),
    ("dollar", 1.0, "$ usd dollar dollars"),
    ("euro", 1.0, "€ eur euro euros"),
    ("pound sterling", 1.0, "£ gbp"),
)
_DEGREES = frozenset(("degree", "degrees", "grad", "degrés", "grados", "gradi", "graus"))
_UNIT_OF: Mapping[str, tuple[str, Fraction]] = {
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
_MONTH_OF = {word: n for n, words in enumerate(_MONTHS, 1) for word in words.split()}

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
_SCALES: Mapping[str, tuple[int, ...]] = {
    **dict.fromkeys(("thousand", "tausend", "mille", "mil", "mila"), (10**3,)),
    **dict.fromkeys(
        ("million", "millions", "millionen", "millón", "millones", "milione"), (10**6,)
    ),
    **dict.fromkeys(("milioni", "milhão", "milhões"), (10**6,)),
    **dict.fromkeys(
        ("milliarde", "milliarden", "milliard", "milliards", "miliardo", "miliardi"), (10**9,)
    ),
    **dict.fromkeys(("billion", "billions"), (10**9, 10**12)),
    **dict.fromkeys(("trillion", "trillions"), (10**12, 10**18)),
}


# Of a number; Python reads no more of them than some thousands.
_MAX_DIGITS = 400
# Of one letter behind a name or what is counted by them; that "I" is one may show what follows it.
COUNTED = listed("type class phase stage grade level part book chapter section act factor war")
_ROMANS = "I II III IV V VI VII VIII IX X XI XII"
_ROMAN = {one: number for number, one in enumerate(_ROMANS.split(), 1)}
_BEHIND_FIRST = re.compile(r"\s*(?:$|[.,;:)]|of\b)")


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
# Between words of one number: "two hundred and five", "treinta y uno"; between numbers of a list.
JOINING = frozenset(("and", "und", "et", "y", "e"))
_MINUS = frozenset(("minus", "moins", "menos", "meno"))
_ORDINAL_ENDS = frozenset(("st", "nd", "rd", "th", "er", "ère", "ème", "e"))

_TOKEN = re.compile(
    r"""
    (?P<sign>(?<![\w)\]%°])[-\u2212](?=[\d$€£]))?(?P<money>[$€£]\s?(?=\d))?(?:
        (?P<iso>\d{4}-\d\d-\d\d(?!\d))
      | (?P<clock>\d{1,2}(?::\d\d(?::\d\d)?(?!\d)|(?=\s?(?:[ap]\.?m\b|[AP]M\b))(?!\s?am\s+[^\W\d])))
        (?:\s*(?P<half>[apAP])\.?[mM]\b\.?)?
      | (?P<date>\d{1,2}\.\d{1,2}\.\d{4}(?!\d))
      | (?P<grouped>\d{1,3}(?P<comma>[,.'\u2019\u00a0\u202f])\d{3}(?:(?P=comma)\d{3})*(?!\d))
        (?P<decimals>[.,]\d+)?
      | (?P<version>\d+(?:\.\d+){2,})
      | (?P<fraction>(?<![\d/])(?:1/[234]|2/3|3/4)(?![\d/]))
      | (?P<plain>\d+(?:[.,]\d+)?)
    )
    | (?P<word>°\s?[CF]\b|[AB]\.C\.(?:E\.)?|A\.D\.
        |[^\W\d_]+(?:['\u2019-][^\W\d_]+)*(?:[+#]+|(?<=[A-Z])[-\u2212](?!\w))?)
    | (?P<symbol>[^\w\s])
    """,
    re.VERBOSE,
)
# Signs that mean the same.
_SPELLED = {"\u2013": "-", "\u2212": "-", "\u00d7": "*", "\u00f7": "/"}
# What says something between two digits: a score, a ratio; between words, too; before a digit.
_BETWEEN_DIGITS = frozenset("-:/")
_BETWEEN_WORDS = frozenset("+*^=<>\u2264\u2265")
_BEFORE_DIGITS = frozenset("<>\u2264\u2265\u00b1")


def read(text: str) -> list[str | Number]:
    """The words of a text as they are written, and its numbers, in their order.

    >>> read("Take 15 mg of C++, twenty-one times.")[1]
    Number(values=(Fraction(15, 1),), dimension='mass', factor=Fraction(1, 1000000))
    """
    items: list[str | Number] = []
    for match in _TOKEN.finditer(text):
        if match["word"]:
            word, is_end = match["word"], items and text[match.start() - 1].isdigit()
            if word in _ROMAN and items and _is_numeral(word, items[-1], text[match.end() :]):
                items.append(Number((Fraction(_ROMAN[word]),)))
            elif not (is_end and word in _ORDINAL_ENDS):
                items.append(word)
        elif match["symbol"]:
            start, end, symbol = *match.span(), _SPELLED.get(match["symbol"], match["symbol"])
            around = text[max(0, start - 2) : start].rstrip()[-1:], text[end : end + 2].lstrip()[:1]
            if symbol in _UNIT_OF or _is_telling(symbol, *around):
                items.append(symbol)
        else:
            items += _in_digits(match)
    return list(_with_months(list(_signed(list(_joined(items))))))


def value_of(word: str) -> str | None:
    """The number that a word in lower case is, in a form of its own; None for other words.

    >>> value_of("twelve"), value_of("12th"), value_of("5 km"), value_of("lima")
    ('12', '12', '5000length', None)
    """
    if not any(map(str.isdigit, word)) and word.split("-")[0] not in _WORDS:
        return None
    number, *others = read(word) or [word]
    if others or isinstance(number, str):
        return None
    return f"{number.values[0] * number.factor}{number.dimension}"


def _is_telling(symbol: str, before: str, behind: str) -> bool:
    """Whether a sign between these characters, blanks left out, says something."""
    if symbol in _BEFORE_DIGITS and behind.isdigit():
        return True
    if symbol in _BETWEEN_WORDS:
        return before.isalnum() and behind.isalnum()
    return symbol in _BETWEEN_DIGITS and before.isdigit() and behind.isdigit()


def _is_numeral(word: str, before: str | Number, behind: str) -> bool:
    """Whether Roman digits are a number: "Louis V", "type I diabetes", and not "Yes I do"."""
    if len(word) > 1 or _word(before) in COUNTED:
        return True
    is_name = isinstance(before, str) and before[:1].isupper()
    return is_name and (word != "I" or bool(_BEHIND_FIRST.match(behind)))


def _in_digits(match: re.Match[str]) -> list[str | Number]:
    """The numbers of a token of digits; a version has one for each of its parts."""
    if match["iso"]:
        year, month, day = map(Fraction, match["iso"].split("-"))
        return [Number((year,)), Number((month,), "month"), Number((day,))]
    if match["date"]:
        day, month, year = map(Fraction, match["date"].split("."))
        return [Number((day,)), Number((month,), "month"), Number((year,))]
    if match["clock"]:
        parts = list(map(Fraction, match["clock"].split(":")))
        if match["half"]:
            parts[0] = parts[0] % 12 + 12 * (match["half"] in "pP")
        return [Number((sum((part / 60**i for i, part in enumerate(parts)), Fraction()),), "clock")]
    if match["fraction"]:
        return [Number((Fraction(match["fraction"]),))]
    if match["version"]:
        found: list[str | Number] = []
        for part in match["version"].split("."):
            found += [Number((_exact(part),)), "."]
        return found[:-1]
    unit = _UNIT_OF.get((match["money"] or "").strip(), ("", Fraction(1)))
    sign = -1 if match["sign"] else 1
    return [Number(tuple(sign * value for value in _values(match)), *unit)]


def _exact(digits: str) -> Fraction:
    return Fraction(digits[:_MAX_DIGITS])


def _values(match: re.Match[str]) -> list[Fraction]:
    if match["plain"]:
        return [_exact(match["plain"].replace(",", "."))]
    groups = match["grouped"].split(match["comma"])
    decimals = (match["decimals"] or "").replace(",", ".")
    values = [_exact("".join(groups) + decimals)]
    if len(groups) == 2 and not decimals and match["comma"] in ",.":
        values.append(_exact(".".join(groups)))  # 1,000 is one where commas begin decimals
    return values


def _joined(items: Sequence[str | Number]) -> Iterator[str | Number]:
    """Items with the words of a number, its scale and its unit as one number."""
    i = 0
    while i < len(items):
        item = items[i]
        if isinstance(item, str):
            value, i = _in_words(items, i)
            if value is None:
                yield item
                i += 1
                continue
            item = Number((Fraction(value),))
        else:
            i += 1
        while i < len(items) and (scales := _SCALES.get(_word(items[i]))):
            values = [value * scale for value in item.values for scale in scales]
            value, behind = _in_words(items, i + 1)
            i += 1
            if value is not None and value < min(scales):
                values, i = [one + value for one in values], behind
            item = replace(item, values=tuple(values))
        of_degrees = i + 1 < len(items) and _word(items[i]) in _DEGREES
        behind = i + of_degrees  # "24 degrees Celsius"
        unit = _UNIT_OF.get(_word(items[behind])) if behind < len(items) else None
        if unit and not item.dimension:
            item = Number(item.values, *unit)
            i = behind + 1
        yield item


def _in_words(items: Sequence[str | Number], start: int) -> tuple[int | None, int]:
    """The number below 1,000 whose words begin here, and where it ends; None without one."""
    total: int | None = None
    end = i = start
    while i < len(items) and (word := _word(items[i])):
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


def _signed(items: Sequence[str | Number]) -> Iterator[str | Number]:
    """Items with numbers behind "minus" as negative ones, but for what is taken from another."""
    are_numbers, is_negative = [isinstance(one, Number) for one in items], False
    for i, item in enumerate(items):
        if isinstance(item, Number) and is_negative:
            item = replace(item, values=tuple(-value for value in item.values))
        is_negative = _word(item) in _MINUS and are_numbers[i - 1 : i] != [True]
        is_negative &= are_numbers[i + 1 : i + 2] == [True]
        if not is_negative:
            yield item


def _with_months(items: Sequence[str | Number]) -> Iterator[str | Number]:
    """Items with months as numbers where a number stands beside them."""
    for i, item in enumerate(items):
        month = _MONTH_OF.get(_word(item))
        beside = (*items[max(0, i - 1) : i], *items[i + 1 : i + 2])
        if month and any(isinstance(one, Number) for one in beside):
            yield Number((Fraction(month),), "month")
        else:
            yield item


def _word(item: str | Number) -> str:
    """In lower case; "" of a number."""
    if isinstance(item, Number):
        return ""
    return item.casefold().replace("° ", "°").replace(".", "")
