"""Pure: what two texts say without a model: that they are the same, or that they cannot be.

Models read digits as a bag and overlook negations, so the rules stand in front of each of them.
They are for short texts: long ones have many numbers, and a model judges them as a whole.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise, product
from typing import Literal

from models.similarity.numbers import JOINING, MONTH_OF, Number, listed
from models.similarity.reading import NUMBER, SIGNS, STOP, Item, read
from models.similarity.words import ARTICLES, FUNCTION_WORDS, OPPOSED, PASSIVE

Relation = Literal["same", "different"]

# Version of these rules, in the keys of remembered scores.
VERSION = 8
# Bound of a text that they are for.
MAX_CHARACTERS = 400

_NEGATIONS = listed(
    """
    not no never hardly without nor nicht kein keine keinen keinem keiner nie ohne nein ne pas non
    jamais sans nunca sin mai senza não nem sem не нет никогда niet geen inte ikke değil δεν μη
    नहीं لا ليس لم לא không 不 没 沒 無 无 非 未
    """
)
_AFFIRMATIONS = listed("yes yeah ja oui sí sì sim")
# The rest of a word before "n't" where that is not the word itself.
_BEFORE_NOT = {"ca": "can", "wo": "will", "sha": "shall"}
# "n'est", "c'est".
_ELIDED = re.compile("(c|d|j|m|n|s|t|qu)'(.+)")
# Labels of vitamins, options and blood groups, which stay in capitals.
_LABEL = re.compile("[A-Z][+-]?|AB[+-]?")
# "No, it is safe." denies the question.
_NO_AND_MORE = re.compile(r"\W*(?:no|nein|non|não|нет)(?:[,;!]|\.\s)\s*[^\W\d]", re.IGNORECASE)
# Between two names that may change places: "Spain borders France", "Anna plays with Bert".
_MUTUAL = listed(
    """
    as same similar different differs equal equals like unlike near next close opposite with versus
    border borders bordered married marries met meets meet joins joined
    mit wie gleich grenzt heiratete traf avec comme épousa rencontra con como com met og med
    """
)
# Leads from one name to the other without a verb.
_DIRECTED = frozenset("<>\u2264\u2265-/^\u2192") | listed("to nach into hacia towards")
_MOST_WORDS_OF_NAME = 5
# Before a word that it makes its opposite: "unsafe", "illegal".
_UN = re.compile("(?:un|in|im|il|ir|dis|non)(?=.{4})")
# Signs that may say the same: "3:1" and "3-1" are one score.
_OF_SCORES = frozenset("-/:")


@dataclass(frozen=True, slots=True)
class Reading:
    """The features of a text that the rules compare.

    Attributes:
        frame: its words in lower case without articles; a sign in the place of each number.
        numbers: in the order of the frame, those of one list in ascending order.
        affirmed: the frame without words that negate or affirm.
        is_negated: whether it has a word that negates, beside a "no" to the question.
        names: of a whole text, words behind an article, or with a capital that do not begin it.
    """

    frame: tuple[str, ...]
    numbers: tuple[Number, ...]
    affirmed: tuple[str, ...]
    is_negated: bool
    names: frozenset[str]


def reading(text: str, *, is_whole: bool = True) -> Reading:
    """The features of a text that the rules compare.

    Args:
        text: an answer or a part of one.
        is_whole: whether it has all of its words; else names may change places, as in "Bert was
            hired by Anna" without its function words.

    >>> reading("It isn't the C++ of 1998.").frame
    ('it', 'is', 'not', 'c++', 'of', '#')
    """
    items = read(text)
    frame, numbers = _frame(items)
    affirmed = tuple(word for word in frame if word not in _NEGATIONS | _AFFIRMATIONS)
    names = set[str]()
    for before, item in pairwise(items):
        is_noun = before.word in ARTICLES and len(before.word) > 1  # French "a" is "has"
        if is_whole and (is_noun or item.text[:1].isupper()):
            names |= {*_words(item, is_first=False, following=STOP)}
    stated = frame[1:] if _NO_AND_MORE.match(text) else frame
    return Reading(frame, numbers, affirmed, not _NEGATIONS.isdisjoint(stated), frozenset(names))


def relation(a: Reading, b: Reading, known: Sequence[Number] = ()) -> Relation | None:
    """The relation of two answers to one question by rule; None where a model has to say.

    As `relation_of_words` has it; else different where both have numbers that are not `known` from
    the question, which an answer may repeat or leave out, and neither has all of the other's.
    """
    if related := relation_of_words(a, b):
        return related
    if a.frame == b.frame:
        return None
    ours, theirs = _without(a.numbers, known), _without(b.numbers, known)
    if ours and theirs and not covers(ours, theirs) and not covers(theirs, ours):
        return "different"
    return None


def relation_of_words(a: Reading, b: Reading) -> Relation | None:
    """The relation of two texts of nearly the same words; None for others.

    - The same: equal up to case, articles, punctuation and the form of numbers.
    - Different: the same words around other numbers, labels ("Vitamin A"), signs or opposites, or
      with a negation more; or one negates what the other says among other things; or two names
      have changed places ("Brazil beat Italy").
    """
    if not a.frame or not b.frame:
        return None
    if a.frame == b.frame:
        return _in_one_frame(a.numbers, b.numbers)
    if not (a.numbers or b.numbers) and _are_one_name(a.frame, b.frame):
        return "same"
    ours, theirs = _actives(a.frame), _actives(b.frame)
    if not ours.isdisjoint(theirs):
        return None if a.numbers else "same"
    if len(a.frame) == len(b.frame) and all(map(_are_same_or_opposed, a.frame, b.frame)):
        return _in_one_list(a.frame, b.frame)
    names = a.names | b.names
    if (ours, theirs) != ({a.frame}, {b.frame}):
        names |= {a.frame[0], b.frame[0]}
    for first, second in product(ours, theirs):
        if len(first) == len(second) and _are_exchanged(first, second, names):
            return "different"
    for negated, other in ((a, b), (b, a)):
        if negated.is_negated and not other.is_negated and _denies(negated, other):
            return "different"
    return None


def _are_one_name(frame: Sequence[str], other: Sequence[str]) -> bool:
    """True where one is the initials of the other ("USA"), or both have the same letters."""
    if frame[0][:1] != other[0][:1]:  # most of them
        return False
    for (word, *more), words in ((frame, other), (other, frame)):
        if not more and len(words) > 1:
            initials = "".join(part[0] for part in words if part not in FUNCTION_WORDS)
            if len(initials) > 1 and word in (initials, initials + word[-1]):
                return True
    are_words = max(map(len, (*frame, *other))) > 2  # "x-y" is not "xy"
    return are_words and "".join(frame).replace("'", "") == "".join(other).replace("'", "")


def covers(numbers: Sequence[Number], others: Iterable[Number]) -> bool:
    """True where each of the others may be one of the numbers."""
    return all(any(number.may_be(other) for number in numbers) for other in others)


def _denies(negated: Reading, other: Reading) -> bool:
    """True where the other says all that the first denies: not "not Lima but Cusco", "Cusco"."""
    if negated.affirmed == other.affirmed:
        return True
    denied = frozenset(negated.affirmed)
    is_said = bool(denied - FUNCTION_WORDS) and denied <= frozenset(other.affirmed)
    return is_said and covers(other.numbers, negated.numbers)


def _actives(frame: tuple[str, ...]) -> set[tuple[str, ...]]:
    """A frame, and of a passive one ("Bert was hired by Anna in May") what may be the active one.

    Nobody says where the name behind "by" ends.
    """
    by = frame.index("by") if frame.count("by") == 1 else 0
    if by < 3 or frame[by - 2] not in PASSIVE:
        return {frame}
    subject, verb, behind = frame[: by - 2], frame[by - 1], frame[by + 1 :]
    actives = {(*behind, verb, *subject)}
    for end in range(1, min(len(behind), _MOST_WORDS_OF_NAME + 1)):
        actives.add((*behind[:end], verb, *subject, *behind[end:]))
    return actives


def _are_exchanged(frame: Sequence[str], other: Sequence[str], names: frozenset[str]) -> bool:
    """True where two names have changed places around what one does to the other."""
    ours, theirs = list(frame), list(other)
    while ours[0] == theirs[0]:
        del ours[0], theirs[0]
    while ours[-1] == theirs[-1]:
        del ours[-1], theirs[-1]
    if sorted(ours) != sorted(theirs):
        return False
    size = len(ours)
    lengths = range(1, min(size - 2, _MOST_WORDS_OF_NAME) + 1)
    for first, second in product(lengths, lengths):
        middle = ours[first : size - second]
        if theirs != ours[size - second :] + middle + ours[:first]:
            continue
        ends = {ours[0], ours[first - 1], ours[size - second], ours[-1]}
        are_names = ends <= names or max(map(len, ends)) == 1  # "x > y"
        does = _DIRECTED | (frozenset(filter(str.isalpha, middle)) - FUNCTION_WORDS)
        if are_names and (names | _MUTUAL).isdisjoint(middle) and not does.isdisjoint(middle):
            return True
    return False


def _in_one_list(frame: Sequence[str], other: Sequence[str]) -> Relation | None:
    """The relation of two frames that differ in opposed words: "A and B" is "B and A"."""
    if sorted(frame) != sorted(other):
        return "different"
    differ = [i for i in range(len(frame)) if frame[i] != other[i]]
    between = frozenset(frame[differ[0] : differ[-1]]) - {frame[i] for i in differ}
    joining = between & JOINING
    if not all(word.isupper() for word in between - joining):
        return "different"
    return "same" if joining else None  # whether order counts, a model has to say


def _are_same_or_opposed(word: str, other: str) -> bool:
    if word == other or (word.isupper() and other.isupper()):  # labels
        return True
    if word in SIGNS and other in SIGNS:
        return not {word, other} <= _OF_SCORES
    if word in MONTH_OF and other in MONTH_OF:
        return MONTH_OF[word] != MONTH_OF[other]
    if other in OPPOSED.get(word, ()):
        return True
    return word == _UN.sub("", other, 1) or other == _UN.sub("", word, 1)


def _in_one_frame(ours: Sequence[Number], theirs: Sequence[Number]) -> Relation | None:
    pairs = list(zip(ours, theirs, strict=True))
    if all(number.is_same(other) for number, other in pairs):
        return "same"
    if not all(number.may_be(other) for number, other in pairs):
        return "different"
    return None


def _without(numbers: Iterable[Number], known: Sequence[Number]) -> list[Number]:
    """Those that are not repeated as they were written; 240 minutes are new beside 4 hours."""
    return [number for number in numbers if not any(old.is_written(number) for old in known)]


def _frame(items: Sequence[Item]) -> tuple[tuple[str, ...], tuple[Number, ...]]:
    """Words and numbers apart; numbers that are listed one after another are put in order."""
    frame: list[str] = []
    numbers: list[Number] = []
    in_list = 0  # numbers at the end of the frame that are one list
    for i, item in enumerate(items):
        following = items[i + 1] if i + 1 < len(items) else STOP
        numbers += item.numbers
        if set(item.frame) == set(NUMBER):
            frame += item.frame
            in_list += len(item.numbers)
            numbers[-in_list:] = sorted(numbers[-in_list:], key=_order)
            continue
        if in_list and item.word in JOINING and following.frame[:1] == NUMBER:
            continue
        if words := _words(item, is_first=not i, following=following):
            in_list = 0
        frame += words
    return tuple(frame), tuple(numbers)


def _words(item: Item, *, is_first: bool, following: Item) -> Sequence[str]:
    """The words that an item counts as: none if it is an article, two if it ends in "n't"."""
    word = item.word
    begins = is_first or following.text.islower()  # a sentence; "The Hague" is a name
    is_article = item.text.islower() or (begins and len(word) > 1)  # "O negative", "A minor"
    is_term = following.frame[0] in SIGNS  # "a - b"
    if word in ARTICLES and following is not STOP and is_article and not is_term:
        return []
    if word == "no" and (following.numbers or following.text[:1].isupper()):
        return ["no."]  # "No. 5"; in Portuguese "in the"
    if word == "cannot":
        return ["can", "not"]
    if word.endswith("n't"):
        verb = word.removesuffix("n't")
        return [_BEFORE_NOT.get(verb, verb), "not"]
    if _LABEL.fullmatch(item.text) and not is_term:
        return [item.text]
    if elided := _ELIDED.fullmatch(word):
        return [f"{elided[1]}e", elided[2]]
    if len(item.frame) > 1 or not word:
        return item.frame
    return [word.removeprefix("l'").removesuffix("'s")]


def _order(number: Number) -> tuple[str, Fraction]:
    return number.dimension, max(number.in_base_unit())
