"""Pure: the words, numbers and signs of a text, in linear time.

What stands between blanks is a word, a number or a sign, or else taken letter by letter, as code.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Literal

from stopwordsiso import langs, stopwords

_LONGEST = 100  # characters of a word or a number
_LARGEST = 10**24  # number that is scaled


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
_SCALES = {"k": 3, "thousand": 3, "million": 6, "billion": 9, "bn": 9, "trillion": 12, "mio": 6}
_SCALES |= {"M": 6, "millionen": 6, "millone": 6, "milliard": 9, "milliarden": 9, "миллиона": 6}
# Behind a number they make it another one, which nobody reads here; and what makes it negative.
UNREAD = listed("hundred hundert cent thousand tausend mil mille half third quarter dozen сто")
_MINUS = listed("minus moins menos минус")
_BESIDE = listed("degree degrees grad degrés grados o'clock of de")  # between a number and its unit
PASSIVE = frozenset(("is", "are", "was", "were"))
# What such a word numbers is no quantity: 3.10 is not 3.1.
_NAMES = re.compile(
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
_HAN_DIGITS = "一二三四五六七八九十"
# Languages whose function words have a capital where they begin a sentence; in others names do.
_BEGINNING = ("en", "de", "fr", "es", "ru", "it", "pt", "nl", "sv", "da", "no", "pl", "cs", "tr")
_LETTERS_ALONE = frozenset("bcdfghjklmnpqrstvwxz")  # no words

# Scripts without blanks between words, what stands between them there, and what negates.
_NO_BLANKS = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u309f\u3400-\u9fff\uf900-\ufaff"
_BETWEEN = "です|ます|でした|ました|[的是在了和与與のはがをにでともへや、。・]"
_NOT = "不|没|沒|無|无|非|未|ない|なかった|なく|ません"
_DIGIT = f"[{_HAN_DIGITS}]"
_HAN = f"{_DIGIT}(?=[月日])|(?<![百千万億亿]){_DIGIT}{{2,4}}(?![百千万億亿〇零])"
_RUN = re.compile(f"[{_NO_BLANKS}]+|[^{_NO_BLANKS}]+")
# What stands between blanks; a tuple or a set with its blanks.
_PART = r"-?[\w.]{1,8}"
_CHUNK = re.compile(rf"[(\[{{]{_PART}(?:[,;]\s?{_PART}){{1,9}}[)\]}}]|\S+")
_JSON_MARK = re.compile(r'(?<="[:,])(?=\S)|(?<=[\w}\]],)(?=")')
_THOUSANDS = re.compile(r"(?<![\d.,])(\d{1,3}(?: \d{3})+)(?![\d.,]?\d)")
_INITIALS = re.compile(r"\b([A-Z])\.\s(?=[A-Z]\.)")
_TENS = re.compile(r"(?<=\d)\s?[x*\u00b7]\s?10\^(-?\d{1,2})(?!\d)")
_BOLD = re.compile(r"\*\*(?!\w)|(?<!\w)\*\*")
_RAISED, _VULGAR = re.compile("⁻?[⁰¹²³⁴-⁹]+"), re.compile("(?=[¼-¾⅐-⅞])")
_PLAIN = str.maketrans("\u2212\u2013\u00d7\u00f7\u2019\u30fb", "--*/' ")
_LETTERS = r"[^\W\d_](?:[^\W\d_]|[\u0300-\u036f\u05b0-\u05c7\u064b-\u065f\u0900-\u0dff])*"
_WORD = re.compile(rf"{_LETTERS}(?:['&-]{_LETTERS})*'?")
_NOT_BEHIND = re.compile(r"(?i)(?<=\bcan)not$|n't$")
_ABBREVIATED = re.compile(r"[^\W\d_](?:\.[^\W\d_])+")
# A word in brackets or quotation marks, a word or a number in bold.
_MARKED = re.compile(
    rf"""\(({_LETTERS})\)|["'“«`]([A-Z]|{_LETTERS}{_LETTERS}(?:[_-]{_LETTERS})*)["'”»`]"""
    r"|(?:\*+|_+)([^*_]+)(?:\*+|_+)"
)
_MARKS, _STOPS = ".,;:!?\u0964", frozenset(".!?\u0964")
_PARTNER = dict(zip('()[]{}“”"', ')(][}{”“"', strict=True))
_CLOCK = re.compile(r"(\d{1,2})(?::(\d\d))?(?::\d\d)?(?:([ap])m)?")
_DATE = re.compile(r"(\d{4})([-/])(\d\d)\2(\d\d)|(\d{1,2})\.(\d{1,2})\.(\d{4})")
_MONEY = "[$€£¥₹₽₩]"
_NUMBER = re.compile(
    rf"(?P<minus>-?)(?P<money>[A-Z]{{0,2}}{_MONEY})?(?P<digits>[1-9]\d{{0,2}}(?P<group>[,.'])\d{{3}}"
    r"(?:(?P=group)\d{3})*(?:[.,]\d+)?|\d*[.,]?\d+)(?:e(?P<tens>[-+]?\d{1,2}))?"
    rf"(?P<tail>{_MONEY}|[%‰]|°[CF]?|[^\W\d_]{{1,9}})?"
)
_ORDINAL = frozenset(("st", "nd", "rd", "th", "e"))
_SPAN = re.compile(r"(?!\d{4}-\d\d$)(\d[\d.,]*)([-:])(\d[\d.,]*)")  # 1914-18 is none
_UNARY = frozenset("+±~≈<>≤≥")
_SIGN = re.compile(r"[-+*/=<>≤≥≠±~≈^&|!→\u2200-\u22ff]+")


@dataclass(frozen=True, slots=True)
class Number:
    """A number as it may be meant.

    Attributes:
        values: the usual one first, in the base unit: 1,000 may be a thousand or one.
        unit: of the values; "clock", "date", and "" for a bare number.
        written: the usual value without its unit.
        counted: the word behind it in its sentence; "" for none.
        decimals: that are written.
    """

    values: tuple[Fraction, ...]
    unit: str = ""
    decimals: int = 0
    written: Fraction = Fraction()
    counted: str = ""

    def may_be(self, other: "Number") -> bool:
        is_one_unit = self.unit == other.unit or "" in (self.unit, other.unit)
        return is_one_unit and not set(self.values).isdisjoint(other.values)

    def is_other(self, other: "Number") -> bool:
        """True where both surely count one thing, and are not equal, not even rounded."""
        things = {self.unit or self.counted, other.unit or other.counted}
        if self.unit != other.unit or (len(things) > 1 and "" not in things) or self.may_be(other):
            return False
        if self.decimals == other.decimals:
            return True
        return all(100 * abs(a - b) > abs(a) for a, b in product(self.values, other.values))


@dataclass(frozen=True, slots=True)
class Asked:
    """What a question says of the numbers of its answers.

    Attributes:
        unit, factor: of bare ones; "" for none.
        are_names: digits are names, as those of a ZIP code.
    """

    unit: str = ""
    factor: Fraction = Fraction(1)
    are_names: bool = False


NOTHING_ASKED = Asked()


@dataclass(frozen=True, slots=True)
class Item:
    """A word, a number with its unit, a sign, or code.

    Attributes:
        key: by which others are compared: of a word without case and endings, of code as it is.
        says_nothing: it is a function word; names, as in "The Who", have capitals.
        ends: the mark of punctuation behind it, which ends a sentence or a part of it.
    """

    text: str
    kind: Literal["word", "number", "sign", "code"]
    key: str
    number: Number | None = None
    says_nothing: bool = False
    ends: str = ""


_START = Item("", "sign", "", ends=".")


@cache
def function_words(languages: Iterable[str] | None = None) -> frozenset[str]:
    """Words that say nothing by themselves, by their keys; of all 57 languages by default."""
    bearing = {*NEGATIONS, *AFFIRMATIONS, *opposed(), *_units(), *_months(), *_SCALES, *UNREAD}
    bearing |= _LETTERS_ALONE
    bearing.update(word for word in _number_words() if " " not in word)
    words = stopwords(languages or langs())
    return frozenset(map(key_of, words)) - bearing | ARTICLES


@cache
def _number_words() -> dict[str, int]:
    """Words of the numbers below 100, without what joins them: "vingt et un" is "vingt un"."""
    words = {digit: n for n, digit in enumerate(_HAN_DIGITS, 1)} | {"quatre-vingts": 80}
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
    for n, (ten, one) in enumerate(product(("", *_HAN_DIGITS[1:9]), ("", *_HAN_DIGITS[:9])), 10):
        words[f"{ten}十{one}"] = n
    keyed = {" ".join(map(key_of, word.replace("-", " ").split())): n for word, n in words.items()}
    return keyed | {"once": 0, "neuf": 0, "_": 0}  # in another language they are no numbers


@cache
def _beginnings() -> frozenset[str]:
    """Words with which a number or a date begins; most words are none."""
    return frozenset(word.split()[0] for word in (*_number_words(), *_months(), *_MINUS))


@cache
def _months() -> dict[str, int]:
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


def asked_of(question: str) -> Asked:
    """What a question says of the numbers of its answers; the unit, where it names one alone."""
    units = set()
    for item in read(question):
        if item.kind != "number" and len(item.text) > 1 and (unit := unit_of(item.text)):
            units.add(unit)
    are_names = bool(_NAMES.search(question.casefold()))
    if len(units) != 1:
        return Asked(are_names=are_names)
    return Asked(*units.pop(), are_names)


def read(text: str, asked: Asked = NOTHING_ASKED) -> tuple[Item, ...]:
    """The items of a text, in its order.

    >>> [item.key for item in read("It's 15mg of C++, twenty-one times: 'a'")]
    ['it', '3/200 g', 'of', 'C++', '21', 'time', "'a'"]
    """
    text = _RAISED.sub(lambda raised: f"^{raised[0]}", _VULGAR.sub(" ", text))
    text = _JSON_MARK.sub(" ", unicodedata.normalize("NFKC", text).translate(_PLAIN))
    text = _THOUSANDS.sub(lambda number: number[0].replace(" ", ""), _BOLD.sub("", text))
    text = _TENS.sub(r"e\1", _INITIALS.sub(r"\1.", text))
    items: list[Item] = []
    for chunk in _CHUNK.findall(text):
        for run in _RUN.findall(chunk):
            items += _items(run)
    return tuple(_joined(items, asked))


def _items(chunk: str) -> Iterator[Item]:
    """The items of what stands between blanks: mostly one."""
    if chunk.isascii() and chunk.isalpha() and chunk != "cannot":  # most of them
        yield Item(chunk, "word", key_of(chunk))
        return
    core = _bare(chunk.replace(" ", ""))
    ends = chunk[len(chunk.rstrip(_MARKS)) :][:1] if core != chunk else ""
    if re.match(f"[{_NO_BLANKS}]", core):
        yield from _of_run(core)
    elif _SIGN.fullmatch(core):
        yield Item(core, "sign", core)
    elif _WORD.fullmatch(core):
        verb, is_negated = _NOT_BEHIND.subn("", core)
        yield Item(verb, "word", key_of(verb), ends="" if is_negated else ends)
        if is_negated:
            yield Item("not", "word", "not", ends=ends)
    elif _ABBREVIATED.fullmatch(core):
        yield Item(core, "word", core.replace(".", "").casefold(), ends=ends)
    elif number := _number(core):
        yield Item(core, "number", "", number, ends=ends)
    elif span := _SPAN.fullmatch(core):
        yield from (*_items(span[1]), Item(span[2], "sign", span[2]), *_items(span[3]))
    elif core[0] in _UNARY and (number := _number(core[1:])):
        yield Item(core[0], "sign", core[0])
        yield Item(core[1:], "number", "", number, ends=ends)
    else:
        yield Item(core, "code", core, ends=ends)


def _bare(chunk: str) -> str:
    """A chunk without the punctuation of sentences, and without the marks around a word."""
    before = ""
    while chunk != before and len(chunk) < _LONGEST:
        before, chunk = chunk, chunk.rstrip(".,;:\u0964") or chunk
        if chunk[-1] in "!?" and (
            _WORD.fullmatch(chunk[:-1]) or re.search("[\\d\"'”»`]\\?$", chunk)
        ):
            chunk = chunk[:-1]
        if match := _MARKED.fullmatch(chunk):
            chunk = match[match.lastindex or 0]
        for mark in {chunk[0], chunk[-1]} & _PARTNER.keys():
            others, is_odd = chunk.count(_PARTNER[mark]), mark == _PARTNER[mark]
            if len(chunk) > 1 and (others % 2 if is_odd else chunk.count(mark) > others):
                chunk = chunk.removeprefix(mark) if chunk[0] == mark else chunk.removesuffix(mark)
    return chunk


def _of_run(run: str) -> Iterator[Item]:
    """Each two neighbours in a script without blanks; numbers, and what negates, by themselves."""
    for part in filter(None, re.split(f"({_HAN}|{_NOT})|{_BETWEEN}", run)):
        if number := _number_words().get(part):
            yield Item(part, "number", "", Number((Fraction(number),)))
        elif re.fullmatch(_NOT, part):
            yield Item(part, "word", "不")
        else:
            for pair in (part[i : i + 2] for i in range(max(1, len(part) - 1))):
                yield Item(pair, "word", pair)


def _number(core: str) -> Number | None:
    """The number that a chunk is; None for other chunks, and for digits that are a name: 007."""
    if date := _DATE.fullmatch(core):
        return _date(*map(int, date.group(1, 3, 4) if date[1] else date.group(7, 6, 5)))
    if (clock := _CLOCK.fullmatch(core)) and (clock[2] or clock[3]):
        return _clock(int(clock[1]) + Fraction(int(clock[2] or 0), 60), clock[3])
    match = _NUMBER.fullmatch(core[:_LONGEST])
    if match is None or re.match(r"0\d", match["digits"]) or core.endswith("0s"):  # the 1990s
        return None
    digits, group, tail = match["digits"], match["group"] or "", match["tail"] or ""
    readings = [digits.replace(group, "").replace(",", ".") if group else digits.replace(",", ".")]
    if digits.count(group) == 1 and group in ",." and "." not in readings[0]:
        readings.append(digits.replace(",", "."))
    unit, factor = unit_of(tail) or ("", Fraction(1))
    if match["money"]:
        unit, factor, tail = match["money"].removeprefix("US"), Fraction(1), tail.upper()
    if scale := _SCALES.get(tail) or (not unit and _SCALES.get(tail.casefold())):
        factor = Fraction(10) ** scale
    elif tail and not unit and tail not in _ORDINAL:
        return None
    factor *= Fraction(10) ** int(match["tens"] or 0) * (-1 if match["minus"] else 1)
    written = list(map(Fraction, readings))
    values = tuple(value * factor for value in written)
    decimals = len(readings[0].partition(".")[2])
    return Number(values, unit, decimals, written[0])


def _date(year: int, month: int, day: int) -> Number:
    """A date; its day of any year, and its month, are others that it may be."""
    forms = (10_000 * year + 100 * month + day, 100 * year + month, 100 * month + day)
    return Number(tuple(map(Fraction, forms)), "date")


def _clock(hours: Fraction, half: str | None) -> Number:
    if half:
        hours = hours % 12 + 12 * (half == "p")
    return Number((Fraction(hours),), "clock", written=(hours - 1) % 12 + 1)


def _joined(items: Sequence[Item], asked: Asked) -> Iterator[Item]:
    """Items with what belongs to a number as one: its words, scale, unit, sign and month."""
    i, before, earlier = 0, _START, _START
    while i < len(items):
        item, end = _number_at(items, i)
        if item.text in _UNARY and end < len(items) and _is_unary(before):
            signed, after = _number_at(items, end)
            if signed.number:
                unit = item.text + signed.number.unit
                item, end = replace(signed, number=replace(signed.number, unit=unit)), after
        if item.number:
            item = _as_asked(item, before, asked)
        elif item.key in ("to", "bis") and before.number and items[end:] and items[end].number:
            item = Item("-", "sign", "-")
        elif item.kind == "word":
            behind = items[end] if end < len(items) else _START
            is_passive = item.key == "by" and earlier.key in PASSIVE  # "by" tells who did it
            says_nothing = not is_passive and _says_nothing(item, before, behind)
            if says_nothing:
                item = replace(item, says_nothing=True)
        yield item
        i, before, earlier = end, item, before


def _is_unary(before: Item) -> bool:
    """True where a sign behind this stands before what it changes: not "x > 5"."""
    return before is _START or (before.kind == "word" and len(before.text) > 1)


def _says_nothing(item: Item, before: Item, behind: Item) -> bool:
    """True for a function word; names, as in "The Who" and "Elizabeth I", have capitals."""
    is_last = behind is _START or item.ends != ""
    if (before.kind == "sign" and before is not _START) or (
        behind.kind == "sign" and not is_last
    ):  # "a - b"
        return False
    if len(item.text) == 1 and (item.text.isupper() or is_last):  # a label, most often
        begins_noun = before.ends in _STOPS and behind.text.islower() and behind.key not in PASSIVE
        is_pronoun = item.text == "I" and not is_last and not before.text[:1].isupper()
        return is_pronoun or (item.text == "A" and begins_noun and not is_last)
    if item.text.islower() or item.key in ARTICLES:
        return item.key in function_words()
    if item.key in ("will", "may") and behind.text[:1].isupper():
        return False
    return before.ends in _STOPS and item.key in function_words(_BEGINNING)


def _as_asked(item: Item, before: Item, asked: Asked) -> Item:
    """A number with the unit that its question names; as code where its digits are a name."""
    number = item.number or Number(())
    is_name = (
        not before.text.islower()
        and before.kind == "word"
        and not before.says_nothing
        and "." in item.text
    )
    if not number.unit and (asked.are_names or is_name or _NAMES.search(before.key)):
        return replace(item, kind="code", key=item.text, number=None)
    if asked.unit and not number.unit:
        values = tuple(value * asked.factor for value in number.values)
        number = replace(number, values=values, unit=asked.unit, written=number.values[0])
    return replace(item, key=f"{number.values[0]} {number.unit}".strip(), number=number)


def _number_at(items: Sequence[Item], start: int) -> tuple[Item, int]:
    """The item at a place, a number with all that belongs to it, and where it ends."""
    item, end = items[start], start + 1
    number = item.number
    if item.kind == "word" and item.key.partition("-")[0] in _beginnings():
        number, end = _spelled(items, start)
    if number is None:
        return item, start + 1
    while end < len(items) and not (item.kind == "word" and items[end].key in UNREAD):
        larger = _with(number, items[end], is_apart=items[end - 1].ends != "")
        if larger is None:
            break
        number, end = larger, end + 1
    text = " ".join(part.text for part in items[start:end])
    return Item(text, "number", "", number, ends=items[end - 1].ends), end


def _spelled(items: Sequence[Item], start: int) -> tuple[Number | None, int]:
    """The number that begins with a word, and where it ends: "twenty one", "minus 5", "May 3"."""
    item, *following = items[start : start + 3]
    if item.ends:
        following = []
    if following and (number := following[0].number):
        value, month = int(number.values[0]), _months().get(item.key)
        if month and not number.unit and 0 < value < 32:
            return Number((Fraction(100 * month + value),), "date"), start + 2
        if month and not number.unit and 999 < value < 10_000:
            return Number((Fraction(100 * value + month),), "date"), start + 2
    if item.key in _MINUS and following and following[0].key not in _MINUS:
        behind, end = _number_at(items, start + 1)
        if behind.number:
            values = tuple(-value for value in behind.number.values)
            return replace(behind.number, values=values), end
    words = item.key.replace("-", " ")
    for length in range(len(following), -1, -1):
        parts = [words]
        for part in following[:length]:
            if part.key not in ("et", "y"):
                parts.append(part.key)
        number_of = _number_words().get(" ".join(parts), 0)
        is_article = number_of == 1 and not item.ends and start + 1 < len(items)
        if number_of and not is_article:
            return Number((Fraction(number_of),)), start + 1 + length
    return None, start


def _with(number: Number, item: Item, *, is_apart: bool) -> Number | None:
    """A number with an item behind it that belongs to it; None where that does not."""
    value, is_bare, month = number.values[0], not number.unit, _months().get(item.key)
    if month and is_bare and value.denominator == 1 and 0 < value < 32:  # "8 May", "8. Mai"
        return Number((Fraction(100 * month + int(value)),), "date")
    if number.unit == "date" and value < 10_000 and item.number and not item.number.unit:
        month, day = divmod(int(value), 100)
        year = int(item.number.values[0])
        return _date(year, month, day) if 999 < year < 10_000 else None
    if is_apart or item.kind == "number":
        return None
    scale = _SCALES.get(item.text if len(item.text) == 1 else item.key)
    if scale and abs(value) < _LARGEST:
        return replace(number, values=tuple(value * 10**scale for value in number.values))
    if is_bare and item.key in _BESIDE:
        return number
    if item.key in ("am", "pm") and number.unit in ("", "clock") and value <= 12:
        return _clock(value, item.key[0])
    if is_bare and (unit := unit_of(item.text)):
        values = tuple(value * unit[1] for value in number.values)
        return replace(number, values=values, unit=unit[0], written=value)
    return None
