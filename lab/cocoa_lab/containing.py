"""Whether an answer says what a reference says, in however many words. Pure."""

import re
import unicodedata
from collections.abc import Iterator
from itertools import product

from cocoa_lab.overlap import MARKS, NO_BLANKS, PICTURES, shown
from models.similarity.vocabulary import function_words, unit_of

_MONEY = "$\u00a2-\u00a5\u20a0-\u20cf"
_BEFORE = f"<>\u2264\u2265\u00b1#{_MONEY}"
# A number is one word, with sign, decimals and grouping commas: "3.5" does not contain "5". Another
# word keeps the plus signs and hashes behind it, and the minus of a mark or a blood group.
_WORD = re.compile(
    rf"""
    (?:(?<!\w)(?<![-+{_BEFORE}])(?P<before>[-+\u221a{_BEFORE}]*))?
    (?P<number>\d+(?:[:/]\d+)+|(?:\d{{1,3}}(?:,\d{{3}})+|\d+)(?:\.\d+)*(?:\^[-+]?\d+)?|(?<![\w.])\.\d+)
    (?!\w)(?:\s?(?P<behind>[%\u2030\u00b0{_MONEY}])(?!\w))?
    | (?<!\w)[^\W\d_]{{1,2}}-(?![\w-])
    | [{NO_BLANKS}{PICTURES}][{MARKS}]*
    | (?![{NO_BLANKS}])\w(?:(?![{NO_BLANKS}])[\w{MARKS}])*(?:&\w+)*(?:[+#]+(?!\w))?
    """,
    re.VERBOSE,
)
# Marks that are accents: behind Latin, Greek and Cyrillic letters. Elsewhere they are vowels.
_ACCENTS = re.compile(
    "(?<=[A-Za-z\u00c0-\u024f\u0370-\u03ff\u0400-\u052f\u1e00-\u1fff])[\u0300-\u036f]+"
)
# Letters with a stroke and ligatures, which no accent can be taken from.
_LETTERS = {"ł": "l", "ø": "o", "đ": "d", "ħ": "h", "æ": "ae", "œ": "oe", "þ": "th", "ð": "d"}
_LETTERS |= {letter.upper(): plain.upper() for letter, plain in _LETTERS.items()}
_LETTERS |= {"\u0131": "i", "\u2212": "-", "\u2044": "/"}
_LETTERS |= {"\u066a": "%", "\u066b": ".", "\u066c": ","}  # of Arabic numbers
_PLAIN = str.maketrans(_LETTERS)
_DIGIT = re.compile(r"[^\D0-9]")  # of other scripts
# What groups thousands in place of a comma: a blank that does not break, or one before "000".
_GROUPING = re.compile("(?<=\\d)(?:[\u00a0\u2009\u202f'\u2019](?=\\d{3}(?!\\d))| (?=000(?!\\d)))")
_RAISING = re.compile(r"(?<=[^\W\d_])\^(?=\d)")  # "mc^2" is "mc²"
_RAISED = "[\u00b2\u00b3\u00b9\u2070-\u207b]+"
_POWER = re.compile(rf"(?<=\d){_RAISED}")
_NOTE = re.compile(rf"(?<=[^\W\d_]{{3}}){_RAISED}")  # behind a unit, "cm", it is a power
_MIXED = re.compile("(?<=\\d)(?=[\u00bc-\u00be\u2150-\u215e])")  # one and a half
_WHOLE = re.compile(r"(\d+)\.0+\Z")
# What Korean writes behind a noun without a blank.
_PARTICLE = re.compile(
    "(?:은|는|이|가|을|를|의|도|만|와|과|에게?|에서|으?로|부터|까지|이나|이?라고|이며|이고|인"
    "|이다|입니다|이에요|예요|이었다|였다|이었습니다|였습니다)"
)
_HANGUL = re.compile("[\uac00-\ud7a3]\\Z")
_POINTS = re.compile("[\u05b0-\u05c7\u064b-\u0652]")  # vowels that Semitic texts mostly leave out
_UNIT = re.compile(r"(?<=\d)(?!s)[^\W\d_]+\b")
_SPELLED = {"percent": "%", "dollar": "$", "dollars": "$", "euro": "\u20ac", "euros": "\u20ac"}
_EMPHASIS = re.compile(r"(?<!\w)_+|_+(?!\w)")
_CONTRACTED = re.compile(r"[^\W\d_]['\u2019]\Z")
_HYPHENATED = re.compile(r"(?<![\w-])([A-Z])-(?=\d{1,4}\b)")  # F-16, B-12
_ARTICLES = frozenset({"a", "an", "the"})
# Behind an article comes a noun phrase: a word, in quotation marks perhaps, and none of these.
_ARTICLE_OF = re.compile(r"""\s+["'(\[*_\u201c\u2018]*(?!(?:and|as|because|is|or|since|was)\b)\w""")
_CAPITALS = re.compile(r"(?<![A-Z] )\b[A-Z]{2,4}\b(?! [A-Z]{2})")  # of a text in capitals none
_INITIALS = re.compile(r"(?<![\w.])(?:[A-Z]\.(?: ?[A-Z]\.)+|[^\W\d_](?:\.[^\W\d_])+(?!\w)\.?)")
_IN_SENTENCE = re.compile(r"[\w,;)]\s+$")
_CAPITAL_NEXT = re.compile(r"\W*[^\Wa-z_]")


def words(text: str, *, capital_is_article: bool = True) -> tuple[str, ...]:
    """The words of a text as they are compared; a number's unit is a word behind it.

    >>> words("The capital is Rome, not -3.5%!"), words("Vitamin A")
    (('capital', 'is', 'rome', 'not', '-3.5', '%'), ('vitamin', 'a'))

    Args:
        text: any.
        capital_is_article: what "A" is where it may be either: "Vitamin A Deficiency", "Like A
            Rolling Stone".
    """
    text = _MIXED.sub(" ", _NOTE.sub(" ", _POWER.sub(r"^\g<0>", grouped(shown(text)))))
    text = _RAISING.sub("", unicodedata.normalize("NFKC", text).translate(_PLAIN))
    text = _DIGIT.sub(lambda digit: str(int(digit[0])), text)
    parted = unicodedata.normalize("NFD", text)
    text = with_joined_initials(unicodedata.normalize("NFC", _ACCENTS.sub("", parted)))
    text = _UNIT.sub(_apart, _HYPHENATED.sub(r"\1", _EMPHASIS.sub(" ", text)))
    found: list[str] = []
    for match in _WORD.finditer(text):
        if match["number"]:
            found += _number(match)
            continue
        word = match[0].casefold()
        if len(word) == 1 and _CONTRACTED.search(text[max(0, match.start() - 2) : match.start()]):
            word = f"'{word}"  # "I'd" has no D
        if word not in _ARTICLES or not _is_article(text, match, capital_is_article):
            found.append(_SPELLED.get(word, word))
    return tuple(found)


def grouped(text: str) -> str:
    """The text with commas for all that groups the thousands of its numbers.

    >>> grouped("1 000 and 10\u202f500")
    '1,000 and 10,500'
    """
    return _GROUPING.sub(",", text)


def with_joined_initials(text: str) -> str:
    """The text with abbreviations of single letters as words.

    >>> with_joined_initials("J. R. R. Tolkien in the U.S., vitamin A. A carrot")
    'JRR Tolkien in the US, vitamin A. A carrot'
    """
    return _INITIALS.sub(lambda initials: re.sub("[. ]", "", initials[0]), text)


def _number(match: re.Match[str]) -> Iterator[str]:
    before, number = match["before"] or "", match["number"].replace(",", "")
    if whole := _WHOLE.match(number):
        number = whole[1]
    signs = "".join(sign for sign in "-\u221a" if sign in before)
    yield signs + "0" * number.startswith(".") + number
    yield from (sign for sign in before if sign not in "-+\u221a")
    yield from match["behind"] or ""


def _apart(behind: re.Match[str]) -> str:
    """What stands at a number, as a word where it is a unit: "15mg", and not the room "16A"."""
    is_unit = behind[0].islower() and unit_of(behind[0]) is not None
    return f" {behind[0]}" if is_unit else behind[0]


def _is_article(text: str, match: re.Match[str], capital_is_article: bool) -> bool:
    if not _ARTICLE_OF.match(text, match.end()):
        return False
    if match[0] != "A":
        return True
    before = text[max(0, match.start() - 8) : match.start()]
    if _IN_SENTENCE.search(before) and not _CAPITAL_NEXT.match(text, match.end()):
        return False  # "Vitamin A helps"
    return capital_is_article


def says(reference: str, output: str) -> bool:
    """Whether a reference occurs in a text as whole words.

    Case, punctuation and the articles a, an, the do not count; signs that belong to a word do. The
    unit of a number (10%, $5) counts where the reference has one. What is spelled as a function
    word in capitals, "US", is one in capitals. Accents do not count, nor Semitic vowels where one
    of the two texts leaves them out; the combining marks of other scripts do.
    """
    if not (_POINTS.search(reference) and _POINTS.search(output)):
        reference, output = _POINTS.sub("", reference), _POINTS.sub("", output)
    written = with_joined_initials(unicodedata.normalize("NFKC", output))
    for capitals in _CAPITALS.findall(with_joined_initials(reference)):
        if capitals.lower() in function_words() and not re.search(rf"\b{capitals}\b", written):
            return False
    for wanted_reading, said_reading in product((True, False), repeat=2):
        wanted = words(reference, capital_is_article=wanted_reading)
        said = words(output, capital_is_article=said_reading)
        starts = range(len(said) - len(wanted) + 1)
        if wanted and any(_are_same(wanted, said[start : start + len(wanted)]) for start in starts):
            return True
    # "?": nothing is left that could be looked for
    whole, parts = shown(reference).strip(), shown(output).split()
    parts += [part.strip(".,;:!?\"'()*") for part in parts]
    return not words(reference) and (whole in parts or whole == output.strip())


def _are_same(wanted: tuple[str, ...], said: tuple[str, ...]) -> bool:
    """Whether these are the wanted words; the last may have a Korean particle."""
    if wanted == said:
        return True
    behind = said[-1].removeprefix(wanted[-1])
    return (
        wanted[:-1] == said[:-1]
        and len(behind) < len(said[-1])
        and bool(_HANGUL.search(wanted[-1]) and _PARTICLE.fullmatch(behind))
    )
