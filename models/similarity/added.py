"""Pure: what an answer adds to its question, by which answers to one question differ.

Sentences about one subject are alike whatever they say of it.
"""

import re
import unicodedata
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from models.similarity.numbers import listed
from models.similarity.reading import COUNTED, NUMBER, PREFIXES, SIGNS, Item, read
from models.similarity.words import FUNCTION_WORDS, OPPOSED, PASSIVE

_NOT = Item("not", ("not",))
# Between what one may choose from, and in front of what is not chosen.
_OR = listed("or oder ou o или eller lub")
_REFUSES = listed("than als чем än not nicht pas no non não не")
# Relations between the numbers beside them.
_OF_NUMBERS = listed("to bis a à al até or oder ou o of von de di by in")
# A question at the end of a prompt that wants a yes or a no, and denies nothing itself.
_WANTS_YES_OR_NO = re.compile(
    r"""(?:^|[\n.:!?])\W{0,8}
    ((?:is|are|was|were|do|does|did|can|could|has|have|had|will|would|should|may
    |ist|sind|war|waren|hat|haben|kann|können|wird|est-ce|es|son|fue|puede|tiene|hay|é|è|sono)
    \s(?:(?!\b(?:not?|never|nicht|kein\w*|pas|non|não)\b|n't)[^\n.?]){1,400}\?)
    \W{0,8}(?:yes\ or\ no\W{0,8})?(?:\w{1,40}:\s{0,8})?$""",
    re.IGNORECASE | re.VERBOSE,
)
_LONGEST = 500
_SHORT_LINE = re.compile(rf"^.{{1,{_LONGEST}}}$", re.MULTILINE)
_ASKS = re.compile(r"\?(?!\w)|[\uff1f\u061f]")  # "?" in a URL asks nothing
# Behind a word that is no abbreviation.
_SENTENCE_END = re.compile(
    r"(?<=\w{3}[.!?])\s+|(?<=[\d)\"\u201d][.!?])\s+|(?<=[\u3002\uff1f\u061f])\s*"
)
_YES = listed("yes yeah yep ja oui sí sì sim")
_NO = listed("no not nein nicht non pas não не нет nee niet nej inte nei ikke")
# Endings of Korean nouns, and what Turkish and English nouns have behind an apostrophe.
_ENDING = re.compile(
    "(?<=[\uac00-\ud7a3])(?:입니다|이다|예요|에서|으로|은|는|이|가|을|를|의|에|로|와|과)$"
    "|(?<=\\w{3})'[^\\W\\d_]{1,4}$"
)
# "it's", "they've": what hangs on a function word.
_CONTRACTED = re.compile("'(?:s|m|d|re|ve|ll)$")
# Without its sign such a number is another one: "10 %" and "10".
_UNIT_SIGN = re.compile("[%$€£¥₹]")
# Make one word of the terms beside them where one is a letter: "x^2" is not "2x".
_OF_FORMULAS, _VARIABLE = listed("+ * ^ ^- **"), re.compile(r"(?<![^\W\d_])[^\W\d_](?![^\W\d_])")
_TEXT = r"th(?:e|is)\s(?:\w+\s)?(?:text|context|passage|document|article|information)\b"
_TEXT += r"(?:\s(?:provided|given|above)\b)?"
# What is said not to be it: "Lima, not Cusco", "not Cusco but Lima"; and where it is read.
_ASIDE = re.compile(
    r",\s(?:and\s|but\s|und\s)?(?:not|nicht|rather than|instead of)\s(?:in\s|on\s|at\s)?[A-Z\d]"
    r"[^,.;]{0,30}(?=[.,;!]|$)|\bnot\s(?:in\s|on\s|at\s)?[A-Z\d][^,.;]{0,30}?,?\sbut\s"
    rf"|\b(?i:according\sto|based\son)\s{_TEXT}|\b(?i:{_TEXT})\s(?:says|states)(?:\sthat)?\b"
)
# A letter that begins a sentence, and the word behind it: "A carrot", and neither "A is" nor "(A)".
_ARTICLE = re.compile(r"(?:^|[.!?:\n])\W{0,9}([^\W\d_])[^\S\n]+(?!(?:is|was)\b)([\w'-]+)")
# "l'eau", "d'Ivoire".
_ELISION = re.compile("^(?:[cdjlmnst]|qu)'")
# Letters by which British and American spellings differ: "colour", "organise".
_BRITISH = re.compile(r"(?<=[a-z]{3}o)u(?=r)|(?<=[a-z]{2}[iy])[sz](?=(?:e[drs]?|ing|ations?)$)")


@dataclass(frozen=True, slots=True)
class QuestionWords:
    """The words of a question that its answers may repeat.

    Attributes:
        words: of the question.
        offered: those of them that it lets one choose from.
        opposed: to one of them: "smaller" to "larger".
        to_affirm: the words in their order of what it wants a yes or a no to, if it ends in that.
    """

    words: frozenset[str] = frozenset()
    offered: frozenset[str] = frozenset()
    opposed: frozenset[str] = frozenset()
    to_affirm: tuple[str, ...] = ()


def asked_in(prompt: str) -> str:
    """The questions of the last line that has one; all short lines where none has.

    What stands around them may hold the answer: a text to read, questions that are answered.
    """
    if asking := list(filter(_ASKS.search, prompt.splitlines())):
        return " ".join(filter(_ASKS.search, _SENTENCE_END.split(asking[-1])))
    return " ".join(_SHORT_LINE.findall(prompt)) or prompt


def question_words(*prompts: str) -> QuestionWords:
    """The words of the last question, of earlier ones but names, and those it lets one choose from.

    >>> sorted(question_words("Which is longer, the Nile or the Amazon?").offered)
    ['amazon', 'nile']
    """
    *earlier, question = map(asked_in, prompts)
    offered = set[str]()
    items = [item for item in read(question) if item.word in _OR or not _says_nothing(item)]
    for before, item, behind in zip(items, items[1:], items[2:], strict=False):
        if item.word in _OR:
            offered |= {*_keys(before), *_keys(behind)}
    to_affirm: tuple[str, ...] = ()
    match = _WANTS_YES_OR_NO.search(question[-_LONGEST:])
    if match and _OR.isdisjoint(match[1].split()):
        to_affirm = tuple(chain.from_iterable(map(_keys, read(match[1]))))
    again = [item.text for before in earlier for item in read(before) if item.text.islower()]
    words = {item.word for item in items}
    opposed = frozenset(chain.from_iterable(OPPOSED.get(word, ()) for word in words)) - words
    repeated = word_set(" ".join([question, *again]))
    return QuestionWords(repeated, frozenset(offered), opposed, to_affirm)


def added(text: str, question: QuestionWords) -> str:
    """The words of a text without those of its question, and without function words.

    A text that adds nothing becomes its words without function words, or where there are none,
    stays whole. Numbers always stay, names that are spelled as a function word, and the choice
    among what the question offers: "the Nile" and not the Amazon.

    >>> added("The capital of Peru is Lima.", question_words("What is the capital of Peru?"))
    'Lima'
    >>> question = question_words("Is it safe?")
    >>> [added(text, question) for text in ("It is safe.", "It isn't.", "Yes!")]
    ['yes', 'no', 'yes']
    """
    every, telling = read(_ASIDE.sub("", text)), dict[int, Item]()
    articles = set(_ARTICLE.findall(text))
    for i, item in enumerate(every):
        if item.word == "cannot" or item.word.endswith("n't"):
            telling[i] = _NOT  # the verb before it says nothing
        elif not _says_nothing(item) or _is_telling(every, i, articles):
            telling[i] = item
    new, refused = dict[int, Item](), list[int]()  # "than", "not", which may go with the next word
    not_chosen = set[str]()
    words = {item.word for item in telling.values()}  # "Saturn is smaller than Jupiter."
    is_turned = words.isdisjoint(_NO) and not words.isdisjoint(question.opposed)
    for i, item in telling.items():
        keys = frozenset(_keys(item))
        if any(map(str.isdigit, item.text)) or question.words.isdisjoint(keys):
            new[i] = item
        elif not question.offered.isdisjoint(keys):
            if refused and all(_says_nothing(between) for between in every[refused[-1] + 1 : i]):
                new.pop(refused[-1], None)
                not_chosen |= question.offered - keys if is_turned else keys
            if is_turned or not_chosen.isdisjoint(keys):
                new[i] = item
        if item.word in _REFUSES:
            refused.append(i)
    chosen = {i: item for i, item in new.items() if not_chosen.isdisjoint(_keys(item))}
    if any(not question.offered.isdisjoint(_keys(item)) for item in chosen.values()):
        new = chosen  # "Both are large, but Saturn is smaller than Jupiter."
    return _yes_or_no(every, telling, question) or _text(new) or _text(telling) or text


def _yes_or_no(every: Sequence[Item], telling: Mapping[int, Item], question: QuestionWords) -> str:
    """A text's "yes" or "no" where it adds no more to such a question; "" of another text.

    It repeats the question in its order: "Is Rome larger than Paris?" is not affirmed by "Paris is
    larger than Rome."
    """
    verdicts = {item.word for item in (*every, *telling.values())} & (_YES | _NO)
    repeated = [item for item in telling.values() if item.word not in verdicts]
    if not question.to_affirm or not (verdicts or repeated):
        return ""
    following = iter(question.to_affirm)
    for item in repeated:
        if not any(key in following for key in _keys(item)):
            return ""
    return "no" if verdicts & _NO else "yes"


def _says_nothing(item: Item) -> bool:
    word = item.word
    return word in FUNCTION_WORDS or ("'" in word and _CONTRACTED.sub("", word) in FUNCTION_WORDS)


def _text(items: Mapping[int, Item]) -> str:
    """Items by their places as a text; a comma where a number would get a unit from elsewhere."""
    written, before = "", _NOT
    for i, item in items.items():
        is_apart = before.numbers and i - 1 not in items
        written += f"{',' if is_apart else ''} {item.text}" if written else item.text
        before = item
    return written


def _is_telling(every: Sequence[Item], i: int, articles: Container[tuple[str, str]]) -> bool:
    """True where a function word is a name ("The Who", "Vitamin A"), or part of a formula."""
    item, before, behind = every[i], every[i - 1] if i else _NOT, every[i + 1 : i + 2]
    if item.word == "by" and i > 2 and every[i - 2].word in PASSIVE:  # shows who did it to whom
        return True
    if before.numbers and behind and behind[0].numbers:
        return item.word in _OF_NUMBERS
    if before.frame[0] in SIGNS or (behind and behind[0].frame[0] in SIGNS):
        return True
    if len(item.word) == 1 and item.word != "i":
        return not behind or (item.text.isupper() and (item.text, behind[0].text) not in articles)
    if item.text == "I":
        is_behind_name = before.text[:1].isupper() and before.word not in FUNCTION_WORDS
        return is_behind_name or before.word in COUNTED or not behind
    is_first_name = item.word in ("will", "may") and bool(behind) and behind[0].text[:1].isupper()
    return item.text.isupper() or (item.text[0].isupper() and (i > 0 or is_first_name))


def containment(a: frozenset[str], b: frozenset[str]) -> float:
    """Share of the words of the text with fewer of them that the other has; 1 for two without any.

    >>> containment(frozenset(("leo", "tolstoy")), frozenset(("tolstoy",)))
    1.0
    """
    if not a or not b:
        return float(a == b)
    return len(a & b) / min(len(a), len(b))


def share_contained(statement: frozenset[str], text: frozenset[str]) -> float:
    """Share of a statement's words that a text has, too; of none, 1 where it has none."""
    if not statement:
        return float(not text)
    return len(statement & text) / len(statement)


def word_set(text: str) -> frozenset[str]:
    """The distinct words of a text, without case, accents and endings; numbers by value.

    >>> sorted(word_set("Peru's twelve cafés")), word_set("12") <= word_set("the 12th")
    (['12', 'cafes', 'peru'], True)
    """
    items = [item for item in read(text) if item.word != "by"]  # see `_is_telling`
    words, terms = set[str](), list[str]()
    for item, behind in zip(items, (*items[1:], _NOT), strict=False):
        terms += _keys(item)
        if _OF_FORMULAS.isdisjoint((item.text, behind.text)):
            has_letter = len(terms) > 2 and _VARIABLE.search(" ".join(terms))
            words.update(["".join(sorted("".join(terms).split("+")))] if has_letter else terms)
            terms = []
    return frozenset(words if items else text.split()) - {"="}


def _keys(item: Item) -> Iterator[str]:
    """The keys of an item that others are compared by; of a number its value in base units."""
    sign = item.frame[0] if item.frame[0] in PREFIXES else ""
    if set(item.frame) - {sign} == set(NUMBER):
        for number in item.numbers:
            measured = number.in_base_unit()[0]
            yield f"{sign}{measured}{number.dimension}"
            if number.dimension == "share":
                yield f"{sign}{measured}"
            if number.dimension == "clock":
                yield f"{(number.values[0] - 1) % 12 + 1}"
            elif number.dimension not in ("", "month") and not _UNIT_SIGN.search(item.text):
                yield f"{sign}{number.values[0]}"
    elif item.numbers:
        yield item.text.casefold()
    elif item.text != "=":  # which says no more than "is"
        yield sign + _stem("-".join(item.frame[len(sign) :]))


def _stem(word: str) -> str:
    """A word without its accents, and without what hangs on it by grammar."""
    if word.isascii() and word.isalnum():
        # "pesos", and neither "Paris" nor "glass".
        word = word[:-1] if len(word) > 4 and word[-1] == "s" and word[-2] not in "sui" else word
        return _BRITISH.sub("", word) if len(word) > 5 else word
    return _ENDING.sub("", _ELISION.sub("", without_accents(word)))


def without_accents(text: str) -> str:
    """The text with letters for the accented ones, without the signs of Semitic vowels.

    >>> without_accents("São Tomé, が")
    'Sao Tome, が'
    """
    parted = unicodedata.normalize("NFD", text)
    letters = re.sub("[\u0300-\u036f\u05b0-\u05c7\u064b-\u0652]", "", parted)
    return unicodedata.normalize("NFC", letters)
