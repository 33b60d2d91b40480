"""Pure: what two texts say without a model: that they are the same, or that they cannot be.

Models read digits as a bag and overlook negations, so these rules stand in front of each of them. A
rule speaks where it is sure; all else is left to the similarity.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise, product, starmap
from operator import attrgetter
from typing import Literal

from models.similarity.reading import NOTHING_ASKED, Asked, Item, Number, asked_in, asked_of, read
from models.similarity.vocabulary import (
    ARTICLES,
    IN_ORDER,
    NEGATIONS,
    PASSIVE,
    UNREAD,
    VERDICTS,
    listed,
    opposed,
)

Relation = Literal["same", "different"]

# Version of these rules, which the identity of every similarity scorer holds.
VERSION = 11
# Version of what scores are made by: these rules, where samples end (`engines.texts`), and how an
# answer is looked up in documents (`grounding`).
SCORED = 12
# Bounds of the texts that the rules are for: a model judges longer ones as a whole.
MAX_CHARACTERS, MAX_NUMBERS = 400, 32
_MAX_QUESTION = 2_000
_MOST_WORDS_OF_NAME, _MOST_PAIRS_OF_NUMBERS, _MOST_KNOWN = 3, 64, 8
_NOUN_BEHIND = ARTICLES - {"a"}
_JOINING = listed("and or und oder et ou y o и или")
# Between two names that may change places: "Spain borders France".
_MUTUAL = listed("and or as with same equals near borders meets met married mit avec con & + * =")


@dataclass(frozen=True, slots=True)
class Question:
    """What a question says of its answers."""

    asked: Asked = NOTHING_ASKED  # of their numbers
    known: tuple[Number, ...] = ()  # its own numbers, which answers may repeat
    in_order: bool = False  # it wants things in an order


_NO_QUESTION = Question()


def question_of(prompt: str) -> Question:
    """What the end of a prompt says of its answers."""
    end = prompt[-_MAX_QUESTION:]
    asks, known = asked_in(end), filter(None, map(attrgetter("number"), read(end)))
    in_order = bool(IN_ORDER.search(asks.casefold()))
    return Question(asked_of(asks), tuple(known)[-_MOST_KNOWN:], in_order)


@dataclass(frozen=True, slots=True)
class Reading:
    """The features of a text that the rules compare."""

    # The keys of its items without articles, "#" for each number; of a passive sentence those of
    # the active one.
    frame: tuple[str, ...]
    # In the order of the frame, as numbers and by their keys.
    numbers: tuple[Number, ...]
    values: tuple[str, ...]
    content: tuple[str, ...]  # the keys of what says something, without words that negate or affirm
    is_negated: bool
    names: frozenset[str]  # keys of words with a capital, or behind an article
    capitals: frozenset[str]  # keys of words with a capital
    pauses: frozenset[str]  # keys in front of a comma or another mark
    codes: tuple[str, ...]  # keys of its code
    is_for_rules: bool  # whether the rules are for this text


def reading(items: Sequence[Item], num_characters: int) -> Reading:
    """The features of a text that the rules compare, by its items."""
    frame, numbers, content = list[str](), list[Number](), list[str]()
    values, names, capitals, pauses = list[str](), set[str](), set[str](), set[str]()
    is_negated = False
    for i, item in enumerate(items):
        if item.ends and i + 1 < len(items):
            pauses.add("#" if item.number else item.key)
        if item.number:
            frame.append("#")
            numbers.append(_counting(item.number, items[i : i + 2]))
            values.append(item.key)
            content.append(item.key)
            continue
        if item.says_nothing and item.key in ARTICLES:
            continue
        frame.append(item.key)
        if item.text[:1].isupper():
            capitals.add(item.key)
        elif i > 0 and items[i - 1].says_nothing and items[i - 1].key in _NOUN_BEHIND:
            names.add(item.key)
        answers_itself = i == 0 and item.ends and len(items) > 1  # "No, it is safe."
        if item.key in NEGATIONS and not answers_itself:
            is_negated = True
        elif not item.says_nothing and item.key not in VERDICTS:
            content.append(item.key)
    active = _active(tuple(frame))
    return Reading(
        frame=active,
        numbers=tuple(numbers),
        values=tuple(values),
        content=tuple(content),
        is_negated=is_negated,
        names=frozenset(names | capitals),
        capitals=frozenset(capitals),
        pauses=frozenset(pauses),
        codes=tuple(item.key for item in items if item.kind == "code"),
        is_for_rules=num_characters <= MAX_CHARACTERS and len(numbers) <= MAX_NUMBERS,
    )


def _counting(number: Number, items: Sequence[Item]) -> Number:
    """A number with the word behind it, which it may count."""
    if len(items) < 2 or items[0].ends or items[1].kind == "sign" or items[1].key in _JOINING:
        return number
    return replace(number, counted=items[1].key.rstrip("s"))


def _active(frame: tuple[str, ...]) -> tuple[str, ...]:
    """Of "Bert was hired by Anna" what "Anna hired Bert" has."""
    by = frame.index("by") if frame.count("by") == 1 and "#" not in frame else 0
    if by < 3 or frame[by - 2] not in PASSIVE:
        return frame
    return (*frame[by + 1 :], frame[by - 1], *frame[: by - 2])


def relation(a: Reading, b: Reading, question: Question = _NO_QUESTION) -> Relation | None:
    """The relation of two answers to one question; None where a model has to say.

    As `relation_of_words` has it; else different by numbers, or by words of the question.
    """
    related = relation_of_words(a, b, question)
    if related is None and a.is_for_rules and b.is_for_rules and a.frame != b.frame:
        is_different = _count_differently(a, b, question.known)
        return "different" if is_different or _are_picked(a, b, question.asked.words) else None
    return related


def relation_of_words(a: Reading, b: Reading, question: Question = _NO_QUESTION) -> Relation | None:
    """The relation of two texts of nearly the same words; None for others.

    - The same: equal up to case, articles, punctuation and the form of numbers.
    - Different: other numbers in the same words; a negation, a sign or an opposite more; two names
      that have changed places; another order where the question wants one.
    """
    if not (a.frame and b.frame and a.is_for_rules and b.is_for_rules):
        return None
    if a.frame == b.frame:
        return _in_one_frame(a, b, question)
    is_one_bag = sorted(a.frame) == sorted(b.frame)
    is_different = (
        (a.is_negated and b.is_negated and is_one_bag and _denied(a) != _denied(b))
        or (a.is_negated and not b.is_negated and _denies(a, b))
        or (b.is_negated and not a.is_negated and _denies(b, a))
        or (a.values == b.values and not is_one_bag and _are_opposed(a, b))
        or (is_one_bag and (_are_exchanged(a, b) or _have_other_codes(a, b)))
        or (question.in_order and a.content != b.content and sorted(a.content) == sorted(b.content))
    )
    return "different" if is_different else None


def _in_one_frame(a: Reading, b: Reading, question: Question) -> Relation | None:
    if a.values == b.values:
        return "same"
    if sorted(a.values) == sorted(b.values):
        is_row = "#" not in a.pauses | b.pauses and ("#", "#") in pairwise(a.frame)  # "1 2 3"
        is_exchanged = is_row or sorted(_assigned(a)) != sorted(_assigned(b))
        return "different" if is_exchanged or question.in_order else None
    is_different = any(map(Number.is_other, a.numbers, b.numbers))
    return "different" if is_different else None


def _assigned(text: Reading) -> Iterator[tuple[tuple[str, ...], str]]:
    """The words in front of each number, with it: "3 apples and 5 pears", "Anna 3 and Bert 2"."""
    words, last, values = list[str](), tuple[str, ...](), iter(text.values)
    for word in text.frame:
        if word == "#":
            last, words = tuple(words) or last, []  # of a list those in front of the first
            yield last, next(values)
        elif word not in _JOINING and word not in "*+":
            words.append(word)


def _count_differently(a: Reading, b: Reading, known: Sequence[Number]) -> bool:
    """True where both have numbers of their own, of one thing, and neither has all of the other."""
    is_read = UNREAD.isdisjoint((*a.frame, *b.frame))
    if not (is_read and 0 < len(a.numbers) * len(b.numbers) <= _MOST_PAIRS_OF_NUMBERS):
        return False
    ours, theirs = _without(a.numbers, known), _without(b.numbers, known)
    ours, theirs = _without(ours, theirs), _without(theirs, ours)
    return bool(ours and theirs) and all(starmap(Number.is_other, product(ours, theirs)))


def units_by_value(numbers: Iterable[Number]) -> dict[Fraction, set[str]]:
    """The units that numbers have, by each value that one of them may have."""
    units = defaultdict[Fraction, set[str]](set)
    for number in numbers:
        for value in number.values:
            units[value].add(number.unit)
    return units


def covers(units: Mapping[Fraction, Set[str]], others: Iterable[Number]) -> bool:
    """True where each of the others may be one of the numbers that have these units."""
    for other in others:
        known = set[str]().union(*filter(None, map(units.get, other.values)))
        if not known or (other.unit and known.isdisjoint((other.unit, ""))):
            return False
    return True


def _without(numbers: Sequence[Number], others: Sequence[Number]) -> list[Number]:
    return [one for one in numbers if not any(map(one.may_be, others))]


def _denies(negated: Reading, other: Reading) -> bool:
    """True where the other says all that the first denies: not "not Lima but Cusco", "Cusco"."""
    if not negated.content:
        return not other.content
    others = frozenset(other.content)
    said = frozenset(negated.content) - (opposed().keys() - others)  # "no longer a planet"
    return bool(said) and said <= others


def _denied(text: Reading) -> list[str]:
    """What stands behind each word that negates: "no fever but a cough"."""
    return sorted(behind for word, behind in pairwise(text.frame) if word in NEGATIONS)


def _are_opposed(a: Reading, b: Reading) -> bool:
    """True where words are the same but for opposites, also "on" and "under", labels and signs."""
    if len(a.frame) != len(b.frame):
        return False
    names, said = a.names | b.names, {*a.content, *b.content}
    for word, other in zip(a.frame, b.frame, strict=True):
        pair, are_signs = {word, other}, not (word.isalnum() or other.isalnum())
        are_labels = len(word) == len(other) == 1 and (are_signs or pair <= names)
        are_labels |= pair <= _JOINING  # "A and B", "A or B"
        are_labels |= len(pair & said) == 1 and not opposed().keys().isdisjoint(pair)
        if word != other and other not in opposed().get(word, ()) and not are_labels:
            return False
    return True


def _are_picked(a: Reading, b: Reading, asked: Set[str]) -> bool:
    """True where each has words of the question that the other lacks: "Anna won.", "Bert won."

    But for one answer behind them: "The author is Orwell." and "The name is Orwell."
    """
    ours, theirs = set(a.frame), set(b.frame)
    ends = {*a.frame[-1:], *b.frame[-1:]} & ours & theirs - asked
    is_answered = not ends.isdisjoint(a.capitals | {"#"})
    ours, theirs = ours - theirs, theirs - ours
    return bool(ours and theirs) and asked >= ours | theirs and not is_answered


def _are_exchanged(a: Reading, b: Reading) -> bool:
    """True where two names have changed places around what one does to the other."""
    ours, theirs = list(a.frame), list(b.frame)
    while ours[0] == theirs[0]:
        del ours[0], theirs[0]
    while ours[-1] == theirs[-1]:
        del ours[-1], theirs[-1]
    names, size = a.names | b.names, len(ours)
    lengths = range(1, min(size - 2, _MOST_WORDS_OF_NAME) + 1)
    for first, last in product(lengths, lengths):
        middle = ours[first : size - last]
        if middle and theirs == ours[size - last :] + middle + ours[:first]:
            are_names = {ours[0], ours[-1]} <= names or len(ours[0] + ours[-1]) == 2  # "x > y"
            is_chain = not all(map(str.isalnum, middle))  # "A → B → C"
            is_list = not (a.pauses | b.pauses).isdisjoint(ours)
            is_list |= not (is_chain or names.isdisjoint(middle))
            does = _MUTUAL.isdisjoint(middle) and not PASSIVE.issuperset(middle)
            return are_names and does and not is_list
    return False


def _have_other_codes(a: Reading, b: Reading) -> bool:
    """True where code that is no list is in another order: "mv a.txt b.txt"."""
    is_list = not (_JOINING.isdisjoint(a.frame) and (a.pauses | b.pauses).isdisjoint(a.codes))
    return a.codes != b.codes and not is_list
