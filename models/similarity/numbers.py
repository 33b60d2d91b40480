"""Pure: numbers by value, their words and scales, and months.

Words are English, German, French, Spanish, Italian and Portuguese. One that also means something
else ("once", "due") is no number.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

# Digits of a rounded number that say which one it is.
_LEAST_ROUNDED = 3


@dataclass(frozen=True, slots=True)
class Number:
    """A number as it may be meant.

    Attributes:
        values: 1,000 may be a thousand or one, a billion 1e9 or 1e12; the usual one is first.
        dimension: of its unit; "" for one without.
        factor: of the unit, in the base unit of its dimension.
        zero: of the unit, in the base unit.
        step: the value of a unit of its last written digit; 0 of a number in words.
    """

    values: tuple[Fraction, ...]
    dimension: str = ""
    factor: Fraction = Fraction(1)
    zero: Fraction = Fraction()
    step: Fraction = field(default=Fraction(), compare=False)

    def may_be(self, other: "Number") -> bool:
        """True where both can mean one value; one without a unit may have that of the other."""
        ours, others = self.values, other.values
        if self.dimension and other.dimension:
            if self.dimension != other.dimension:
                return False
            ours, others = self.in_base_unit(), other.in_base_unit()
        elif "share" in (self.dimension, other.dimension):  # 75 and .75 may be 75 %
            ours, others = ((*number.values, *number.in_base_unit()) for number in (self, other))
        elif "clock" in (self.dimension, other.dimension):  # "at 5" may be 5 pm
            ours, others = (tuple(hour % 12 for hour in values) for values in (ours, others))
        elif "decade" in (self.dimension, other.dimension):  # 1975 is in the 1970s
            ours, others = (tuple(year - year % 10 for year in values) for values in (ours, others))
        return not set(ours).isdisjoint(others) or self._is_rounded(other)

    def is_written(self, other: "Number") -> bool:
        """True where both can mean one value in one unit, which one of them may leave out."""
        is_one_unit = (self.factor, self.zero) == (other.factor, other.zero)
        return (is_one_unit or "" in (self.dimension, other.dimension)) and self.may_be(other)

    def is_same(self, other: "Number") -> bool:
        """True where both mean one value, read in the usual way, in one dimension."""
        ours, others = self.in_base_unit()[0], other.in_base_unit()[0]
        if self.dimension != other.dimension:
            return False
        return ours == others or self._is_rounded(other)

    def _is_rounded(self, other: "Number") -> bool:
        """True where one is the other, rounded to three digits or more: 8,848.86 and 8,849."""
        if self.dimension != other.dimension:
            return False
        for rounded, exact in ((self, other), (other, self)):
            written = rounded.values[0]
            for value in exact.values if rounded.step else ():
                if rounded.factor is not exact.factor:  # of another unit
                    value = (exact.factor * value + exact.zero - rounded.zero) / rounded.factor
                if _are_near(value, written) and abs(value - written) < rounded.step / 2:
                    return len(str(abs(written) / rounded.step).rstrip("0")) >= _LEAST_ROUNDED
        return False

    def in_base_unit(self) -> tuple[Fraction, ...]:
        """The values as they are compared with those in other units of the dimension."""
        if not self.dimension:
            return self.values
        return tuple(self.factor * value + self.zero for value in self.values)


def _are_near(value: Fraction, other: Fraction) -> bool:
    """Within a hundredth, which few are; in integers, since sums of fractions take longer."""
    scaled = value.numerator * other.denominator
    return 100 * abs(scaled - other.numerator * value.denominator) <= abs(scaled)


def listed(words: str) -> frozenset[str]:
    """The words of a list with blanks between."""
    return frozenset(words.split())


_MONTHS = (
    "january januar janvier enero gennaio janeiro jan января",
    "february februar février febrero febbraio fevereiro feb февраля",
    "march märz mars marzo março mar марта",
    "april avril abril aprile apr апреля",
    "may mai mayo maggio maio мая",
    "june juni juin junio giugno junho jun июня",
    "july juli juillet julio luglio julho jul июля",
    "august août agosto aug августа",
    "september septembre septiembre settembre setembro sep sept сентября",
    "october oktober octobre octubre ottobre outubro oct okt октября",
    "november novembre noviembre novembro nov ноября",
    "december dezember décembre diciembre dicembre dezembro dec dez декабря",
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
_RUSSIAN = """ноль . два три четыре пять шесть семь восемь девять десять одиннадцать двенадцать
тринадцать четырнадцать пятнадцать шестнадцать семнадцать восемнадцать девятнадцать"""
_TENS = """twenty thirty forty fifty sixty seventy eighty ninety
zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig
vingt trente quarante cinquante soixante . quatre-vingt .
veinte treinta cuarenta cincuenta sesenta setenta ochenta noventa
venti trenta quaranta cinquanta sessanta settanta ottanta novanta
vinte trinta quarenta cinquenta sessenta setenta oitenta noventa
двадцать тридцать сорок пятьдесят шестьдесят семьдесят восемьдесят девяносто"""
_FROM_200 = """doscientos trescientos cuatrocientos quinientos seiscientos setecientos ochocientos
novecientos duzentos trezentos quatrocentos quinhentos seiscentos setecentos oitocentos
novecentos"""
_HUNDREDS = frozenset(("hundred", "hundert", "cento"))
# Factors in the usual order, how people write them.
_SCALED: tuple[tuple[tuple[int | Fraction, ...], str], ...] = (
    ((10**3,), "thousand tausend mille mil mila k"),
    ((10**3, 1), "K"),  # of kelvins it is the unit
    ((10**6, 1), "M"),
    ((10**6,), "million millions millionen millón millones milione milioni milhão milhões"),
    ((10**9,), "milliarde milliarden milliard milliards miliardo miliardi bn"),
    *(((10**3,), w) for w in ("тысяча тысячи тысяч тыс", "bin nghìn ribu")),
    *(((10**6,), w) for w in ("миллион миллиона миллионов млн", "mln mio juta milyon")),
    ((10**9,), "миллиард миллиарда миллиардов млрд mrd milyar"),
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
    for language in (_ENGLISH, _GERMAN, _FRENCH, _SPANISH, _ITALIAN, _PORTUGUESE, _RUSSIAN):
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
    words |= {word: 100 * (n % 8 + 2) for n, word in enumerate(_FROM_200.split())}
    words |= {"quatre-vingts": 80, "quatre-vingt-dix": 90, "soixante-dix": 70}
    del words["."]
    return words


_WORDS = _words()
# Behind tens alone: "twenty-one".
_ONES = dict.fromkeys(("one", "un", "une", "uno", "um", "uma", "один"), 1)
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
    # "A third" is mostly one more, where "one third" is a part.
    is_scale = behind in _SCALES and (_SCALES[behind][0] > 1 or first != "a")
    if first in _BEFORE_SCALES and (behind in _HUNDREDS or is_scale):
        total, end, i = 1, start + 1, start + 1
    while i < len(words) and (word := words[i]):
        i += 1
        if word in JOINING:
            continue
        longer: int | None
        if total is not None and total < 100 and word in _HUNDREDS:  # "nineteen hundred"
            longer = 100 * total
        elif word in _WORDS:
            longer = _sum(total, _WORDS[word])
        else:
            longer = total
            for part in word.split("-"):
                longer = _sum(longer, _WORDS.get(part, _ONES.get(part)))
            if total is None and word in _ONES and words[start] not in JOINING:
                longer = None  # mostly an article, and not in "a thousand and one"
        if longer is None:
            break
        total, end = longer, i
    return total, end


def scales_of(word: str, number: Number) -> tuple[int | Fraction, ...]:
    """The factors that a word behind a number may mean, in the usual order; empty if none."""
    if word.casefold() in _SINGULAR and number.values != (Fraction(1),):
        return ()
    return _SCALES.get(word) or _SCALES.get(word.casefold(), ())


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
