"""Pure: the words, numbers and signs of a text, as answers are compared by them.

Digits are read as people write them. Marks of LaTeX and of Markdown say nothing.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache

from models.similarity.numbers import FIRST_WORDS, MONTH_OF, Number, in_words, listed, scales_of
from models.similarity.spelled import in_digits
from models.similarity.units import DEGREES, PER, POWERS, Measure, raised, speed_of, unit_of


@dataclass(frozen=True, slots=True)
class Item:
    """A word, a number with its unit, or a sign.

    Attributes:
        text: as it is written.
        frame: its words in lower case and signs; the sign # in the place of each number.
        numbers: of a date three, of "H2O" one.
        word: in lower case; "" of a number or a sign.
    """

    text: str
    frame: tuple[str, ...]
    numbers: tuple[Number, ...] = ()
    word: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        is_word = not self.numbers and self.text not in SIGNS
        object.__setattr__(self, "word", "-".join(self.frame) if is_word else "")


NUMBER = ("#",)
# Words that Roman numerals of one letter follow; what follows an "I" may show that it is one.
COUNTED = listed("type class phase stage grade level part book chapter section act factor war")
_ROMANS = "I II III IV V VI VII VIII IX X XI XII XIII XIV XV XVI XVII XVIII XIX XX XXI"
_ROMAN = {numeral: number for number, numeral in enumerate(_ROMANS.split(), 1)}
_BEHIND_FIRST = re.compile(r"\s*(?:$|[.,;:)]|of\b)")
_MINUS = frozenset(("minus", "moins", "menos", "meno"))
# Bound of a number's digits; Python reads no more of them than some thousands.
_MAX_DIGITS = 400
# Powers of ten that a last digit may count.
_STEPS = {exponent: Fraction(10) ** exponent for exponent in range(-12, 13)}
# Characters of a text whose items are remembered for a while.
_LONGEST_REMEMBERED = 2_000

# Scripts without blanks, all but katakana; what stands between words there, and what negates.
_NO_BLANKS = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u309f\u3400-\u9fff\uf900-\ufaff"
_BETWEEN = "です|ます|でした|ました|[的是在了和与與のはがをにでともへや]"
_NOT = "不|没|沒|無|无|非|未|ない|なかった|なく|ません"
# Letters with the signs of vowels that belong to them.
_VOWELS = r"\u0300-\u036f\u05b0-\u05c7\u064b-\u065f\u0900-\u0963\u0966-\u0dff"
_LETTER = rf"(?:(?![{_NO_BLANKS}])[^\W\d_]|[{_VOWELS}])"
# Signs that stand before what they change, and all that say something between two others.
PREFIXES = frozenset("±<>\u2264\u2265\u221a\u00ac!")
_SPELLED = {"\u2013": "-", "\u2212": "-", "\u00d7": "*", "\u00f7": "/"}
_SPELLED |= {"==": "=", "===": "=", "!=": "\u2260", "<=": "\u2264", ">=": "\u2265", "->": "\u2192"}
SIGNS = PREFIXES | listed("+ - * / : ^ ^- ** // = < > && || += -= *= /=")
SIGNS |= {chr(code) for code in (*range(0x2190, 0x2212), *range(0x2213, 0x2300))}
_MANY = Number((Fraction(2),))
# Between a number and what is no unit of it.
STOP = Item("", ("",))
_EXPONENT = r"[-+\u2212]?\d{1,3}"
_TERM = "[A-Za-z0-9\u0370-\u03ff\u221a+*/^.,!\u00b7\\s-]"
_ARGUMENT = rf"(?:(?![A-Za-z]{{5}})(?:{_TERM}|\({_TERM}{{1,30}}\)))"
_SUM = r"[^()]{0,60}[-+][^()]{1,60}"
_MONEY, _CODES = "$€£¥₹₽₩", "USD|EUR|GBP|CHF|CAD|AUD|NZD|SEK|NOK|DKK|PLN|RUB|INR|CNY|JPY"
_SIGN = r"[-+*/:^=<>|&!±\u00ac\u00d7\u00f7\u2013\u2190-\u22ff]"  # the last may be a number's: "=-5"
# "24/7" is no part.
_PROPER = "1/[2-9]|2/[3579]|3/[4578]|4/[579]|5/[6-9]|6/7|7/[89]|8/9|\\d{1,3}\u2044[1-9]\\d{0,2}"
_TOKEN = re.compile(
    rf"""
    (?P<run>[{_NO_BLANKS}]+)
    | (?P<minus>(?<![\w)\]%°])[-\u2212](?=[\d{_MONEY}]|\.\d))?
      (?P<money>(?:\b[A-Z]{{1,2}})?[{_MONEY}]\s?(?=\.?\d)|\b(?:{_CODES})\s?(?=\d))?(?:
        (?P<iso>\d{{4}}(?P<separator>[-/])\d\d(?P=separator)\d\d(?!\d))
      | (?P<decade>(?:1\d|20)\d0|\d0(?:(?<=\bthe\s\d0)|(?<=['\u2019]\d0)|(?=er)))
            (?:s\b|er(?=\sJahre))
      | (?P<clock>\d{{1,2}}(?::\d\d(?::\d\d)?(?!\d)
          |(?=\s?(?:[ap]\.?m\b|[AP]M\b))(?!\s?am\s+[^\W\d])))
        (?:\s*(?P<half>[apAP])\.?[mM]\b\.?)?
      | (?P<date>\d{{1,2}}\.\d{{1,2}}\.\d{{4}}(?!\d))
      | (?P<grouped>[1-9]\d{{0,2}}(?P<comma>[,.'\u2019\u00a0\u202f\x20])
            \d{{3}}(?:(?P=comma)\d{{3}})*(?!\d|[eE][-+]?\d|\s?[\u00d7x*\u00b7]\s?10\^))
        (?P<decimals>[.,]\d+)?
      | (?P<version>\d+(?:\.\d+){{2,}})
      | (?P<fraction>(?<![\d/])(?:{_PROPER})(?![\d/]))
      | 10\^\{{?(?P<power>{_EXPONENT})\}}?
      | (?P<plain>\d+(?:[.,]\d+)?|(?<![\w.)\]])\.\d+)
        (?:\s?[\u00d7x*\u00b7]\s?10\^\{{?(?P<tens>{_EXPONENT})\}}?|[eE](?P<e>{_EXPONENT})(?!\w))?
    )(?P<ordinal>(?:st|nd|rd|th|er|ère|ème|e)\b)?
    | (?P<call>(?:(?<![\w.])(?![A-Z]{{2}})[A-Za-z\u0398\u03a9]{{1,3}}\((?!s\))
        |\((?={_SUM}\)[\^*/(])|(?:(?<=[\d^*/])|(?<=\d\s))\((?={_SUM}\))){_ARGUMENT}{{1,60}}\))
    | (?P<word>(?:(?<![\w-])-[A-Za-z]|(?<=\w\s)-[A-Za-z]{{2,3}})(?![\w-])  # options of commands
        |°\s?[CF]\b|(?:km|mi?)/[hs]\b
        |{_LETTER}+(?:\d+(?:\.\d+)*[^\W_]*|(?:['\u2019.:-]{_LETTER}+)*)
         (?:[+#♭♯]+(?!\w)|(?:(?<=[A-Z])|(?<=[A-Z][a-z])|(?<=\d))[-\u2212](?!\w|\s[a-z]))?)
    | (?P<mark>[%‰{_MONEY}]|&(?!&))
    | (?P<stop>[,;.?])(?!\w)
    | (?P<sign>{_SIGN}(?:(?!-\.?\d){_SIGN})*)
    """,
    re.VERBOSE,
)
_INITIALS = re.compile(r"(?<![\w.])(?:[A-Z]\.(?: ?[A-Z]\.)+|[^\W\d_](?:\.[^\W\d_])+(?!\w)\.?)")
_RAISED = re.compile("⁻?[⁰¹²³⁴-⁹]+(?![⁰¹²³⁴-⁹⁺⁻])")
_MARKED = str.maketrans(
    {"º": "°", "\u2032": "'", "\u2033": "''", "⁺": "+", "⁻": "-", "\u2212": "-"}
)
_VULGAR, _DIGIT = re.compile("(?=[¼-¾⅐-⅞])"), re.compile(r"(?![0-9])\d")
# "(3, -4)", where order counts, and "{1,2}", whose comma begins no decimals.
_SOME_NUMBER = r"\s*[-\u2212]?\d+(?:\.\d+)?\s*"
_GROUPED = r"-?\d{1,3},\d{3}\W"
_TUPLE = re.compile(rf"(?<=[(\[{{])(?!{_GROUPED})(?:{_SOME_NUMBER}[,;])+{_SOME_NUMBER}(?=[)\]}}])")
# Ends of the terms that a sign stands between; brackets and marks may be around it.
_ENDS, _BEGINS = re.compile(r"[\w)\]}%][\"'`*]*\s?\Z"), re.compile(r"\s?[\"'`*]*[\w(\[{\u221a-]")
# Terms beside a minus sign between blanks: a number, a letter, or both.
_TERM_BEFORE, _TERM_BEHIND = re.compile(r"(?<!\w)\d*[^\W\d_]?\Z"), re.compile(r"\d*[^\W\d_]?(?!\w)")


def read(text: str) -> tuple[Item, ...]:
    """The items of a text, in its order.

    >>> [item.text for item in read("Take 15mg of C++ -- twenty one times, 東京.")]
    ['Take', '15 mg', 'of', 'C++', 'twenty one', 'times', '東京']
    """
    return _remembered(text) if len(text) <= _LONGEST_REMEMBERED else _read(text)


def _read(text: str) -> tuple[Item, ...]:
    if not text.isascii():
        text = _RAISED.sub(lambda raised: f"^{raised[0]}", _VULGAR.sub(" ", text))
        text = unicodedata.normalize("NFKC", text.translate(_MARKED))
        text = _DIGIT.sub(lambda digit: str(int(digit[0])), text)
    text = with_joined_initials(in_digits(_TUPLE.sub(_with_signs, text)))
    items = list[Item]()
    for match in _TOKEN.finditer(text):
        word = match[0]
        if word.islower() and word.isalpha() and match.lastgroup == "word":  # most of them
            items.append(Item(word, (word.casefold(),)))
        else:
            items += _items(match, items)
    return tuple(_prefixed(list(_with_months(_summed(_joined(items))))))


# The rules read a text several times: what it adds, whole, and against each other one.
_remembered = lru_cache(maxsize=128)(_read)


def _with_signs(numbers: re.Match[str]) -> str:
    is_set = numbers.string[numbers.start() - 1] == "{"
    return re.sub(r"\s*[,;]\s*", ", " if is_set else " \u2218 ", numbers[0])


def with_joined_initials(text: str) -> str:
    """The text with abbreviations of single letters as words.

    >>> with_joined_initials("J. R. R. Tolkien in the U.S., vitamin A. A carrot")
    'JRR Tolkien in the US, vitamin A. A carrot'
    """
    return _INITIALS.sub(lambda initials: re.sub("[. ]", "", initials[0]), text)


def _items(match: re.Match[str], before: Sequence[Item]) -> list[Item]:
    """The items of one match; none for marks between words."""
    match match.lastgroup, match[0]:
        case "word", word:
            return [_word(word, match, before)]
        case "call", call:
            return [_with_digits(_canonical(call))]
        case "run", run:
            return [Item(word, (word,)) for word in _pairs(run)]
        case "stop", _:
            return [STOP]
        case "mark", "&":
            return [Item("and", ("and",))]
        case "mark", unit:
            is_measure = before and (before[-1].numbers or scales_of(before[-1].text, _MANY))
            return [Item(unit, (unit,))] if is_measure else []
        case "sign", spelled:
            sign = _SPELLED.get(spelled, spelled)
            return [Item(sign, (sign,))] if _is_telling(sign, match) else []
    return [_in_digits(match)]


def _word(word: str, match: re.Match[str], before: Sequence[Item]) -> Item:
    behind = match.string[match.end() : match.end() + 4]
    if word in _ROMAN and _is_numeral(word, before[-1] if before else STOP, behind):
        return Item(word, NUMBER, (Number((Fraction(_ROMAN[word]),)),))
    return _with_digits(word)


def _with_digits(word: str) -> Item:
    lower = word.casefold().replace("\u2019", "'").replace("° ", "°")
    numbers = tuple(Number((_exact(digits),)) for digits in re.findall(r"\d+", lower))
    parts = tuple(lower.split("-"))
    return Item(word, (re.sub(r"\d+", "#", lower),) if numbers or "" in parts else parts, numbers)


def _canonical(call: str) -> str:
    """A call of a function, "O(n log n)", as one word; its sums in one order.

    >>> _canonical("O(n + m)"), _canonical("O(n*log(n))")
    ('O(m+n)', 'O(nlogn)')
    """
    name, _, arguments = call.partition("(")
    terms = re.sub(r"[\s*\u00b7()]", "", arguments).split("+")
    return f"{name}({'+'.join(sorted(terms))})"


def _pairs(run: str) -> Iterator[str]:
    """Each two neighbours of what stands between particles; what negates by itself."""
    for part in filter(None, re.split(f"({_NOT})|{_BETWEEN}", run)):
        if re.fullmatch(_NOT, part):
            yield "不"
        else:
            yield from (part[i : i + 2] for i in range(max(1, len(part) - 1)))


def _is_telling(sign: str, match: re.Match[str]) -> bool:
    """True where a sign has a meaning: between terms, or before what it changes."""
    if sign not in SIGNS:
        return False
    before = match.string[max(0, match.start() - 16) : match.start()]
    behind = match.string[match.end() : match.end() + 16]
    is_spaced = before[-1:].isspace(), behind[:1].isspace()
    if _ENDS.search(before) and _BEGINS.match(behind) and len(set(is_spaced)) == 1:
        if sign in "-/:":
            before, behind = before.rstrip(), behind.lstrip()
            are_digits = before[-1].isdigit() and behind[0].isdigit()
            are_terms = bool(_TERM_BEFORE.search(before) and _TERM_BEHIND.match(behind))
            return are_digits or (are_terms and sign != ":")
        return True
    if sign in "\u221a\u00ac!":
        return not before[-1:].isalnum() and behind[:1].isalnum()
    return sign in PREFIXES and behind.lstrip()[:1].isdigit()


def _is_numeral(word: str, before: Item, behind: str) -> bool:
    """True where Roman digits are a number: "Louis V", "type I diabetes", and not "Yes I do"."""
    if len(word) > 1 or before.word in COUNTED:
        return True
    is_name = bool(before.word) and before.text[0].isupper()
    return is_name and (word != "I" or bool(_BEHIND_FIRST.match(behind)))


def _in_digits(match: re.Match[str]) -> Item:
    """The number of a token of digits, or the three of a date, or the parts of a version."""
    text = match[0].strip()
    if date := match["iso"] or match["date"]:
        first, month, last = ((Fraction(part),) for part in re.split("[-/.]", date))
        return Item(text, 3 * NUMBER, (Number(first), Number(month, "month"), Number(last)))
    if match["decade"]:
        year = Fraction(match["decade"])
        return Item(text, NUMBER, (Number((year + 1900 * (year < 100),), "decade"),))
    if match["clock"]:
        parts = list(map(Fraction, match["clock"].split(":")))
        if match["half"]:
            parts[0] = parts[0] % 12 + 12 * (match["half"] in "pP")
        hours = sum((part / 60**i for i, part in enumerate(parts)), Fraction())
        return Item(text, NUMBER, (Number((hours,), "clock"),))
    if match["version"]:
        numbers = tuple(Number((_exact(part),)) for part in match["version"].split("."))
        return Item(text, ("#", *(".", "#") * (len(numbers) - 1)), numbers)
    sign, step = -1 if match["minus"] else 1, Fraction()
    if match["plain"] or match["grouped"]:
        written = (match["decimals"] or match["plain"] or "").replace(",", ".")
        exponent = int((match["tens"] or match["e"] or "0").replace("\u2212", "-"))
        step = _STEPS.get(exponent - len(written.partition(".")[2]), step)
    values = tuple(sign * value for value in _values(match))
    number = Number(values, step=step)
    if money := (match["money"] or "").strip():
        number = Number(values, *(unit_of(money) or Measure(money, Fraction(1))), step)
    return Item(text, NUMBER, (number,))


def _exact(digits: str) -> Fraction:
    return Fraction(digits[:_MAX_DIGITS])


def _values(match: re.Match[str]) -> list[Fraction]:
    if match["fraction"]:
        return [Fraction(match["fraction"].replace("\u2044", "/"))]
    if match["plain"] or match["power"]:
        exponent = match["tens"] or match["e"] or match["power"] or "0"
        tens = Fraction(10) ** int(exponent.replace("\u2212", "-"))
        return [_exact((match["plain"] or "1").replace(",", ".")) * tens]
    groups = match["grouped"].split(match["comma"])
    decimals = (match["decimals"] or "").replace(",", ".")
    values = [_exact("".join(groups) + decimals)]
    if len(groups) == 2 and not decimals and match["comma"] in ",.":
        values.append(_exact(".".join(groups)))  # 1,000 is one where commas begin decimals
    return values


def _joined(items: Sequence[Item]) -> Iterator[Item]:
    """Items with the words of a number, its scale and its unit as one number."""
    words, i, before = [item.word for item in items], 0, STOP
    while i < len(items):
        start = i
        is_negative = words[i] in _MINUS and not before.numbers and i + 1 < len(items)
        number, i = _number_at(items, words, i + is_negative)
        if number is None:
            before, i = items[start], start + 1
            yield before
            continue
        while i < len(items) and (scales := scales_of(items[i].text, number)):
            values = [value * scale for value in number.values for scale in scales]
            i += 1
            value, behind = in_words(words, i)
            is_scaled = behind < len(items) and scales_of(items[behind].text, number)
            if value is not None and value < min(scales) and not is_scaled:
                values, i = [larger + value for larger in values], behind
            number = replace(number, values=tuple(values), step=number.step * scales[0])
        unit, behind = _unit_at(items, i + (words[i : i + 1] != [] and words[i] in DEGREES))
        if unit and not number.dimension:
            number, i = Number(number.values, *unit, step=number.step), behind
        if is_negative:
            number = replace(number, values=tuple(-value for value in number.values))
        before = Item(" ".join(item.text for item in items[start:i]), NUMBER, (number,))
        yield before


def _unit_at(items: Sequence[Item], start: int) -> tuple[Measure | None, int]:
    """The unit that begins at an item, and where it ends: "m^2", "square miles", "km per hour"."""
    ahead = [*items[start : start + 5], STOP, STOP, STOP]
    words, texts = [item.word for item in ahead], [item.text for item in ahead]
    power, i = POWERS.get(words[0], 1), int(words[0] in POWERS)
    unit, i = unit_of(texts[i]), i + 1
    if unit is None:
        return None, start
    if texts[i] == "^" and texts[i + 1] in ("2", "3"):
        power, i = int(texts[i + 1]), i + 2
    unit = raised(unit, power)
    time = unit_of(texts[i + 1]) if words[i] in PER else None
    if time and (speed := speed_of(unit, time)):
        unit, i = speed, i + 2
    if words[i] in POWERS:
        unit, i = raised(unit, POWERS[words[i]]), i + 1
    return unit, start + i


def _number_at(
    items: Sequence[Item], words: Sequence[str], start: int
) -> tuple[Number | None, int]:
    """The number that begins at an item, without scale and unit, and where it ends."""
    if words[start]:
        if words[start].split("-")[0] not in FIRST_WORDS:
            return None, start
        value, end = in_words(words, start)
        if value is None:
            return None, end
        number = Number((Fraction(value),))
    elif items[start].frame == NUMBER:
        [number], end = items[start].numbers, start + 1
    else:
        return None, start
    if end < len(items) and re.fullmatch(_PROPER, items[end].text):  # 2 1/2
        part = items[end].numbers[0].values[0]
        return Number(tuple(value + part for value in number.values)), end + 1
    return number, end


def _summed(items: Iterable[Item]) -> list[Item]:
    """Items with measures of larger and smaller units as one: "1 h 30 min", "5 ft 3 in"."""
    summed = [STOP]
    for item in items:
        before = summed[-1]
        if before.frame == item.frame == NUMBER:
            [larger], [smaller] = before.numbers, item.numbers
            rest = smaller.values[0] * smaller.factor / larger.factor
            is_measure = larger.dimension in ("length", "mass", "time")
            if is_measure and larger.dimension == smaller.dimension and 0 < rest < 1:
                step = smaller.step * smaller.factor / larger.factor
                whole = replace(larger, values=(larger.values[0] + rest,), step=step)
                summed[-1] = Item(f"{before.text} {item.text}", NUMBER, (whole,))
                continue
        summed.append(item)
    return summed[1:]


def _with_months(items: Sequence[Item]) -> Iterator[Item]:
    """Items with months as numbers where a number stands beside them."""
    for i, item in enumerate(items):
        month = MONTH_OF.get(item.word)
        start = i - 1 - (i > 1 and items[i - 1].word in ("", "of", "de"))  # "3rd of May", "3. Mai"
        if month and any(neighbour.numbers for neighbour in items[max(0, start) : i + 2]):
            yield Item(item.text, NUMBER, (Number((Fraction(month),), "month"),))
        else:
            yield item


def _prefixed(items: Sequence[Item]) -> Iterator[Item]:
    """Items with the signs before them, <5 as one item, and without stops."""
    sign = ""
    for item in items:
        if item is STOP:
            continue
        if item.text in PREFIXES:
            sign += item.text
        elif sign:
            blank = " " * (sign in "<>\u2264\u2265" and not item.numbers)  # "a < b"
            yield Item(f"{sign}{blank}{item.text}", (sign, *item.frame), item.numbers)
            sign = ""
        else:
            yield item
