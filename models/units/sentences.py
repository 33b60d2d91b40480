"""The spans of the sentences of a text, and the text without some of them."""

import calendar
import re
import tomllib
from collections.abc import Collection, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from sentencex import get_sentence_boundaries

from models.records import Span
from models.units.markdown import Block, blocks

_LISTS: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
_pattern = partial(re.compile, flags=re.IGNORECASE | re.VERBOSE | re.DOTALL)
_LANGUAGE_OF: dict[str, frozenset[str]] = {}
for _name, _words in _LISTS["languages"].items():
    _LANGUAGE_OF[_name] = frozenset(_words.split())
_CYRILLIC = re.compile("[\u0430-\u0451]", re.IGNORECASE)
_MAX_WORDS_READ = 1000
_MAX_SPLIT = 10_000  # characters that the splitter reads at once
_WORD = re.compile(r"[^\W\d_]{2,}")  # a letter alone is often an initial
# A number of a list that is written inline, which the splitter takes for a sentence.
_NUMBER = re.compile(r"\s*\(?\d{1,3}[.)]\s*$")
# A letter, a Roman numeral or "Step 1", or any of them in bold, which begins an item.
_BEGINS_ITEM = re.compile(
    r"\s*()[*_]*\(?(?:(?:[^\W\d_a-z]\w* )?\d{1,3}|[A-Za-z]|[ivxIVX]{2,4})[.)][*_]*\s*$"
)
# What belongs to the sentence that ends before it: the end of bold, and notes without a blank.
_SIGN = r"[*_~$\u2020\u2021\u00b9\u00b2\u00b3\u2070-\u2079]|\^\d*"
_NOTE = rf"{_SIGN}|,(?={_SIGN}|\[|$)|\[[^\]\n]{{1,30}}\]|[(\u3010][^\s)\u3011]{{1,20}}[)\u3011]"
_BEHIND = re.compile(rf"(?<=\S)(?:{_NOTE}|<sup>.{{1,9}}</sup>)+(?:\s+|$)")
# A note behind a blank, which is the next sentence's where the first one begins with such a note.
_NOTED = re.compile(
    r"(?:(?:\[[^].!?\n]{1,30}\](?:\(\S{,200}\))?|\u3010[^\u3011\n]{1,60}\u3011|\([^().!?\n]{,30}[12]"
    r"\d{3}\)|\^\d+\^?|[\u2020\u2021\u00b9\u00b2\u00b3\u2070-\u2079])\s*)++(?=[^\W\d_a-z]|$)"
)
# Ends that the splitter takes for abbreviations: of a time of day, of an address in the web and of
# a file, "etc."; and others, as of a bracket, of Khmer, Tibetan, and Chinese before a number.
_DATES = "|".join(filter(None, [*calendar.day_name, *calendar.month_name]))
_FURTHER_END = re.compile(
    r"(?:(?:\d\s?[ap]\.m|/(?:[^\s/]*[^\s/.])?|\w{2}\.\w{2,4}|\b(?:etc|usw|т\. ?[дп]))\."
    r"|\u2026|\w{3}(?<!Inc|Ltd)\.\))\s+(?=\(?[A-Z\u0410-\u042f][^\W\d_]+(?:\W|_))"
    rf"(?!(?:{_DATES}|[A-Z]{{2,4}})\b)|[\u17d4\u0f0d]\s*"
    r"|[\u3002\uff01\uff1f](?:\uff09|(?=[\d\uff08]))"
)
# German: "im 19. Jahrhundert", "der 2. Weltkrieg"; what comes is a noun, and so has a capital.
_GERMAN_ORDINAL = re.compile(
    r"(?i)\b(?:d(?:er|ie|as|e[mns])|[ai]m|vo[mn]|zu[mr]|beim|ins|bis|seit|[msk]?ein\w{,2}"
    r"|(?:ihr|unser)\w{,2})\s+\d{1,3}\.\s*$"
)
# A line of a list without markers: "Capital: Lima", "**Capital:** Lima".
_LABELLED = re.compile(r"(?m:^)[*_]*[^\W\d_a-z][^\n:.!?\uff1a]{0,40}(?:\uff1a|:[*_]*[ \t])[ \t]*\S")
_MARKUP = re.compile(r"</?[a-z][a-z0-9]*(?:\s[^<>]*)?/?>|<!--[^<]*-->|&[a-z]{2,8};")
_SAYS_SOMETHING = re.compile(r"[^\W_]")
_GOES_ON = _pattern(rf"(?:^|[^\w.])(?:{_LISTS['goes_on']})\.$")
_NUMBERED = _pattern(rf"(?:^|[^\w.])(?:{_LISTS['numbered']})\.$")
# "ASP.NET", ".NET", "5 p.m. EST"; so they said.
_HANGS_ON = re.compile(
    r"\.-\w|(?<=[A-Z\s])\.[A-Z]{2}|(?<=\.m\.)\s(?:[A-Z]{1,2}[SD]?T|UTC)\b|[」』](?:と|って)"
)
_NUMBERS = re.compile(r"[(#]?(?:\d|[IVXLC]+\b|[A-Z](?![^\W\d_]))")
_AHEAD = 32
# No claims: questions, greetings and courtesies, and what announces the lines behind it.
_QUESTION = re.compile(
    r"[?\uff1f\u061f\u037e][?!\uff01\uff1f]*(?P<quote>[\"'\u201d\u2019\u00bb]?)[)\]*_\s]*$"
)
_ANNOUNCES = re.compile(r"[:\uff1a][*_\s]*$")
_COURTESY = _pattern(rf"\W*(?:{_LISTS['courtesies']})$")


def sentence_spans(text: str) -> list[Span]:
    r"""The span of each sentence without white space around it; in order, without overlap.

    Code, headings, questions, greetings, what announces a list, and what has neither letter nor
    digit are in none; a row of a table is one.

    >>> sentence_spans("# Peru\nDr. Ash has 3.5 cats. 1. Yes. ")
    [(7, 28), (29, 36)]
    """
    language = language_of(text)
    spans = []
    for block in _blocks(text):
        spans += _spans_in(text, block, language)
    return spans


def without_sentences(text: str, removed: Collection[Span]) -> str:
    r"""The text without some of its sentences; an item of a list that loses all goes as a whole.

    >>> without_sentences("Sums:\n- One. Two.\n- Three.\n", [(13, 17), (20, 26)])
    'Sums:\n- One.\n'
    """
    language, gone = language_of(text), frozenset(removed)
    kept, position = [], 0
    for block in _blocks(text):
        spans = _spans_in(text, block, language)
        if spans and gone.issuperset(spans):
            cuts = [(block.line, block.end)]
        else:
            cuts = [_with_blanks(text, span, block) for span in spans if span in gone]
        for start, end in cuts:
            kept.append(text[position:start])
            position = max(position, end)
    return "".join([*kept, text[position:]])


def language_of(text: str) -> str:
    """The language whose abbreviations count, by its frequent words; "en" where none occurs.

    >>> language_of("Er kam am 3. Mai."), language_of("2 + 2")
    ('de', 'en')
    """
    if _CYRILLIC.search(text):
        return "ru"
    words = _WORD.findall(text[: _MAX_WORDS_READ * 8].lower())[:_MAX_WORDS_READ]
    return max(_LANGUAGE_OF, key=lambda name: sum(map(_LANGUAGE_OF[name].__contains__, words)))


def _blocks(text: str) -> Iterator[Block]:
    """The blocks of a text; of a list without markers each line is one."""
    for block in blocks(text):
        starts = [line.start() for line in _LABELLED.finditer(text, block.start, block.end)]
        if block.is_row or block.start not in starts:
            yield block
            continue
        for start, end in pairwise([*starts, block.end]):
            line = block.line if start == block.start else start
            yield Block(line, start, end)


def _spans_in(text: str, block: Block, language: str) -> list[Span]:
    """The sentences of one block."""
    if block.is_row:
        return _trimmed(text, block.start, block.end)
    spans, begins_at = list[Span](), block.start
    noted = _BEHIND if _NOTED.match(text, block.line, block.end) else _NOTED
    content = re.sub(r"<(?=[\s\d=])", " ", text[block.start : block.end])  # which begins no tag
    # Characters that are not printable count as blanks: the splitter fails on some of them.
    plain = "".join(sign if sign.isprintable() else " " for sign in content)
    ends = _ends_in(plain, language) | {match.end() for match in _FURTHER_END.finditer(plain)}
    for index in sorted(ends):
        end = block.start + index
        if behind := _BEHIND.match(text, end, block.end) or noted.match(text, end, block.end):
            end = behind.end()
        near = max(begins_at, end - _AHEAD)
        item, is_first = _BEGINS_ITEM.match(text, begins_at, end), begins_at == block.start
        if end < block.end and (
            (item and (is_first or "\n" in text[begins_at - 1 : item.start(1)]))
            or _NUMBER.match(text, begins_at, end)
            or (language == "de" and _GERMAN_ORDINAL.search(text, near, end))
            or _goes_on(text, begins_at, end, block.end)
        ):
            continue
        if _claims(text[begins_at:end]):
            spans += _trimmed(text, begins_at, end)
        begins_at = max(begins_at, end)
    return spans


def _ends_in(content: str, language: str) -> set[int]:
    """Ends of sentences by the splitter; in parts, as its time grows with the square."""
    ends, start = set[int](), 0
    while start < len(content):
        part = content[start : start + _MAX_SPLIT]
        found = [start + one["end_index"] for one in get_sentence_boundaries(language, part)]
        start += len(part)
        if start < len(content):
            found = found[:-1]  # the last one may go on
            start = max(found, default=start)
        ends.update(found)
    return ends


def _goes_on(text: str, start: int, end: int, block_end: int) -> bool:
    """True where what the splitter takes for a sentence goes on behind its full stop."""
    first = text[start : start + _AHEAD].lstrip()[:1]
    before = text[max(start, end - _AHEAD) : end].rstrip()
    after = text[end : min(end + _AHEAD, block_end)].lstrip()
    if first.isupper() and after[:1].islower() and before.endswith((".", "]")):  # "et al. [1] show"
        return True
    is_joined = _GOES_ON.search(before) or _HANGS_ON.match(text, end - 1, block_end)
    return bool(is_joined or (_NUMBERED.search(before) and _NUMBERS.match(after)))


def _claims(sentence: str) -> bool:
    """True where a sentence is a claim, which may be right or wrong."""
    end = sentence[-_AHEAD:]
    if question := _QUESTION.search(end):
        is_quoted = sentence.lstrip()[:1] in "\"'\u201c\u2018\u00ab"
        return bool(question["quote"]) and not is_quoted  # "He asked: 'Why?'"
    return not (_ANNOUNCES.search(end) or _COURTESY.match(sentence))


def _trimmed(text: str, start: int, end: int) -> list[Span]:
    """The span without white space around it, if it says anything."""
    content = text[start:end]
    if not _SAYS_SOMETHING.search(_MARKUP.sub("", content)):
        return []
    start += len(content) - len(content.lstrip())
    return [(start, start + len(content.strip()))]


def _with_blanks(text: str, span: Span, block: Block) -> Span:
    """A sentence with the white space behind it, or at a block's end that before it."""
    start, end = span
    behind = end + len(text[end : block.end]) - len(text[end : block.end].lstrip())
    if behind < block.end:
        return start, behind
    return block.start + len(text[block.start : start].rstrip()), end
