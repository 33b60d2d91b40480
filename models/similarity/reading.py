"""Pure: the words, numbers and signs of a text, in linear time.

What stands between blanks is a word, a number or a sign, or else taken letter by letter, as code.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain, filterfalse, product
from operator import attrgetter
from typing import Literal, NamedTuple

from models.similarity.vocabulary import (
    ARTICLES,
    BESIDE,
    HAN_DIGITS,
    MINUS,
    NAMES,
    PASSIVE,
    SCALES,
    UNREAD,
    beginnings,
    function_words,
    key_of,
    languages_of,
    months,
    number_words,
    unit_of,
)

_LONGEST = 100  # characters of a word or a number
_LARGEST = 10**24  # number that is scaled

# Scripts without blanks between words, what stands between them there, and what negates.
NO_BLANKS = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u309f\u3400-\u9fff\uf900-\ufaff"
_BETWEEN = "です|ます|でした|ました|[的是在了和与與のはがをにでともへや、。・]"
_NOT = "不|没|沒|無|无|非|未|ない|なかった|なく|(?:あり)?ません"
_DIGIT = f"[{HAN_DIGITS}]"
_HAN = f"{_DIGIT}(?=[月日])|(?<![百千万億亿]){_DIGIT}{{2,4}}(?![百千万億亿〇零])"
_RUN = re.compile(f"[{NO_BLANKS}\u3001\u3002]+|[^{NO_BLANKS}\u3001\u3002]+")
# What stands between blanks; a tuple or a set with its blanks.
_PART = r"-?[\w.]{1,8}"
_TUPLE = re.compile(rf"[(\[{{]{_PART}(?:[,;]\s?{_PART}){{1,9}}[)\]}}]")
_CHUNK = re.compile(rf"{_TUPLE.pattern}|\S+")
_MARKUP = re.compile(r'["*^\d]')  # without which there are no JSON, bold, thousands and tens
_JSON_MARK = re.compile(r'(?<="[:,])(?=\S)|(?<=[\w}\]],)(?=")')
_THOUSANDS = re.compile(r"(?<![\d.,])(\d{1,3}(?: \d{3})+)(?![\d.,]?\d)")
_INITIALS = re.compile(r"\b([A-Z])\.\s(?=[A-Z]\.)")
_TENS = re.compile(r"(?<=\d)\s?[x*\u00b7]\s?10\^(-?\d{1,2})(?!\d)")
_BOLD = re.compile(r"(?<!\s)\*\*(?!\w)|(?<!\w)\*\*(?!\s)")
_PERCENT = re.compile(r"(?i)\b(?:per|pour|por) (?:cent|ciento)\b")
_RAISED, _VULGAR = re.compile("⁻?[⁰¹²³⁴-⁹]+"), re.compile("(?=[¼-¾⅐-⅞])")
_PLAIN = str.maketrans("\u2212\u2013\u2010\u2014\u00d7\u00f7\u2019\u30fb", "----*/' ")
# Of letters in scripts that write them apart.
MARKS = r"\u0300-\u036f\u05b0-\u05c7\u064b-\u065f\u0900-\u0dff"
_LETTERS = rf"[^\W\d_](?:[^\W\d_]|(?=[\W\d_])[{MARKS}])*"  # each character in one way
_WORD = re.compile(rf"(?!\w'$){_LETTERS}(?:['&-]{_LETTERS})*'?")
# What most chunks are, and a mark behind it.
_PLAIN_WORD = re.compile(r"(?!cannot$|(?i:cannot)\W)([A-Za-z]{1,98})((?:(?<=\w\w)[.,;:!?])?)")
_NOT_BEHIND = re.compile(r"(?i)(?<=\bcan)not$|n't$|^n'(?=[^\W_])")
_SHORTENED = {"won't": "will", "can't": "can", "shan't": "shall"}
_ABBREVIATED = re.compile(r"[^\W\d_](?:\.[^\W\d_])+")
# A word in brackets or quotation marks, a word or a number in bold.
_MARKED = re.compile(
    rf"""\(({_LETTERS})\)|["'“«`]([A-Z]|{_LETTERS}{_LETTERS}(?:[_-]{_LETTERS})*)["'”»`]"""
    r"|(?:\*+|_+)([^*_]+)(?:\*+|_+)"
)
_MARKS, _STOPS = ".,;:!?\u0964", frozenset(".!?\u0964")
_PARTNER = dict(zip('()[]{}“”"', ')(][}{”“"', strict=True))
_FRACTION = re.compile("([1-9]\\d{0,3})[/⁄]([1-9]\\d{0,3})")
_CLOCK = re.compile(r"(\d{1,2})(?::(\d\d))?(?::\d\d)?(?:([ap])m)?")
_DATE = re.compile(  # the month of 3/4/2020 depends on the country
    r"(\d{4})([-/])(\d\d)\2(\d\d)|(\d{1,2}(?=\.)|1[3-9]|2\d|3[01])([./])(\d{1,2})\6(\d{4})"
)
_MONEY = "[$€£¥₹₽₩]"
_NUMBER = re.compile(
    rf"(?P<minus>-?)(?P<money>[A-Z]{{0,2}}{_MONEY})?(?P<digits>[1-9]\d{{0,2}}(?P<group>[,.'])\d{{3}}"
    r"(?:(?P=group)\d{3})*(?:[.,]\d+)?|\d*[.,]?\d+)(?:e(?P<tens>[-+]?\d{1,2}))?"
    rf"(?P<tail>{_MONEY}|[%‰]|°[CF]?|[^\W\d_]{{1,9}})?"
)
_ORDINAL = frozenset(("st", "nd", "rd", "th", "e"))
_SPAN = re.compile(r"(?!\d{4}-\d\d$)(\d[\d.,]*)([-:])(\d[\d.,]*)")  # 1914-18 is none
_NOTE = re.compile(r"(?<=\w[.!?])(?:[⁰¹²³⁴-⁹†,]+|(?:\[\d{1,3}\])+)(?!\w)|~~")
_BULLET = re.compile(r"(?m)^[ \t]*[-*+•●·‣▪][ \t]+(?=[^\W\d_])")
_LONGEST_LINE, _MAX_PROMPT = 500, 2_000
_ASKS = re.compile(r"\?(?!\w)|[\uff1f\u061f]")  # "?" in a URL asks nothing
# Behind a word that is no abbreviation.
_SENTENCE_END = re.compile(
    r"(?<=\w{3}[.!?])\s+|(?<=[\d)\"\u201d][.!?])\s+|(?<=[\u3002\uff1f\u061f])\s*"
)
_UNARY = frozenset("+±~≈<>≤≥")
_SIGN = re.compile(r"[-+*/=<>≤≥≠±~≈^&|!→\u2200-\u22ff]+")


@dataclass(frozen=True, slots=True)
class Number:
    """A number as it may be meant."""

    # The usual one first, in the base unit: 1,000 may be a thousand or one.
    values: tuple[Fraction, ...]
    unit: str = ""  # of the values; "clock", "date", and "" for a bare number
    decimals: int = 0  # that are written
    written: Fraction = Fraction()  # the usual value without its unit
    counted: str = ""  # the word behind it in its sentence; "" for none
    name: str = ""  # what is written, where digits are a name, as those of a version

    def may_be(self, other: "Number") -> bool:
        if self.name and other.name:
            return self.name == other.name
        is_one_unit = self.unit == other.unit or "" in (self.unit, other.unit)
        return is_one_unit and not set(self.values).isdisjoint(other.values)

    def is_other(self, other: "Number") -> bool:
        """True where both surely count one thing, and are not equal, not even rounded.

        So many of one unit are not as many of another.
        """
        units = {self.unit, other.unit}
        if len(units) > 1 and all(unit[-1:].isalpha() or unit in _MONEY for unit in units):
            return self.written == other.written > 0 and "" not in units
        things = {self.unit or self.counted, other.unit or other.counted}
        if len(units) > 1 or (len(things) > 1 and "" not in things) or self.may_be(other):
            return False
        if self.decimals == other.decimals or (self.name and other.name):
            return True
        return all(100 * abs(a - b) > abs(a) for a, b in product(self.values, other.values))


@dataclass(frozen=True, slots=True)
class Asked:
    """What a question says of the words and numbers of its answers."""

    # Of bare numbers; "" for none.
    unit: str = ""
    factor: Fraction = Fraction(1)
    are_names: bool = False  # digits are names, as those of a ZIP code
    languages: frozenset[str] = frozenset()  # that it is written in, as far as its words tell
    words: frozenset[str] = frozenset()  # the keys of its own that say something


NOTHING_ASKED = Asked()


class Item(NamedTuple):
    """A word, a number with its unit, a sign, or code."""

    text: str
    kind: Literal["word", "number", "sign", "code"]
    key: str  # by which others are compared: of a word without case and endings, of code as it is
    number: Number | None = None
    says_nothing: bool = False  # it is a function word; names, as in "The Who", have capitals
    ends: str = ""  # the mark of punctuation behind it, which ends a sentence or a part of it


_START = Item("", "sign", "", ends=".")
_KEY = attrgetter("key")


# What stands around them may hold the answer: a text to read, questions that are answered.
def asked_in(prompt: str) -> str:
    """The questions of the last line that has one; all short lines where none has."""
    prompt = prompt[-_MAX_PROMPT:]
    lines = prompt.splitlines()
    for line in reversed(lines):
        if _ASKS.search(line):
            return " ".join(filter(_ASKS.search, _SENTENCE_END.split(line)))
    return " ".join(line for line in lines if len(line) <= _LONGEST_LINE) or prompt


def asked_of(question: str) -> Asked:
    """What a question says of its answers' words and numbers; the unit it names alone."""
    items = read(question)
    words = map(_KEY, filterfalse(attrgetter("says_nothing"), items))
    names = [item.text for item in items if item.kind != "number" and len(item.text) > 1]
    units = set(filter(None, map(unit_of, names)))
    are_names, languages = bool(NAMES.search(question.casefold())), languages_of(map(_KEY, items))
    if len(units) != 1:
        units = {("", Fraction(1))}
    return Asked(*units.pop(), are_names, languages, frozenset(words))


def read(text: str, asked: Asked = NOTHING_ASKED) -> tuple[Item, ...]:
    """The items of a text, in its order.

    >>> [item.key for item in read("It's 15mg of C++, twenty-one times: 'a'")]
    ['it', '3/200 g', 'of', 'C++', '21', 'time', "'a'"]
    """
    text = _NOTE.sub("", text)
    if not text.isascii():
        text = _RAISED.sub(lambda raised: f"^{raised[0]}", _VULGAR.sub(" ", text))
        text = unicodedata.normalize("NFKC", text).translate(_PLAIN)
    if _MARKUP.search(text):
        text = _BOLD.sub("", _JSON_MARK.sub(" ", text))
        text = _THOUSANDS.sub(lambda number: number[0].replace(" ", ""), text)
        text = _TENS.sub(r"e\1", text)
    text = _BULLET.sub("", _PERCENT.sub("%", _INITIALS.sub(r"\1.", text)))
    items: list[Item] = []
    for chunk in _CHUNK.findall(text):
        if plain := _PLAIN_WORD.fullmatch(chunk):  # most of them
            word, ends = plain.groups()
            items.append(Item(word, "word", key_of(word), None, False, ends))
        else:
            items += chain.from_iterable(map(_items, _RUN.findall(chunk)))
    return tuple(_joined(items, asked))


def _items(chunk: str) -> Iterator[Item]:
    """The items of what stands between blanks: mostly one."""
    core = _bare(chunk.replace(" ", ""))
    ends = chunk[len(chunk.rstrip(_MARKS)) :][:1] if core != chunk else ""
    if re.match(f"[{NO_BLANKS}]", core):
        yield from _of_run(core)
    elif _SIGN.fullmatch(core):
        yield Item(core, "sign", core)
    elif _WORD.fullmatch(core):
        verb, is_negated = _NOT_BEHIND.subn("", core)
        verb = _SHORTENED.get(core.casefold(), verb)
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
    before = chunk if _TUPLE.fullmatch(chunk) else ""
    while chunk != before and len(chunk) < _LONGEST:
        before, chunk = chunk, chunk.rstrip(".,;:\u0964") or chunk
        is_word = _WORD.fullmatch(chunk[:-1]) and not (len(chunk) == 2 and chunk[0].islower())
        if chunk[-1] in "!?" and (is_word or re.search("[\\d\"'”»`]\\?$", chunk)):
            chunk = chunk[:-1]
        if match := _MARKED.fullmatch(chunk):
            chunk = match[match.lastindex or 0]
        for mark in sorted({chunk[0], chunk[-1]} & _PARTNER.keys()):
            others, is_odd = chunk.count(_PARTNER[mark]), mark == _PARTNER[mark]
            if len(chunk) > 1 and (others % 2 if is_odd else chunk.count(mark) > others):
                chunk = chunk.removeprefix(mark) if chunk[0] == mark else chunk.removesuffix(mark)
    return chunk


def _of_run(run: str) -> Iterator[Item]:
    """Each two neighbours in a script without blanks; numbers, and what negates, by themselves."""
    parts = list(filter(None, re.split(f"({_HAN}|{_NOT})|{_BETWEEN}", run)))
    for part in parts or re.findall("是", run):  # which affirms, alone
        if number := number_words().get(part):
            yield Item(part, "number", "", Number((Fraction(number),)))
        elif re.fullmatch(_NOT, part):
            yield Item(part, "word", "不")
        else:
            for pair in (part[i : i + 2] for i in range(max(1, len(part) - 1))):
                yield Item(pair, "word", pair)


def _number(core: str) -> Number | None:
    """The number that a chunk is; None for other chunks, and for digits that are a name: 007."""
    if date := _DATE.fullmatch(core):
        return _date(*map(int, date.group(1, 3, 4) if date[1] else date.group(8, 7, 5)))
    if fraction := _FRACTION.fullmatch(core):
        return Number((Fraction(int(fraction[1]), int(fraction[2])),))
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
        unit, factor = match["money"].removeprefix("US"), Fraction(1)
        tail = {"m": "M", "b": "bn", "B": "bn"}.get(tail, tail)
    is_unit = bool(unit) and not match["money"]
    if scale := SCALES.get(tail) or (not is_unit and SCALES.get(tail.casefold())):
        factor = Fraction(10) ** scale
    elif tail and not is_unit and tail not in _ORDINAL:
        return None
    factor *= Fraction(10) ** int(match["tens"] or 0) * (-1 if match["minus"] else 1)
    written = list(map(Fraction, readings))
    values = tuple(value * factor for value in written)
    return Number(values, unit, len(readings[0].partition(".")[2]), written[0])


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
    words = function_words(languages_of(map(_KEY, items), asked.languages))
    while i < len(items):
        item, end = _number_at(items, i)
        is_unary = before.key in ("", "=") or (before.kind == "word" and len(before.text) > 1)
        if is_unary and item.text in _UNARY and end < len(items):  # not "x > 5"
            signed, after = _number_at(items, end)
            if signed.number:
                unit = item.text + signed.number.unit
                item, end = signed._replace(number=replace(signed.number, unit=unit)), after
        behind = items[end] if end < len(items) else _START
        is_agent = item.key == "by" and earlier.key in PASSIVE  # that tells who did it
        if item.number:
            item = _as_asked(item, before, asked)
        elif item.key in ("to", "bis") and before.number and behind.number:
            item = Item("-", "sign", "-")
        elif item.kind == "word" and not is_agent and _says_nothing(item, before, behind, words):
            item = Item(item.text, "word", item.key, None, True, item.ends)
        yield item
        i, before, earlier = end, item, before


def _says_nothing(item: Item, before: Item, behind: Item, words: Set[str]) -> bool:
    """True for a function word; names, as in "The Who" and "Elizabeth I", have capitals."""
    is_last = behind is _START or item.ends != ""
    is_behind_sign = before.kind == "sign" and before is not _START
    if is_behind_sign or (behind.kind == "sign" and not is_last):  # "a - b"
        return False
    is_told = before.key in PASSIVE or before.ends == ":" or before.key in ARTICLES
    if is_last and is_told and item.key not in ARTICLES:  # "It is full", "a dog", "Advice: buy"
        return False
    if len(item.text) == 1 and (item.text.isupper() or is_last):  # a label, most often
        begins_noun = before.ends in _STOPS and behind.text.islower() and behind.key not in PASSIVE
        is_pronoun = item.text == "I" and not is_last and not before.text[:1].isupper()
        return is_pronoun or (item.text == "A" and begins_noun and not is_last)
    is_name = item.key in ("will", "may") and behind.text[:1].isupper()
    if item.text == item.text.lower() or (before.ends in _STOPS and not is_name):
        return item.key in words
    return item.key in ARTICLES


def _as_asked(item: Item, before: Item, asked: Asked) -> Item:
    """A number with the unit that its question names; as code where its digits are a name."""
    number = item.number or Number(())
    may_name = before.kind in ("word", "code") and not (before.says_nothing or before.ends)
    is_name = may_name and "." in item.text and not before.text.islower()
    is_name = is_name or asked.are_names or bool(NAMES.search(before.key))
    if is_name and not number.unit and item.text[0].isdigit():
        number = replace(number, name=item.text)
        return item._replace(key=item.text, number=number)
    if asked.unit and not number.unit:
        values = tuple(value * asked.factor for value in number.values)
        number = replace(number, values=values, unit=asked.unit, written=number.values[0])
    return item._replace(key=f"{number.values[0]} {number.unit}".strip(), number=number)


def _number_at(items: Sequence[Item], start: int) -> tuple[Item, int]:
    """The item at a place, a number with all that belongs to it, and where it ends."""
    item, end = items[start], start + 1
    number = item.number
    if item.kind == "word" and item.key.partition("-")[0] in beginnings():
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
    if item.ends and not (item.ends == "." and item.key in months()):  # "Dec. 25"
        following = []
    if following and (number := following[0].number):
        value, month = int(number.values[0]), months().get(item.key)
        if month and not number.unit and 0 < value < 32:
            return Number((Fraction(100 * month + value),), "date"), start + 2
        if month and not number.unit and 999 < value < 10_000:
            return Number((Fraction(100 * value + month),), "date"), start + 2
    if item.key in MINUS and following and following[0].key not in MINUS:
        behind, end = _number_at(items, start + 1)
        if behind.number:
            values = tuple(-value for value in behind.number.values)
            return replace(behind.number, values=values), end
    words = item.key.replace("-", " ")
    for length in range(len(following), -1, -1):
        parts = [part.key for part in following[:length] if part.key not in ("et", "y")]
        number_of = number_words().get(" ".join((words, *parts)), 0)
        is_article = item.key in ARTICLES and not item.ends and start + 1 < len(items)
        if number_of and not is_article:
            return Number((Fraction(number_of),)), start + 1 + length
    return None, start


def _with(number: Number, item: Item, *, is_apart: bool) -> Number | None:
    """A number with an item behind it that belongs to it; None where that does not."""
    value, is_bare, month = number.values[0], not number.unit, months().get(item.key)
    if month and is_bare and value.denominator == 1 and 0 < value < 32:  # "8 May", "8. Mai"
        return Number((Fraction(100 * month + int(value)),), "date")
    if number.unit == "date" and value < 10_000 and item.number and not item.number.unit:
        month, day = divmod(int(value), 100)
        year = int(item.number.values[0])
        return _date(year, month, day) if 999 < year < 10_000 else None
    is_whole = is_bare and value.denominator == 1 and not is_apart
    if is_whole and item.number and _FRACTION.fullmatch(item.text) and item.number.values[0] < 1:
        return Number((value + item.number.values[0],))  # 5 1/2
    if is_apart or item.kind == "number":
        return None
    scale = SCALES.get(item.text if len(item.text) == 1 else item.key)
    if scale and abs(value) < _LARGEST:
        return replace(number, values=tuple(value * 10**scale for value in number.values))
    if (is_bare or number.unit == "date") and item.key in BESIDE:
        return number
    if item.key in ("am", "pm") and number.unit in ("", "clock") and value <= 12:
        return _clock(value, item.key[0])
    if is_bare and (unit := unit_of(item.text)):
        values = tuple(value * unit[1] for value in number.values)
        return replace(number, values=values, unit=unit[0], written=value)
    return None
