"""Pure: what an answer adds to its question, by which answers to one question differ.

Sentences about one subject are alike whatever they say of it.
"""

import re
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from itertools import chain, filterfalse, pairwise, takewhile
from operator import attrgetter

from models.similarity.reading import Item, asked_in, read
from models.similarity.vocabulary import ARTICLES, NEGATIONS, VERDICTS, opposed

# Between what one may choose from, and in front of what is not chosen.
_OR = frozenset(["or", "oder", "ou", "o", "или"])
_REFUSES = frozenset(["than", "als", "что", "not", "nicht", "pas", "no", "non", "чем", "än"])
_KEY = attrgetter("key")
_YES, _NO = Item("yes", "word", "yes"), Item("no", "word", "no")
_LONGEST_CHOICE, _FEWEST_COMMAS = 3, 2


@dataclass(frozen=True, slots=True)
class QuestionWords:
    """The words of a question that its answers may repeat, by their keys."""

    in_order: tuple[str, ...] = ()  # all that say something
    repeated: frozenset[str] = frozenset()  # those of earlier questions, too, but names
    offered: frozenset[str] = frozenset()  # those that it lets one choose from
    opposed: frozenset[str] = frozenset()  # to one of them: "smaller" to "larger"
    said: frozenset[str] = frozenset()  # all of them, and those that say nothing


def question_words(*prompts: str) -> QuestionWords:
    """The words of the last question, of earlier ones but names, and those it lets one choose from.

    >>> sorted(question_words("Which is longer, the Nile or the Amazon?").offered)
    ['amazon', 'nile']
    """
    *earlier, question = map(asked_in, prompts)
    whole = read(question)
    items = [item for item in whole if item.key in _OR or not item.says_nothing]
    offered = _listed(whole)
    for before, item in pairwise(items):
        if _OR & {before.key, item.key}:
            offered |= {before.key, item.key}
    offered -= _OR
    words = tuple(map(_KEY, items))
    of_earlier = (item.key for item in chain(*map(read, earlier)) if item.text.islower())
    denying = frozenset(chain(*(opposed().get(word, ()) for word in words))) - frozenset(words)
    said = frozenset(map(_KEY, whole))
    return QuestionWords(words, frozenset((*words, *of_earlier)), frozenset(offered), denying, said)


def _listed(items: Sequence[Item]) -> set[str]:
    """The words of a list with which a question ends: "red, green, blue?"."""
    found, segment, num_commas = set[str](), list[str](), 0
    for item in reversed(items):
        if item.ends == ",":
            found.update(segment)
            segment, num_commas = [], num_commas + 1
        is_unlisted = item.says_nothing and item.key not in ARTICLES | _OR
        if is_unlisted or (segment and item.ends) or len(segment) == _LONGEST_CHOICE:
            break
        segment.append(item.key)
    if num_commas < _FEWEST_COMMAS:
        return set()
    return found.union(segment[:1])  # what stands in front of the first may belong to no choice


def added(items: Sequence[Item], question: QuestionWords) -> list[Item]:
    """The items that say something and do not repeat the question.

    The choice among what the question offers stays: "the Nile" and not the Amazon. An answer that
    adds nothing becomes its "yes" or "no", or stays as it is.
    """
    told, new, refused = list[Item](), list[Item](), list[Item]()
    is_refusing = False
    for item in items:
        if not item.says_nothing:
            told.append(item)
            is_new = item.key in question.offered or not _repeats(item, question)
            if is_new and is_refusing and (item.key in question.offered or item.text[:1].isupper()):
                refused.append(item)
            elif is_new:
                new.append(item)
        if item.key in _REFUSES or not item.says_nothing:
            is_refusing = item.key in _REFUSES
    new = _chosen(new, refused, question)
    repeated = filterfalse(VERDICTS.__contains__, map(_KEY, told))
    is_affirming = VERDICTS.issuperset(map(_KEY, new)) and _is_part(repeated, question.in_order)
    if is_affirming and told and NEGATIONS.isdisjoint(question.in_order):
        return _verdict(items, question.said)
    if new and new[0] is items[0] and new[0].key in VERDICTS and new[0].ends:  # "Nein, es ist Lima"
        new[0] = new[0]._replace(key=(_NO if new[0].key in NEGATIONS else _YES).key)
    return new or told or list(items)


def _verdict(items: Sequence[Item], said: Set[str]) -> list[Item]:
    """The "yes" or "no" of an answer; of "I do not know" what it denies that nobody asked."""
    denied = list(takewhile(lambda item: item.key not in NEGATIONS, reversed(items)))
    if len(denied) == len(items):
        return [_YES]
    is_no = items[0].ends and items[0].key in VERDICTS
    if is_no or not denied or not said.isdisjoint(map(_KEY, denied)):
        return [_NO]
    return [Item(f"not {denied[0].text}", "word", f"not {denied[0].key}")]


def _repeats(item: Item, question: QuestionWords) -> bool:
    """True where the question has the item, or all words of a name as "currency_code"."""
    return question.repeated.issuperset(item.key.casefold().split("_"))


def _chosen(new: list[Item], refused: list[Item], question: QuestionWords) -> list[Item]:
    """What is chosen; "Saturn is smaller than Jupiter" chooses the latter as the larger one."""
    keys = {item.key for item in new}
    chosen = keys & question.offered
    if refused and not question.opposed.isdisjoint(keys) and NEGATIONS.isdisjoint(keys):
        return [item for item in new if item.key not in chosen] + refused
    if refused and not (chosen or any(item.text[:1].isupper() for item in new)):
        return new + refused
    not_chosen = {item.key for item in refused}
    return [item for item in new if item.key not in not_chosen]


def _is_part(words: Iterable[str], sentence: Iterable[str]) -> bool:
    """True where a sentence has these words in their order, so that "A is larger than B" is."""
    rest = iter(sentence)
    return all(word in rest for word in words)


@dataclass(frozen=True, slots=True)
class Words:
    """The words of a text as sets, by which texts are alike."""

    exact: frozenset[str]  # with signs and code as they are written
    loose: frozenset[str]  # without signs, and code by its letters and digits alone
    operators: frozenset[str] = frozenset()  # that make another quantity of what they join
    repeated: frozenset[str] = frozenset()  # of a question that it answers by its own words alone


def words_of(items: Sequence[Item]) -> Words:
    """The words of items; of a number with a unit its value without one, too."""
    exact, loose = set[str](), set[str]()
    for item in items:
        if item.key == "by":  # which only rules read
            continue
        if item.number is None:
            exact.add(item.key)
            if item.kind == "code":
                loose.add(re.sub(r"[\W_]", "", item.key.casefold()))
            elif item.kind == "word":
                loose.add(item.key)
            continue
        keys, unit = {item.key}, item.number.unit
        if item.number.name:
            keys.add(str(item.number.values[0]))
        if unit == "date":
            keys.update(f"{value} date" for value in item.number.values)
        elif unit[-1:].isalpha():  # 10 % are not 10
            keys.add(str(item.number.written))
        exact |= keys
        loose |= keys
    return Words(frozenset(exact), frozenset(loose - {""}), _operators(items))


def _operators(items: Sequence[Item]) -> frozenset[str]:
    """Signs between numbers, code or letters, behind the last "=": "12 * 15 = 180" says 180."""
    found = set[str]()
    for before, sign, behind in zip(items, items[1:], items[2:], strict=False):
        beside = before, behind
        are_operands = all(one.kind in ("number", "code") or len(one.text) == 1 for one in beside)
        if sign.key == "=":
            found.clear()
        elif sign.kind == "sign" and are_operands:
            found.add(sign.key)
    return frozenset(found)


def containment(a: Words, b: Words) -> float:
    """Share of the words of the text with fewer of them that the other has, signs counting half.

    Of the text with more words where an operator is in one alone: "2x + 3" is not "2x".
    """
    if a.repeated and b.repeated:  # "yes", or what each has picked
        a, b = Words(a.repeated, a.repeated), Words(b.repeated, b.repeated)
    of, shares = min, 0.0
    if a.operators != b.operators:
        of = max
    for words, others in ((a.exact, b.exact), (a.loose, b.loose)):
        shares += len(words & others) / max(1, of(len(words), len(others)))
    return shares / 2


def share_contained(statement: Words, text: Words) -> float:
    """Share of a statement's words that a text has, too; 1 for one without words."""
    if not statement.exact:
        return 1.0
    return len(statement.exact & text.exact) / len(statement.exact)
