"""Pure: how far retrieved documents say what a sentence says, by its words alone.

Of a sentence count the words that it adds to its question: numbers and names as a whole, others by
how they begin, as verbs and plurals end differently, and pairs of characters where a script has no
blanks between words. Who denies what a document says has its words, too, and is not seen, but by a
model of natural language inference (NLI) beside the premises that words find.
"""

import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import chain, pairwise
from operator import attrgetter, itemgetter

from models.records import Pair, Span
from models.records import Sequence as TokenSequence
from models.similarity.reading import MARKS, NO_BLANKS, asked_in
from models.similarity.vocabulary import (
    VERDICTS,
    function_words,
    key_of,
    languages_of,
    number_words,
)
from models.units.parts import split
from models.units.sentences import language_of
from models.units.steps import WorkBudget
from models.units.unit import Unit

_MOST_SENTENCES = 3  # of one document, that may say together what one of the answer says
_MOST_PREMISES = 3  # of documents
_MISSING = 0.5  # a factor where numbers stand in no document, and another where names do
_ELSEWHERE = 0.5  # the same for a document that speaks of something else
_STEM = 5  # letters by which words of one stem are told from others
_LONGEST = 500  # characters of a document that count as one sentence, whatever ends it
_LETTER = rf"[^\W\d_{NO_BLANKS}]"
_PIECE = re.compile(
    rf"\d+(?:[.,]\d+)*|[{NO_BLANKS}]+|{_LETTER}(?:{_LETTER}|[{MARKS}])*(?:'{_LETTER}+)?"
)
_RUN = re.compile(f"[{NO_BLANKS}]")
_GROUP = re.compile(r"[.,](?=\d{3}(?!\d))")
# Where an answer names its sources: "[2]", "[1, 3]", "(document 2)".
_CITED = re.compile(
    r"(?i)\s?(?:[\[\u3010](?:doc(?:ument)?|source)?\s?\^?([^][\u3011\u2020]{1,80})(?:\u2020\w*)?"
    r"[]\u3011]|\((?:doc(?:ument)?|source)s? ([^()]{1,80})\))"
)
_NEXT_CITED = re.compile(r"\s*[,;\u2013]\s*\^?|(?<=\d)-(?=\d)")
_JSON = re.compile(r'\s*[\[{"]')
_ESCAPE = re.compile(r"\\[^u]")
_CODE = re.compile(r"\\u([\da-fA-F]{4})")
_Premise = tuple[str, Span, str]  # a document, the place of its best sentence, its best ones
_LINE = re.compile(rf"\S.{{0,{_LONGEST - 1}}}(?!\S)|\S.{{0,{_LONGEST - 1}}}")


def grounded(
    units: Sequence[Unit], documents: Sequence[Mapping[str, str]], prompt: str, steps: WorkBudget
) -> "Grounds":
    """What documents say of sentences or claims of an answer, by their words.

    1 for one that stands in a document word by word; else the share of what it adds to the question
    of a prompt that stands in the three best sentences of one document, or its title, halved where
    a number that it adds stands in no document, and where a name does. A document counts half that
    has names, and fewer of the question's than another one: it speaks of something else. A sentence
    without words of its own, as "I don't know", has 0, and counts for the mean only where all are
    such.

    Raises:
        InvalidRequest: looking for the words takes too many steps.
    """
    read, told, shares = _Documents(documents, steps), list[Unit](), list[float]()
    question = asked_in(prompt)
    asked = read.keys_in(question)
    has_names = language_of(" ".join(map(attrgetter("text"), units))) != "de"  # with capital nouns
    _, subjects = _said(question, (), has_names=has_names)
    for unit in units:
        text = read.without_sources(unit.text)
        words, named = _said(text, asked, has_names=has_names)
        repeated = subjects.keys() & read.keys_in(text)
        found = read.ground(replace(unit, text=text), words, named, repeated or subjects.keys())
        told.append(replace(found, text=unit.text))
        if words:
            shares.append(told[-1].grounded or 0.0)
    return Grounds(tuple(told), sum(shares) / max(1, len(shares)), read)


@dataclass(eq=False)
class Grounds:
    """What documents say of the sentences or claims of an answer.

    Attributes:
        units: with what documents say of each.
        share: the mean of that, in [0, 1].
    """

    units: tuple[Unit, ...]
    share: float
    _documents: "_Documents"

    @cached_property
    def _premises(self) -> list[list["_Premise"]]:
        """Of each unit the three best sentences of the three documents with most of its words."""
        texts = map(attrgetter("text"), self.units)
        return list(map(self._documents.most_like, texts))

    def pairs(self) -> list[Pair]:
        """What an NLI model is asked, to judge the units: premises, each before its unit.

        Raises:
            InvalidRequest: looking for the words takes too many steps.
        """
        asked = list[Pair]()
        for unit, premises in zip(self.units, self._premises, strict=True):
            asked += [(text, unit.text) for _, _, text in premises]
        return asked

    def judged(self, scores: Mapping[Pair, Sequence[float]]) -> "Grounds":
        """The same as an NLI model judges: by the premise that entails a unit most.

        scores: of each of `pairs`, probabilities in the order of `NLI_LABELS`.
        """
        told, shares = list[Unit](), list[float]()
        for unit, premises in zip(self.units, self._premises, strict=True):
            most, denying = -1.0, list[str]()
            for name, place, text in premises:
                entailed, neutral, denied = scores[text, unit.text]
                if denied > max(entailed, neutral):
                    denying.append(name)
                if entailed > most:
                    most = entailed
                    unit = replace(unit, grounded=most, document=name, document_span=place)
            told.append(replace(unit, denied_by_documents=tuple(denying)))
            if _said(unit.text, (), has_names=False)[0]:
                shares.append(told[-1].grounded or 0.0)
        return replace(self, units=tuple(told), share=sum(shares) / max(1, len(shares)))


@dataclass(frozen=True, slots=True)
class _Document:
    """A document's id and text, and the keys of its words."""

    doc_id: str
    title: str
    text: str
    sentences: list[tuple[Span, set[str]]]  # what the title has, each of them has
    standing: set[str]  # in any of them
    has_names: bool  # it speaks of somebody, or of something

    def premise(self, spans: Sequence[Span]) -> _Premise:
        """These sentences in their order, behind the title."""
        texts = []
        if self.title:
            texts.append(f"{self.title}.")
        for start, end in sorted(spans):
            texts.append(self.text[start:end])
        return self.doc_id, spans[0], " ".join(texts)


class _Documents:
    """All documents, and the keys of each piece of text, read once."""

    def __init__(self, documents: Sequence[Mapping[str, str]], steps: WorkBudget) -> None:
        self._steps, self._documents = steps, list[_Document]()
        self._keys = cache(_keys)
        self._names = {*map(itemgetter("doc_id"), documents), *map(str, range(len(documents) + 1))}
        for document in documents:
            title, text = self.keys_in(document["title"]), document["text"]
            sentences, standing = list[tuple[Span, set[str]]](), set(title)
            if _JSON.match(text):  # as tools give it; what is escaped is as long as before
                text = _ESCAPE.sub("  ", text.replace("\\n", " \n"))
            for start, end in _spans(text):
                steps.take()
                said = _CODE.sub(lambda found: chr(int(found[1], 16)), text[start:end])
                sentences.append(((start, end), title | self.keys_in(said)))
                standing |= sentences[-1][1]
            _, named = _said(f"the {document['title']}. {text}", (), has_names=True)
            has_names = not all(map(str.isdecimal, map(itemgetter(0), named)))
            about = document["doc_id"], document["title"], document["text"]
            self._documents.append(_Document(*about, sentences, standing, has_names))
        self._standing = set[str]().union(*map(attrgetter("standing"), self._documents))

    def without_sources(self, text: str) -> str:
        """The text without marks that name documents, by their ids or numbers from 0 or 1 on."""
        for mark in reversed([*_CITED.finditer(text)]):
            if self._names.issuperset(_NEXT_CITED.split(mark[1] or mark[2])):
                text = text[: mark.start()] + text[mark.end() :]
        return text

    def keys_in(self, text: str) -> set[str]:
        return set(chain.from_iterable(map(self._keys, _pieces(text))))

    def ground(self, unit: Unit, words: set[str], named: dict[str, str], topic: Set[str]) -> Unit:
        """A unit with what documents say of it.

        words, named: of `_said`; topic: names that a document about the question has.
        """
        share, text = 0.0, unit.text.rstrip(".! ")
        lacking = named.keys() - self._standing
        missing = sorted(map(named.__getitem__, lacking), key=unit.text.find)
        is_known = bool(words) and self._standing.issuperset(words)  # "Lima" is not "Limassol"
        most = max([len(topic & one.standing) for one in self._documents], default=0)
        for one in self._documents:
            self._steps.take(len(one.sentences))
            spans, said = _best(one.sentences, words)
            if is_known and (start := one.text.find(text)) >= 0:
                spans, said = [(start, start + len(text))], words
            part = len(said) / max(1, len(words))
            if one.has_names and len(topic & one.standing) < most:
                part *= _ELSEWHERE
            if spans and part > share:
                share = part
                unit = replace(unit, document=one.doc_id, document_span=spans[0])
        kinds = set(map(str.isdecimal, map(itemgetter(0), lacking)))  # numbers, and names
        share *= _MISSING ** len(kinds)
        return replace(unit, grounded=share, missing=tuple(missing))

    def most_like(self, text: str) -> list[_Premise]:
        """The premises of a sentence; none where one has it word by word."""
        text, found = self.without_sources(text), list[tuple[int, _Premise]]()
        words, _ = _said(text, (), has_names=False)
        for one in self._documents:
            self._steps.take(len(one.sentences))
            if text.rstrip(".! ") in one.text:
                return []
            spans, said = _best(one.sentences, words)
            if spans:
                found.append((len(said), one.premise(spans)))
        found.sort(key=itemgetter(0), reverse=True)
        return list(map(itemgetter(1), found[:_MOST_PREMISES]))


def _best(read: Sequence[tuple[Span, set[str]]], words: set[str]) -> tuple[list[Span], set[str]]:
    """The best sentences, that with most of the words first, and the words that they have."""
    having, best, said = dict[frozenset[str], Span](), list[Span](), set[str]()
    for span, keys in read:
        if not keys.isdisjoint(words):
            having.setdefault(frozenset(keys & words), span)  # the first of those that say the same
    for _ in range(min(_MOST_SENTENCES, len(having))):
        common = max(having, key=lambda one: len(one - said))
        if common <= said:
            break
        best.append(having[common])
        said |= common
    return best, said


def _said(
    statement: str, asked: Collection[str], *, has_names: bool
) -> tuple[set[str], dict[str, str]]:
    """Keys of what a statement adds, or of all if nothing; numbers and names of it as written."""
    words, named, pieces = set[str](), dict[str, str](), _pieces(statement)
    unsaid = function_words(languages_of(map(key_of, pieces)))
    for place, piece in enumerate(pieces):
        keys = _keys(piece)
        if not keys:
            continue
        may_say_nothing = place == 0 or piece.islower()  # names have capitals
        if keys[0] in VERDICTS or (may_say_nothing and keys[0] in unsaid):
            continue
        if _RUN.match(piece):
            words.update(keys)
        elif len(keys) == 1 or (has_names and _is_name(*pieces[place : place + 2], at=place)):
            words.add(keys[0])
            named[keys[0]] = piece
        else:
            words.add(keys[1])
    for key in named.keys() & asked:
        del named[key]
    return words.difference(asked) or words, named


def _is_name(piece: str, following: str = "", *, at: int) -> bool:
    """True for a word with a capital, but for "Cats" and the like at the beginning, where 0 is."""
    is_shown = at > 0 or (len(piece) > 1 and piece.isupper()) or following[:1].isupper()
    return is_shown and piece[0].isupper()


def _pieces(text: str) -> list[str]:
    """Numbers, words, and runs of a script without blanks, in their order."""
    return _PIECE.findall(unicodedata.normalize("NFKC", text).replace("\u2019", "'"))


def _keys(piece: str) -> tuple[str, ...]:
    """The key of a number but "one"; of a word, and of how it begins; those of pairs of signs."""
    if piece[0].isdecimal():
        whole, _, rest = _GROUP.sub("", piece).replace(",", ".").partition(".")
        return (f"{whole}.{rest.rstrip('0')}".rstrip("."),)
    if _RUN.match(piece):
        return tuple(map("".join, pairwise(piece))) or (piece,)
    key = key_of(piece)
    if number := number_words().get(key):
        return (str(number),) * (number > 1)
    return key, f"{key[:_STEM]}*"


def _spans(text: str) -> Iterator[Span]:
    """The spans of sentences, and of lines between them, in parts where they are longer."""
    edges = {0, len(text)}
    for unit in split(TokenSequence(text, text, 0, "given"), "sentences").units:
        edges.update(unit.spans[0])
    for start, end in pairwise(sorted(edges)):
        for line in _LINE.finditer(text, start, end):
            yield line.span()
