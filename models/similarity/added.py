"""Pure: what an answer adds to its question, which is what tells answers to one question apart.

Sentences about one subject are alike whatever they say of it.
"""

import re

from models.similarity.numbers import COUNTED, listed, value_of

# Words that say nothing by themselves, in the languages of `models.similarity.numbers`.
FUNCTION_WORDS = listed(
    """
    a an the and or of in on at to from by with for as is are was were be been being am has have had
    do does did will would can could may might must shall should it its he she they them his her
    their this that these those there here i you we my your our me us who which what when where how
    so also very just called known named situated located der die das den dem des ein eine einen
    einem einer und oder von vom im auf zu zum zur aus bei mit für als ist sind war waren sein wird
    werden wurde hat haben es er sie ihr ihre dies dieser diese dieses dort hier ich du wir mein
    dein unser wer wann wo wie le la les un une de et ou à au aux dans sur en par avec pour est sont
    était être ont il elle ils elles ce cet cette ces son sa ses qui que quoi où quand comment je tu
    nous el los las una unos unas del y o al con por para era fue ser ha han está están ello ella
    ellos este esta estos ese esa su sus quien donde cuando como yo tú lo gli uno di da nel nella
    sul per tra è sono essere hanno esso essa questo questa quello suo sua che chi dove quando come
    io noi os um uma dos na nos nas ao com é são foi tem têm ele
    """
)
_SHORT_NOT = re.compile(r"n['\u2019]t$|^cannot$", re.IGNORECASE)
# Function words that are a month and a half of the day beside a number.
_OF_NUMBERS = frozenset(("may", "am"))
# Scripts without blanks, what stands between words there, and what negates.
_NO_BLANKS = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_BETWEEN = "です|ます|でした|ました|[的是在了和与與のはがをにでともへや]"
_NOT = "不|没|沒|無|无|非|未|ない|なかった|なく|ません"
# Letters and digits with the signs of vowels that belong to them.
_VOWELS = r"\u0300-\u036f\u05b0-\u05c7\u064b-\u065f\u0900-\u0963\u0966-\u0dff"
_LETTER = rf"(?:(?![{_NO_BLANKS}])[^\W_]|[{_VOWELS}])"
_WORD = re.compile(
    rf"""
    (?P<run>[{_NO_BLANKS}]+)
    | (?<=\w)\s*[+*^=<>\u2264\u2265\u00d7\u00f7]\s*(?=\w) | (?<=\d)\s+-\s+(?=\d)
    | [<>\u2264\u2265\u00b1]\s?(?=\d)
    # a word or number with what belongs to it: -5, $5, 5 %, C++, A-
    | (?:(?<![\w)\]%°])[-\u2212](?=[\d$€£]))? (?:[$€£]\s?(?=\d))?
      {_LETTER}+ (?:(?:['\u2019.,:-]|(?<=\d)/(?=\d)){_LETTER}+)*
      (?:[+\#]+|(?<=\d)\s?(?:[%€£]|\$(?![\w\\])|°\s?[CF]\b)|(?<=[A-Z])[-\u2212](?!\w))*
    """,
    re.VERBOSE,
)


def words(text: str) -> list[str]:
    """The words of a text as they are written; of a script without blanks, pairs of characters.

    >>> words("It's C++ (-10 %), 東京.")
    ["It's", 'C++', '-10 %', '東京']
    """
    found = []
    for match in _WORD.finditer(text):
        found += _pairs(match[0]) if match["run"] else [match[0].strip()]
    return found


def _pairs(run: str) -> list[str]:
    """Each two neighbours of what stands between particles; what negates by itself."""
    found = []
    for part in filter(None, re.split(f"({_NOT})|{_BETWEEN}", run)):
        if re.fullmatch(_NOT, part):
            found.append("不")
        else:
            found += [part[i : i + 2] for i in range(max(1, len(part) - 1))]
    return found


def added(text: str, asked: frozenset[str]) -> str:
    """What a text says beyond its question: its words without those, and without function words.

    A text that adds nothing is what it says beside function words, or where that is nothing either,
    whole. Numbers always stay, and names that are spelled as a function word.

    Args:
        text: an answer.
        asked: the words of its question in lower case.

    >>> added("The capital of Peru is Lima.", frozenset(("capital", "peru")))
    'Lima'
    """
    every, said = words(text), []
    for i, word in enumerate(every):
        if _SHORT_NOT.search(word):
            said.append("not")  # the verb before it says nothing
        elif word.casefold() not in FUNCTION_WORDS or _is_telling(every, i, text):
            said.append(word)
    new = [word for word in said if _has_digit(word) or word_set(word).isdisjoint(asked)]
    return " ".join(new) or " ".join(said) or text


def _is_telling(every: list[str], i: int, text: str) -> bool:
    """Whether a function word is a name ("The Who", "Vitamin A"), or says how numbers relate."""
    word, before, behind = every[i], "".join(every[i - 1 : i]), "".join(every[i + 1 : i + 2])
    beside = _has_digit(before), _has_digit(behind)
    if all(beside) or (any(beside) and word.casefold() in _OF_NUMBERS):
        return True
    if len(word) > 1 or word == "I":
        is_behind_name = before[:1].isupper() and before.casefold() not in FUNCTION_WORDS
        is_behind_name |= before.casefold() in COUNTED
        return i > 0 and word[0].isupper() and (len(word) > 1 or is_behind_name)
    return word.isupper() and f"{before} {word}" in text


def _has_digit(word: str) -> bool:
    return any(map(str.isdigit, word))


def containment(a: frozenset[str], b: frozenset[str]) -> float:
    """Share of the words of the text with fewer of them that the other has; 1 for two without any.

    >>> containment(frozenset(("leo", "tolstoy")), frozenset(("tolstoy",)))
    1.0
    """
    if not a or not b:
        return float(a == b)
    return len(a & b) / min(len(a), len(b))


def share_said(statement: frozenset[str], text: frozenset[str]) -> float:
    """Share of a statement's words that a text has, too; of none, whether it has none."""
    if not statement:
        return float(not text)
    return len(statement & text) / len(statement)


def word_set(text: str) -> frozenset[str]:
    """The distinct words of a text in lower case, without the 's of a possessive; numbers by value.

    >>> sorted(word_set("Peru's twelve")), word_set("12") <= word_set("the 12th")
    (['12', 'peru'], True)
    """
    every = words(text.casefold().replace("\u2019", "'"))
    return frozenset(value_of(word) or word.removesuffix("'s") for word in every)
